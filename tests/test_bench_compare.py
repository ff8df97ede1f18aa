"""`krafla bench --compare` and its plots: ratios, what counts as noise, pictures of what was varied."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as Xml
from pathlib import Path

import numpy as np
import pytest

from krafla.runtime import bench_compare, bench_plot, cli
from krafla.runtime.bench_models import Result
from krafla.tools.svg_plot import Line, Plot, stacked
from krafla.tools.text_plot import draw
from tests.models import model

Capture = pytest.CaptureFixture[str]
SVG = "{http://www.w3.org/2000/svg}"
WORK = ("-p", "8", "-n", "2", "-r", "4", "-t", "1")


def bench(capsys: Capture, *arguments: str, code: int = 0) -> tuple[str, str]:
    assert cli.call(["bench", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.fixture
def old(tmp_path: Path, capsys: Capture) -> Path:
    path = tmp_path / "old.json"
    path.write_text(bench(capsys, "-q", "-m", str(model("llama")), *WORK, "--json")[0], encoding="utf-8")
    return path


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (4, 4), (5, 2), (7, 6)])
def test_all_orders_are_counted(m: int, n: int) -> None:
    counts = bench_compare._orders(m, n)
    assert len(counts) == m * n + 1
    assert sum(counts) == math.comb(m + n, m)
    assert counts == counts[::-1]
    assert min(counts) > 0


def test_the_rank_test() -> None:
    """Values of the tables of Mann and Whitney: 4 and 4 apart, 3 and 4 apart; equal sides are chance."""
    assert bench_compare.rank_test([1, 2, 3, 4], [5, 6, 7, 8]) == pytest.approx(2 / 70)
    assert bench_compare.rank_test([5, 6, 7, 8], [1, 2, 3]) == pytest.approx(2 / 35)
    assert bench_compare.rank_test([1, 2], [1, 2]) == 1
    rng = np.random.default_rng(0)
    levels = [bench_compare.rank_test(*rng.random((2, 6))) <= 0.05 for _ in range(1000)]
    assert 0.01 < np.mean(levels) < 0.06  # the level holds where nothing differs


def test_a_ratio_is_of_speeds() -> None:
    faster = bench_compare.compare((2.0, 2.1, 2.2, 2.1), (1.0, 1.1, 1.05, 1.05))
    assert faster.ratio == pytest.approx(2)
    assert not faster.within_noise
    assert faster.old_spread == pytest.approx(0.2 / 2.1)
    assert bench_compare.compare((2.0, 2.1), (1.0, 1.1)).within_noise  # two rounds prove nothing


def test_compare_with_itself_and_with_a_slower_run(old: Path, capsys: Capture) -> None:
    slower = json.loads(old.read_text(encoding="utf-8"))
    slower["rows"][0]["seconds"] = [100 * s for s in slower["rows"][0]["seconds"]]
    slower["rows"][1]["depth"] = 7  # other work
    old.write_text(json.dumps(slower), encoding="utf-8")
    arguments = ("-m", str(model("llama")), *WORK, "--compare", str(old))
    out, err = bench(capsys, *arguments)
    head, prefill, decode = out.splitlines()
    assert head.endswith("ratio  spread before")
    assert float(prefill.split()[-2]) > 10
    assert "~" not in prefill
    assert decode.split()[-1] == "-"
    assert "another" not in err
    found = json.loads(bench(capsys, "-q", *arguments, "--json")[0])
    assert found["differences"] == []
    assert found["rows"][0]["compared"]["ratio"] > 10
    assert not found["rows"][0]["compared"]["within_noise"]
    assert found["rows"][1]["compared"] is None


def test_compare_tells_of_another_model(old: Path, capsys: Capture) -> None:
    _, err = bench(capsys, "-m", str(model("shared")), *WORK, "--compare", str(old))
    assert f"old.json is of another model: {model('llama')}" in err


def test_compare_kernels(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "kernels.json"
    arguments = ("-q", "--kernels", "--op", "add", "-r", "4")
    path.write_text(bench(capsys, *arguments, "--json")[0], encoding="utf-8")
    out, _ = bench(capsys, *arguments, "--compare", str(path))
    assert 0.1 < float(out.splitlines()[1].replace("~", " ").split()[-2]) < 10


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (None, 4, "cannot read"),
        ("nonsense", 5, "not the output of `krafla bench --json`"),
        ("[]", 5, "not the output of"),
        ('{"rows": [{"isa": "x"}]}', 5, "KeyError: 'threads'"),
        ('{"rows": []}', 2, "no row has the same isa, threads"),
    ],
)
def test_what_cannot_be_compared(
    tmp_path: Path, capsys: Capture, content: str | None, code: int, words: str
) -> None:
    path = tmp_path / "old.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    _, err = bench(capsys, "-q", "-m", str(model("llama")), *WORK, "--compare", str(path), code=code)
    assert words in err
    assert "old.json" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tune", "--compare", "x"), "--compare and --tune exclude"),
        (("--kernels", "--plot", "x.svg"), "--plot and --kernels exclude"),
        (("--plot", "x.png"), "must end in .svg"),
    ],
)
def test_wrong_usage(capsys: Capture, arguments: tuple[str, ...], words: str) -> None:
    assert words in bench(capsys, *arguments, code=2)[1]


def result(kind: str, depth: int, threads: int, speed: float, kv: str = "f32") -> Result:
    return Result("avx2", threads, 128, kv, kind, 8, depth, (8 / speed,), speed, "read", 0.5)


def test_plots_show_what_was_varied() -> None:
    rows = [result("decode", d, t, 100.0 * t - d) for d in (0, 32) for t in (1, 2)]
    [plot] = bench_plot.plots(rows, "m")
    assert (plot.x, plot.y, plot.title) == ("tokens before", "tokens/s", "decode, m")
    assert [(line.name, line.points) for line in plot.lines] == [
        ("threads 1", [(0, 100), (32, 68)]),
        ("threads 2", [(0, 200), (32, 168)]),
    ]
    by_threads = bench_plot.plots(
        [result("prefill", 0, t, 9.0, kv) for t in (1, 2) for kv in ("f32", "q8")], "m"
    )
    assert by_threads[0].x == "threads"
    assert [line.name for line in by_threads[0].lines] == ["f32", "q8"]
    assert len(bench_plot.plots([result("prefill", 0, 1, 9.0), result("decode", 0, 1, 9.0)], "m")) == 2


def test_a_plot_is_written_and_drawn(tmp_path: Path, capsys: Capture) -> None:
    work = ("-q", "-m", str(model("llama")), "-d", "0,32,64", "-p", "8", "-n", "2", "-r", "1")
    out, _ = bench(capsys, *work, "--plot", str(tmp_path / "speed.svg"))
    assert "tokens before" not in out  # a pipe gets the table only
    drawing = Xml.fromstring((tmp_path / "speed.svg").read_text(encoding="utf-8"))
    assert len(list(drawing.iter(f"{SVG}polyline"))) == 2
    assert len(list(drawing.iter(f"{SVG}circle"))) == 6
    out, _ = bench(capsys, *work, "--plot", "-")
    assert out.count("tokens before") == 2
    assert "cannot write" in bench(capsys, *work, "--plot", str(tmp_path / "no" / "x.svg"), code=4)[1]


def test_text_plots_put_points_where_they_belong() -> None:
    lines = [Line("up", [(0, 0), (10, 4)]), Line("dot", [(10, 2)])]
    drawn = draw(Plot("T", "x", "y", lines), width=21, height=9).splitlines()
    assert drawn[0] == "T [y]"
    area = [row.partition("|")[2].ljust(21) for row in drawn[1:10]]
    assert area[8][0] == "*"  # (0, 0)
    assert area[0][20] == "*"  # (10, 4)
    assert area[4][10] == "*"  # between
    assert area[4][20] == "+"
    assert [row.partition("|")[0].strip() for row in drawn[1:10:2]] == ["4", "3", "2", "1", "0"]
    assert drawn[-1].split() == ["*", "up", "+", "dot"]
    assert drawn[-2].split() == ["0", "x", "10"]


def test_stacked_drawings_do_not_overlap() -> None:
    plots = [Plot(name, "x", "y", [Line("a", [(0, 1), (1, 2)])]) for name in ("one", "two")]
    drawing = Xml.fromstring(stacked(plots))
    inner = list(drawing.iter(f"{SVG}svg"))[1:]
    assert [int(part.attrib["y"]) for part in inner] == [0, int(inner[0].attrib["height"])]
