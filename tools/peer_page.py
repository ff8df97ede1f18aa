"""Writes the table of docs/performance.md from what several runs of `bench_peers --json` printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from krafla.runtime.bench_models import Work
from krafla.tools.bench_peers import Comparison, cells
from krafla.tools.doc_tables import replace_between, table
from krafla.tools.errors import FormatError, access

HEAD = ("work", "threads", "Krafla", "tokens/s", "peer", "tokens/s", "ratio", "share of limit")


def read(path: Path) -> tuple[dict[str, Any], list[Comparison]]:
    """One run: what its CPU and peer are, and its rows."""
    with access(path, "read"):
        text = path.read_text(encoding="utf-8")
    try:
        run = json.loads(text)
        rows = [Comparison(**{**row, "work": Work(**row["work"])}) for row in run["rows"]]
        return {"cpu": run["cpu"], **run["peer"]}, rows
    except (ValueError, KeyError, TypeError):
        raise FormatError(f"{path.name}: not what bench_peers --json prints") from None


def page_text(paths: Sequence[Path]) -> str:
    """The table of all runs."""
    runs = [read(path) for path in paths]
    rows = []
    for about, comparisons in runs:
        for one in comparisons:
            work, threads, ours, speed, setting, *rest = cells(one)
            rows.append((work, threads, ours, speed, f"{about['name']}: {setting}", *rest))
    cpus = ", ".join(sorted({about["cpu"] for about, _ in runs}))
    versions = ", ".join(sorted({f"{about['name']} {about['version']}" for about, _ in runs}))
    rounds = " or ".join(sorted({str(one.rounds) for _, comparisons in runs for one in comparisons}))
    return f"{cpus}. Peers: {versions}. Medians of {rounds} rounds, both engines in turn.\n\n" + table(
        HEAD, rows
    )


@click.command(help=__doc__)
@click.argument("results", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--page", default="docs/performance.md", show_default=True, type=click.Path(path_type=Path))
def main(results: tuple[Path, ...], page: Path) -> None:
    """Write the table."""
    replace_between(page, "peers", page_text(results))


if __name__ == "__main__":
    main()
