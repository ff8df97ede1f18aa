"""The commands that write docs/performance.md's tables run, and write what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from krafla.tools import order_cost, start_cost
from tests.models import model
from tests.toys import toy

PAGE = "".join(f"<!-- {name} -->\n<!-- /{name} -->\n" for name in ("order", "start"))


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    (tmp_path / "performance.md").write_text(PAGE)
    return tmp_path


@pytest.mark.slow
def test_the_cost_of_the_order_is_a_ratio_of_two_builds(docs: Path) -> None:
    page = docs / "performance.md"
    done = CliRunner().invoke(
        order_cost.main, [str(model("llama")), "--quick", "--rounds", "1", "--page", str(page)]
    )
    assert done.exit_code == 0, done.output
    rows = [line.split("|")[1:-1] for line in page.read_text().splitlines() if line.startswith("| ")]
    assert [row[0].strip() for row in rows[1:]] == ["prefill 16", "decode 4 at 16"]
    for *_, fixed, free, ratio in rows[1:]:
        assert float(ratio) == pytest.approx(float(fixed) / float(free), rel=0.05)


def test_starting_is_timed_to_the_first_token(docs: Path) -> None:
    page, path = docs / "performance.md", str(toy(docs))
    done = CliRunner().invoke(start_cost.main, [path, path, "--rounds", "1", "--page", str(page)])
    assert done.exit_code == 0, done.output
    first, python = re.findall(r"(\d+\.\d\d) s \|", page.read_text())
    assert 0 < float(python) < float(first)


def test_a_model_that_does_not_start_is_named(docs: Path) -> None:
    broken = docs / "broken.mlb"
    broken.write_bytes(b"not a model")
    done = CliRunner().invoke(start_cost.main, [str(broken), str(broken), "--rounds", "1"])
    assert done.exit_code == 1
    assert "broken.mlb" in done.output
