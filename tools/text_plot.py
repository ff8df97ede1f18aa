"""Line plots in characters, for terminals and pipes: the same `Plot` that is drawn as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from krafla.tools.svg_plot import Plot

MARKS = "*+xo#%"


def draw(plot: Plot, width: int = 72, height: int = 12) -> str:
    """The plot as lines of text; `width` and `height` are of the area inside the axes, in characters."""
    low, high = plot.span()
    top = plot.ticks()[-1]
    grid = [[" "] * width for _ in range(height)]
    for number, line in enumerate(plot.lines):
        points = sorted((plot.at(x), y) for x, y in line.points)
        for column in _columns(points, low, high, width):
            y = _between(points, low + (high - low) * column / max(width - 1, 1))
            grid[height - 1 - round(y / top * (height - 1))][column] = MARKS[number % len(MARKS)]
    margin = max(len(f"{tick:g}") for tick in plot.ticks())
    labels = {height - 1 - round(tick / top * (height - 1)): f"{tick:g}" for tick in plot.ticks()}
    rows = [f"{labels.get(i, ''):>{margin}} |{''.join(row).rstrip()}" for i, row in enumerate(grid)]
    ends = [f"{x:g}" for x in plot.ends()]
    below = f"{ends[0]}{plot.x:^{max(width - len(ends[0]) - len(ends[1]), len(plot.x) + 2)}}{ends[1]}"
    names = "   ".join(f"{MARKS[i % len(MARKS)]} {line.name}" for i, line in enumerate(plot.lines))
    pad = " " * (margin + 2)
    head = f"{plot.title} [{plot.y}]"
    return "\n".join([head, *rows, f"{' ' * margin} +{'-' * width}", pad + below, pad + names])


def _columns(points: Sequence[tuple[float, float]], low: float, high: float, width: int) -> range:
    """The columns from a line's first point to its last."""
    scale = (width - 1) / ((high - low) or 1)
    return range(round((points[0][0] - low) * scale), round((points[-1][0] - low) * scale) + 1)


def _between(points: Sequence[tuple[float, float]], x: float) -> float:
    """The line's height at x, straight between points."""
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * (min(max(x, x0), x1) - x0) / ((x1 - x0) or 1)
    return points[-1][1]
