"""What starting costs: seconds from `krafla run` to the first token, and the resident peak of a process.

Everything cached is there already: the library is compiled, the model converted, the files lie in memory. Python's own
start is the time until the command's modules are imported.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from krafla.runtime.cpu import cpu_name
from krafla.tools.doc_tables import replace_between, table
from krafla.tools.errors import KraflaError

PROMPT = "The river rises in the hills of the north and runs through four old towns to"
IMPORTS = "import krafla.runtime.cli, krafla.runtime.cmd_run, krafla.runtime.model"
PEAK = """
import sys
from krafla.runtime.model import Model
with Model.load(sys.argv[1], ctx=256) as model:
    model.logits([1 + i % 100 for i in range(16)])
"""
HEAD = ("what", "measured")
MEGA = 1e-6


@dataclass(frozen=True)
class Start:
    """Medians in seconds: to the first token, and Python's part of them."""

    first_token: float
    python: float


def first_token(command: Sequence[str]) -> float:
    """Seconds until the command writes its first byte."""
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0) as child:
        assert child.stdout
        first = child.stdout.read(1)
        taken = time.perf_counter() - started
        child.stdout.read()
    if not first or child.returncode:
        raise KraflaError(f"{' '.join(command)}: ended with {child.returncode} and without a token")
    return taken


def start(model: Path, rounds: int) -> Start:
    """One run of each before those that count."""
    run = [sys.executable, "-m", "krafla.runtime.cli", "run", "-m", str(model), "-n", "1", "--raw", PROMPT]
    imports = [sys.executable, "-c", f"{IMPORTS}; print()"]
    pairs = [(first_token(run), first_token(imports)) for _ in range(rounds + 1)][1:]
    return Start(*(statistics.median(column) for column in zip(*pairs, strict=True)))


def resident_peak(model: Path) -> int:
    """Bytes that a process held at most which loaded the model and read 16 tokens."""
    command = [sys.executable, "-c", PEAK, str(model)]
    child = subprocess.Popen(command)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise KraflaError(f"{model.name}: loading it ended with {child.returncode}")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def page_text(run: Path, peak: Path, rounds: int) -> str:
    """The table."""
    seconds, most, size = start(run, rounds), resident_peak(peak), peak.stat().st_size
    rows = [
        (f"`krafla run` to first token, {run.stem}, 16-token prompt", f"{seconds.first_token:.2f} s"),
        ("of which Python's start", f"{seconds.python:.2f} s"),
        (
            f"resident peak, {peak.stem}, {size * MEGA:.0f} MB file",
            f"{most * MEGA:.0f} MB, {most / size - 1:+.0%}",
        ),
    ]
    return f"{cpu_name()}, medians of {rounds} runs:\n\n" + table(HEAD, rows)


@click.command(help=__doc__)
@click.argument("run", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("peak", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--rounds", default=9, show_default=True, type=click.IntRange(1))
@click.option("--page", default="docs/performance.md", show_default=True, type=click.Path(path_type=Path))
def main(run: Path, peak: Path, rounds: int, page: Path) -> None:
    """Measure RUN's start and PEAK's memory, and write the table."""
    try:
        replace_between(page, "start", page_text(run, peak, rounds))
    except KraflaError as error:
        print(f"start_cost: {error.message}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
