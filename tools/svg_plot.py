"""Line plots as SVG, small enough to need no library: one frame, ticks, lines with markers, a legend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 34, 44
COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8d5a97", "#c77d00", "#4a4a4a")


@dataclass(frozen=True)
class Line:
    """One named line through points (x, y)."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass
class Plot:
    """Lines over common axes; a logarithmic x axis has its ticks at the points themselves."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    log_x: bool = False
    _parts: list[str] = field(default_factory=list)

    def svg(self) -> str:
        """The drawing."""
        xs = sorted({x for line in self.lines for x, _ in line.points})
        ticks = self.ticks()
        low, high = self.span()
        scale_x = (WIDTH - LEFT - RIGHT) / ((high - low) or 1)
        scale_y = (HEIGHT - TOP - BOTTOM) / ticks[-1]

        def place(x: float, y: float) -> tuple[float, float]:
            return LEFT + (self.at(x) - low) * scale_x, HEIGHT - BOTTOM - y * scale_y

        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            f'font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        ]
        self._text(LEFT, 18, self.title, 'font-weight="bold"')
        self._text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, self.x, 'text-anchor="middle"')
        self._text(LEFT - 8, 18, self.y, 'text-anchor="end"')
        for tick in ticks:
            _, y = place(xs[0], tick)
            self._parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
            self._text(LEFT - 8, y + 4, f"{tick:g}", 'text-anchor="end"')
        for tick in xs if self.log_x or len(xs) <= 6 else _ticks(xs[-1]):
            x, y = place(tick, 0)
            self._text(x, y + 16, f"{tick:g}", 'text-anchor="middle"')
        for number, line in enumerate(self.lines):
            self._line(line, COLOURS[number % len(COLOURS)], TOP + 14 + 18 * number, place)
        return "\n".join([*self._parts, "</svg>", ""])

    def at(self, x: float) -> float:
        """Where x lies on its axis."""
        return math.log2(x) if self.log_x else x

    def ends(self) -> tuple[float, float]:
        """The least and the greatest x."""
        xs = [x for line in self.lines for x, _ in line.points]
        return min(xs), max(xs)

    def span(self) -> tuple[float, float]:
        """Where the x axis begins and ends."""
        least, greatest = self.ends()
        return self.at(least), self.at(greatest)

    def ticks(self) -> list[float]:
        """Of the y axis."""
        return _ticks(max(y for line in self.lines for _, y in line.points))

    def _text(self, x: float, y: float, text: str, style: str = "") -> None:
        self._parts.append(f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>')

    def _line(self, line: Line, colour: str, legend_y: float, place: object) -> None:
        assert callable(place)
        points = [place(x, y) for x, y in sorted(line.points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        self._parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        x = WIDTH - RIGHT + 14
        self._parts.append(f'<path d="M{x} {legend_y - 4}h18" stroke="{colour}" stroke-width="3"/>')
        self._text(x + 24, legend_y, line.name)


def stacked(plots: Sequence[Plot]) -> str:
    """Several plots in one drawing, one below the other."""
    if len(plots) == 1:
        return plots[0].svg()
    place = f'width="{WIDTH}" height="{HEIGHT}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT * len(plots)}">']
    parts += [
        plot.svg().replace("<svg ", f'<svg y="{HEIGHT * i}" {place} ', 1) for i, plot in enumerate(plots)
    ]
    return "\n".join([*parts, "</svg>", ""])


def _ticks(top: float) -> list[float]:
    """From 0 in round steps to the first one at or above `top`."""
    if top <= 0:
        return [0.0, 1.0]
    step = 10.0 ** math.floor(math.log10(top / 4))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10) if top / (factor * step) <= 5)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]
