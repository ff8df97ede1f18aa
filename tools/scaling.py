"""Measures how the cost of a token grows with depth, batch, threads and model size, and memory with context; draws it.

Writes SVG files and their page's section into the folder of the docs. The models are random ones in the shape of
SmolLM2-135M; more sizes come from scaling its width.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from krafla.runtime.bench_models import KV_TYPES, Runner, Setting, Work
from krafla.runtime.cpu import cpu_name
from krafla.runtime.engine import engine
from krafla.tools.doc_tables import replace_between
from krafla.tools.errors import KraflaError
from krafla.tools.gen_random import write_random
from krafla.tools.mlb import Header
from krafla.tools.svg_plot import Line, Plot

HEADER = Header(
    dim=576,
    n_layers=30,
    n_heads=9,
    n_kv_heads=3,
    hidden_dim=1536,
    vocab=49152,
    max_seq=16384,
    rope_theta=1e5,
    shared_classifier=1,
)
DEPTHS = (0, 1024, 2048, 4096, 8192)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
#: Dimensions, heads, key heads, hidden dimension, layers.
SIZES = ((320, 5, 5, 864, 16), (576, 9, 3, 1536, 30), (960, 15, 5, 2560, 32))
TOKENS = 16
MILLI, MEGA = 1e3, 1e-6


def cost(
    mlb: Path, settings: Sequence[Setting], works: Sequence[Work], rounds: int
) -> list[tuple[Work, Setting, float]]:
    """Work, setting and median milliseconds per token. Settings take turns; works come in rising depth."""
    found = []
    context = max(work.depth + work.tokens for work in works)
    with ExitStack() as stack:
        runners = [stack.enter_context(Runner(mlb, setting, context)) for setting in settings]
        for work in works:
            seconds = [[runner.run(work) for runner in runners] for _ in range(rounds + 1)][1:]
            for setting, column in zip(settings, zip(*seconds, strict=True), strict=True):
                found.append((work, setting, MILLI * statistics.median(column) / work.tokens))
    return found


def by_depth(mlb: Path, depths: Sequence[int], rounds: int) -> Plot:
    """Decode against depth, one line per type of the cache."""
    works = [Work("decode", TOKENS, depth) for depth in depths]
    rows = cost(mlb, [Setting(kv=kv) for kv in KV_TYPES], works, rounds)
    lines = [
        Line(f"{kv} cache", [(work.depth, ms) for work, setting, ms in rows if setting.kv == kv])
        for kv in KV_TYPES
    ]
    return Plot("Cost of a token against depth, decode, 1 thread", "tokens before it", "ms", lines)


def by_batch(mlb: Path, batches: Sequence[int], rounds: int) -> Plot:
    """Prefill of as many tokens as the largest batch has, in steps of so many."""
    rows = cost(mlb, [Setting(batch=batch) for batch in batches], [Work("prefill", max(batches))], rounds)
    points = [(float(setting.batch), ms) for _, setting, ms in rows]
    title = "Cost of a token against batch, prefill, 1 thread"
    return Plot(title, "tokens per step", "ms", [Line("f32 cache", points)], log_x=True)


def by_threads(mlb: Path, threads: Sequence[int], rounds: int) -> Plot:
    """Prefill and decode against threads, relative to one thread."""
    works = [Work("prefill", 128), Work("decode", TOKENS)]
    rows = cost(mlb, [Setting(threads=count) for count in threads], works, rounds)
    lines = []
    for work in works:
        costs = {setting.threads: ms for own, setting, ms in rows if own == work}
        lines.append(Line(work.kind, [(count, costs[threads[0]] / ms) for count, ms in costs.items()]))
    return Plot("Speed against threads", "threads", "times", lines)


def by_size(folder: Path, sizes: Sequence[tuple[int, ...]], rounds: int) -> Plot:
    """Decode against the bytes of the model."""
    points = []
    for dim, heads, kv_heads, hidden, layers in sizes:
        header = Header(
            dim=dim,
            n_heads=heads,
            n_kv_heads=kv_heads,
            hidden_dim=hidden,
            n_layers=layers,
            vocab=HEADER.vocab,
            max_seq=512,
            shared_classifier=1,
        )
        path = folder / f"size-{dim}.mlb"
        write_random(path, header)
        rows = cost(path, [Setting()], [Work("decode", TOKENS)], rounds)
        points.append((round(path.stat().st_size * MEGA), rows[0][2]))
        path.unlink()
    return Plot(
        "Cost of a token against model size, decode, 1 thread",
        "MB of Q8_0 weights",
        "ms",
        [Line("decode", points)],
    )


def memory(mlb: Path, contexts: Sequence[int]) -> Plot:
    """Predicted peak memory against the context, one line per type of the cache."""
    api, _ = engine()
    lines = []
    for number, kv in enumerate(KV_TYPES):
        points = []
        for context in contexts:
            info, options = api.types.ml_info(), api.types.ml_options(context=context, kv_type=number, pack=1)
            api.fn.ml_engine_predict(ctypes.byref(info), str(mlb).encode(), ctypes.byref(options))
            points.append((float(context), info.peak_bytes * MEGA))
        lines.append(Line(f"{kv} cache", points))
    return Plot("Memory against context", "positions", "MB", lines)


def section(names: Iterable[str], rounds: int) -> str:
    """What the page shows."""
    head = f"A model in the shape of SmolLM2-135M, Q8_0, on {cpu_name()}; medians of {rounds} rounds in turn."
    return "\n\n".join([head, *(f"![{name}]({name}.svg)" for name in names)])


@click.command(help=__doc__)
@click.argument("docs", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True, help="Threads at most.")
@click.option("--quick", is_flag=True, help="Few points on a tiny model: shows that it works.")
def main(docs: Path, rounds: int, threads: int, quick: bool) -> None:
    """Measure and draw."""
    try:
        with tempfile.TemporaryDirectory() as scratch:
            _draw(docs, Path(scratch), rounds, threads, quick)
    except KraflaError as error:
        print(f"scaling: {error.message}", file=sys.stderr)
        sys.exit(error.exit_code)


def _draw(docs: Path, scratch: Path, rounds: int, threads: int, quick: bool) -> None:
    mlb = scratch / "model.mlb"
    tiny = Header(dim=64, n_layers=2, n_heads=4, n_kv_heads=2, hidden_dim=96, vocab=256, max_seq=512)
    write_random(mlb, tiny if quick else HEADER)
    counts = list(range(1, threads + 1))
    plots: dict[str, Callable[[], Plot]] = {
        "scaling-depth": lambda: by_depth(mlb, (0, 128, 256) if quick else DEPTHS, rounds),
        "scaling-batch": lambda: by_batch(mlb, (1, 4, 16) if quick else BATCHES, rounds),
        "scaling-threads": lambda: by_threads(mlb, counts, rounds),
        "scaling-size": lambda: by_size(
            scratch, ((64, 2, 2, 96, 1), (96, 2, 2, 128, 2)) if quick else SIZES, rounds
        ),
        "scaling-memory": lambda: memory(mlb, (64, 256, 512) if quick else (512, 2048, 4096, 8192, 16384)),
    }
    for name, make in plots.items():
        click.echo(f"measuring {name}", err=True)
        (docs / f"{name}.svg").write_text(make().svg(), encoding="utf-8")
    replace_between(docs / "performance.md", "scaling", section(plots, rounds))


if __name__ == "__main__":
    main()
