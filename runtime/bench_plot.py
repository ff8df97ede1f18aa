"""Pictures of what `krafla bench` measured: speed against what was varied, prefill and decode each for itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from krafla.runtime.bench_models import Result
from krafla.tools.svg_plot import Line, Plot

#: What may be on the x axis, and how it is called there; the first that was varied is.
AXES = {"depth": "tokens before", "threads": "threads", "batch": "tokens per step", "tokens": "tokens"}


def plots(rows: Sequence[Result], title: str) -> list[Plot]:
    """One plot for each kind of work."""
    varied = [name for name in AXES if len({getattr(row, name) for row in rows}) > 1]
    x = varied[0] if varied else "depth"
    rest = [name for name in ("isa", "kv", *AXES) if len({getattr(row, name) for row in rows}) > 1]
    rest = [name for name in rest if name != x]
    found = []
    for kind in dict.fromkeys(row.kind for row in rows):
        lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for row in rows:
            if row.kind == kind:
                lines[_name(row, rest)].append((getattr(row, x), row.tokens_per_second))
        drawn = [Line(name, points) for name, points in lines.items()]
        found.append(Plot(f"{kind}, {title}", AXES[x], "tokens/s", drawn))
    return found


def _name(row: Result, varied: Sequence[str]) -> str:
    words = {"threads": "threads {}", "batch": "batch {}", "depth": "depth {}"}
    parts = [words.get(name, "{}").format(getattr(row, name)) for name in varied if name != "tokens"]
    return ", ".join(parts) or row.kind
