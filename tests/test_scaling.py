"""The scaling plots: every one is drawn, and says what was measured."""

from __future__ import annotations

import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest
from click.testing import CliRunner

from krafla.tools import scaling
from krafla.tools.svg_plot import Line, Plot, _ticks

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("top", "ticks"),
    [
        (1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (7.3, [0, 2, 4, 6, 8]),
        (1200, [0, 250, 500, 750, 1000, 1250]),
        (0, [0, 1]),
    ],
)
def test_ticks(top: float, ticks: list[float]) -> None:
    assert _ticks(top) == pytest.approx(ticks)


def test_points_lie_where_their_values_are() -> None:
    plot = Plot("T & T", "x", "y", [Line("a", [(0, 0), (10, 4)]), Line("b", [(5, 2)])])
    drawing = Xml.fromstring(plot.svg())
    first, last, middle = (
        (float(c.attrib["cx"]), float(c.attrib["cy"])) for c in drawing.iter(f"{SVG}circle")
    )
    assert middle == pytest.approx(((first[0] + last[0]) / 2, (first[1] + last[1]) / 2))
    assert last[0] > first[0]
    assert last[1] < first[1]  # upwards
    texts = [text.text for text in drawing.iter(f"{SVG}text")]
    assert {"T & T", "x", "y", "a", "b"} <= set(texts)


def test_a_logarithmic_axis_has_equal_steps() -> None:
    plot = Plot("t", "x", "y", [Line("a", [(1, 1), (2, 1), (4, 1)])], log_x=True)
    a, b, c = (float(dot.attrib["cx"]) for dot in Xml.fromstring(plot.svg()).iter(f"{SVG}circle"))
    assert b - a == pytest.approx(c - b)


def test_everything_is_drawn(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text("<!-- scaling -->\n<!-- /scaling -->\n", encoding="utf-8")
    done = CliRunner().invoke(scaling.main, [str(tmp_path), "--rounds", "1", "--threads", "2", "--quick"])
    assert done.exit_code == 0, done.output
    drawings = {
        path.stem: Xml.fromstring(path.read_text(encoding="utf-8")) for path in tmp_path.glob("*.svg")
    }
    points = {name: len(list(drawing.iter(f"{SVG}circle"))) for name, drawing in drawings.items()}
    assert points == {
        "scaling-depth": 9,
        "scaling-batch": 3,
        "scaling-threads": 4,
        "scaling-size": 2,
        "scaling-memory": 9,
    }
    text = page.read_text(encoding="utf-8")
    assert all(f"![{name}]({name}.svg)" in text for name in points)
