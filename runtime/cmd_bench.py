"""`krafla bench`: how fast models and kernels run here, and what share of the machine's limits that is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from krafla.runtime import options
from krafla.tools.errors import UsageError

if TYPE_CHECKING:
    from krafla.runtime.bench_kernels import Speed
    from krafla.runtime.bench_models import Result
    from krafla.runtime.progress import Report
    from krafla.runtime.tune import Tuning

HELP = """Measure a model: tokens per second of a prompt (prefill) and of generation (decode), as medians over rounds.

Each row says what share of the machine's limit it reaches, by a read bandwidth and an int8 peak measured in the
same run. Options with several values take them separated by commas. With --kernels, measure the kernels one by
one, at the registry's shapes or, with -m, at the model's. With --tune, find this CPU's best tile sizes and
prefetch distance for --isa; libraries are compiled with them from then on.
"""


def _numbers(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r}: give whole numbers separated by commas") from None
    if min(numbers) < 0:
        raise click.BadParameter(f"{value!r}: no number may be negative")
    return numbers


def _several(flags: tuple[str, ...], default: str, help_text: str) -> Callable[[Any], Any]:
    return click.option(*flags, default=default, show_default=True, callback=_numbers, help=help_text)


EXAMPLES = options.examples(
    "krafla bench",
    "krafla bench -m model.gguf --isa all -t 1,2 -d 0,1024 --kv f32,q8",
    "krafla bench --kernels --op matmul",
    "krafla bench --tune",
)


@click.command("bench", help=HELP, epilog=EXAMPLES)
@options.model_option
@click.option("--isa", metavar="NAMES", help="Instruction sets, or `all` [default: the best here].")
@_several(("-t", "--threads"), "1", "Threads.")
@_several(("-d", "--depth"), "0", "Tokens in the cache before the measured ones.")
@_several(("-p", "--prefill"), "512", "Tokens of the prompt; 0 leaves prefill out.")
@_several(("-n", "--decode"), "64", "Tokens generated; 0 leaves decode out.")
@_several(("-b", "--batch"), "128", "Prompt tokens per step.")
@click.option("--kv", default="f32", show_default=True, help="KV memory: f32, f16, q8.")
@click.option("-r", "--rounds", type=click.IntRange(1), default=5, show_default=True, help="Rounds.")
@click.option("--kernels", is_flag=True, help="Measure kernels instead of a model.")
@click.option("--op", "ops", metavar="NAMES", help="With --kernels: only these, by the start of their names.")
@click.option("--tune", is_flag=True, help="Find this CPU's best tile sizes, and keep them.")
@options.quiet_option
@options.json_option
def command(**given: Any) -> None:
    """Run the subcommand."""
    from krafla.runtime import progress

    if given["kernels"] and given["tune"]:
        raise UsageError("--kernels and --tune exclude each other")
    work = _kernels if given["kernels"] else _tune if given["tune"] else _models
    with progress.console(given["quiet"]) as report:
        work(given, report)


def _isas(names: str | None) -> list[str | None]:
    if names != "all":
        return [None] if names is None else list(names.split(","))
    from krafla.runtime import host

    return [isa.facts.name for isa in host.survey() if isa.usable]


def _show(as_json: bool, rows: Iterable[Any], head: str, line: Callable[[Any], str], **more: Any) -> None:
    """One line per row as it comes, or everything as one JSON object."""
    if as_json:
        listed = [asdict(row) for row in rows]
        click.echo(json.dumps({**more, "rows": listed}))
        return
    click.echo(head)
    for row in rows:
        click.echo(line(row))


def _models(given: dict[str, Any], report: Report) -> None:
    from krafla.runtime import bench_models as models
    from krafla.runtime.cpu import cpu_name
    from krafla.runtime.resolve import resolve

    mlb = resolve(given["model"], report).mlb
    settings = [
        models.Setting(isa=isa, threads=threads, batch=batch, kv=kv)
        for isa in _isas(given["isa"])
        for threads in given["threads"]
        for batch in given["batch"]
        for kv in given["kv"].split(",")
    ]
    works = [
        models.Work(kind, tokens, depth)
        for depth in given["depth"]
        for kind in ("prefill", "decode")
        for tokens in given[kind]
        if tokens
    ]
    if not works:
        raise UsageError("-p 0 and -n 0 leave nothing to measure")
    rows = models.measure(mlb, settings, works, given["rounds"], report)
    head = "isa            threads  batch  kv   work             depth    tokens/s   spread   share of limit"
    _show(given["as_json"], rows, head, _model_line, model=str(mlb), cpu=cpu_name())


def _model_line(row: Result) -> str:
    return (
        f"{row.isa:<15}{row.threads:>7}{row.batch:>7}  {row.kv:<5}{row.kind + ' ' + str(row.tokens):<15}"
        f"{row.depth:>7}{row.tokens_per_second:>12.1f}{row.spread:>9.0%}{row.share:>10.0%} {row.limit}"
    )


def _kernels(given: dict[str, Any], report: Report) -> None:
    from krafla.codegen.ops import OPS
    from krafla.runtime import bench_kernels as kernels
    from krafla.runtime.bench_library import Library
    from krafla.runtime.bench_models import read_model
    from krafla.runtime.cpu import cpu_name
    from krafla.runtime.resolve import resolve

    starts = tuple(given["ops"].split(",")) if given["ops"] else ("",)
    ops = [op for op in OPS if op.name.startswith(starts)]
    if not ops:
        raise UsageError(f"--op {given['ops']}: no kernel's name starts so")
    model = read_model(Path(resolve(given["model"], report).mlb)) if given["model"] else None
    libraries = [Library(isa, ops=ops, report=report) for isa in _isas(given["isa"])]
    rows = (row for one in libraries for row in kernels.measure(one, ops, model, given["rounds"]))
    limits = {one.facts.name: one.limits for one in libraries}
    head = f"{'isa':<14}{'kernel':<20}{'shape':<30}        time    GB/s      GOPS   share of limit"
    _show(given["as_json"], rows, head, _kernel_line, cpu=cpu_name(), limits=limits)
    if not given["as_json"]:
        for name, found in limits.items():
            told = (f"{one['per_second'] / 1e9:.0f} GOPS ({one['instructions']})" for one in found.values())
            click.echo(f"{name}: at most {', '.join(told)} per thread", err=True)


def _kernel_line(row: Speed) -> str:
    shown = ("rows", "cols", "tokens", "queries", "n", "n_heads")
    shape = " ".join(f"{name} {row.sizes[name]}" for name in shown if name in row.sizes)
    return (
        f"{row.isa:<14}{row.op:<20}{shape:<30}{row.seconds * 1e6:>9.1f} us{row.bytes_per_second / 1e9:>8.1f}"
        f"{row.operations_per_second / 1e9:>10.1f}{row.share:>8.0%} {row.limit}"
    )


def _tune(given: dict[str, Any], report: Report) -> None:
    from krafla.runtime import tune

    found = [tune.tune(isa, given["rounds"], report) for isa in _isas(given["isa"])]
    _show(
        given["as_json"],
        found,
        "isa           knob                was            best           gain",
        _tuning,
    )


def _tuning(row: Tuning) -> str:
    return "\n".join(
        f"{row.isa:<14}{one.knob:<20}{one.was:<15}{one.best:<15}{one.gain - 1:>+6.1%}" for one in row.choices
    )
