"""What the fixed order of float operations costs: this engine against itself, compiled with leave to reorder.

The same sources are compiled a second time with flags that let the compiler reorder, contract and use reciprocals. Both
run in turn on the same model, and their median ratios go into the docs. The second build's results are not used.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from krafla.runtime import progress
from krafla.runtime.bench_models import Runner, Setting, Work
from krafla.runtime.cpu import cpu_name
from krafla.tools.doc_tables import replace_between, table
from krafla.tools.errors import KraflaError

FREE = (
    "-fassociative-math",
    "-fno-signed-zeros",
    "-fno-trapping-math",
    "-freciprocal-math",
    "-ffp-contract=fast",
)
WORKS = (Work("prefill", 512), Work("decode", 64), Work("prefill", 128, 2048), Work("decode", 32, 2048))
QUICK = (Work("prefill", 16), Work("decode", 4, 16))
HEAD = ("work", "ISA", "fixed order, tokens/s", "free order, tokens/s", "fixed / free")


@dataclass(frozen=True)
class Cost:
    """One kind of work: medians in tokens per second, and the median of the ratios of each round."""

    work: Work
    isa: str
    fixed: float
    free: float
    ratio: float


def costs(mlb: Path, setting: Setting, works: Sequence[Work], rounds: int) -> Iterator[Cost]:
    """Both builds in turn on all work; one round of everything is run before it counts."""
    context = max(work.depth + work.tokens for work in works)
    with (
        progress.console() as report,
        Runner(mlb, setting, context, report) as fixed,
        Runner(mlb, replace(setting, flags=FREE), context, report) as free,
    ):
        for work in works:
            pairs = [(fixed.run(work), free.run(work)) for _ in range(rounds + 1)][1:]
            ours, theirs = (work.tokens / statistics.median(column) for column in zip(*pairs, strict=True))
            yield Cost(work, fixed.isa, ours, theirs, statistics.median(b / a for a, b in pairs))


def page_text(rows: Sequence[Cost], model: str, rounds: int) -> str:
    """The table of all costs."""
    cells = [
        (
            str(row.work),
            row.isa,
            f"{row.fixed:.1f}",
            f"{row.free:.1f}",
            f"{row.ratio:.2f}",
        )
        for row in rows
    ]
    return f"{model}, {cpu_name()}, one thread, {rounds} rounds in turn:\n\n" + table(HEAD, cells)


@click.command(help=__doc__)
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--isa", "isas", multiple=True, help="ISAs to measure [default: the best here].")
@click.option("--quick", is_flag=True, help="Little work: shows that it runs.")
@click.option("--rounds", default=7, show_default=True, type=click.IntRange(1))
@click.option("--page", default="docs/performance.md", show_default=True, type=click.Path(path_type=Path))
def main(model: Path, isas: tuple[str, ...], quick: bool, rounds: int, page: Path) -> None:
    """Measure and write the table."""
    try:
        rows = [
            cost
            for isa in isas or (None,)
            for cost in costs(model, Setting(isa=isa, batch=512), QUICK if quick else WORKS, rounds)
        ]
        replace_between(page, "order", page_text(rows, model.stem, rounds))
    except KraflaError as error:
        print(f"order_cost: {error.message}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
