"""The comparison with peers, on a fake one that takes a known time, and on a real one where it is installed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from krafla.runtime.bench_models import Work
from krafla.tools import bench_peers, doc_tables, peer_page
from krafla.tools.errors import FormatError, KraflaError
from krafla.tools.gen_gguf import SHAPES, write_gguf
from krafla.tools.gguf_file import read_gguf
from krafla.tools.mlb import Model

# Ten thousand tokens a second, twice as fast with flash attention; a quantized cache is refused.
FAKE = """
import json, sys
print(json.dumps({"version": "0.0", "features": "none"}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    seconds = asked["tokens"] * 1e-4 / (2 if asked["flash"] else 1)
    answer = {"error": "no such cache"} if asked["cache"] == "q8_0" else {"seconds": seconds}
    print(json.dumps(answer), flush=True)
"""
DEFAULTS = {"threads": (1,), "kv": ("f32", "q8"), "batch": (16,), "rounds": 2}


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, SHAPES["tiny"], "q8_0")
    return path


@pytest.fixture
def fake(tmp_path: Path) -> Sequence[str]:
    path = tmp_path / "fake.py"
    path.write_text(FAKE)
    return (sys.executable, str(path))


@pytest.mark.parametrize("kind", ["q8_0", "q4_0"])
def test_random_gguf_models_convert(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path, SHAPES["tiny"], kind)
    assert {t.kind.name for t in read_gguf(path).tensors.values()} == {kind.upper(), "F32"}
    mlb = bench_peers.converted(path, tmp_path, True)
    model = Model(mlb)
    assert (model.header.dim, model.header.n_layers, model.header.vocab) == (64, 2, 256)
    assert model.header.scale_f16 == 1
    # Rows have a norm near 1, so that activations keep their size from layer to layer.
    norms = np.linalg.norm(model.values("layers.1.w1"), axis=1)
    assert 0.7 < norms.mean() < 1.4
    assert bench_peers.converted(path, tmp_path, True) == mlb


def test_best_settings_and_ratios(gguf: Path, fake: Sequence[str]) -> None:
    works = [Work("prefill", 32), Work("decode", 4, 20)]
    bench = bench_peers.Bench(fake, None, works, **DEFAULTS)
    mlb = bench_peers.converted(gguf, gguf.parent, False)
    rows = list(bench.run(gguf, mlb))
    assert sorted(row.work.kind for row in rows) == ["decode", "prefill"]
    for row in rows:
        assert row.peer_setting == "flash, f16"
        assert row.peer == pytest.approx(2e4)
        assert row.ratio == pytest.approx(row.krafla / row.peer)
        assert row.krafla_setting in ("f32, batch 16", "q8, batch 16")
        assert row.limit in ("read", "int8")


def test_a_peer_that_refuses_everything(gguf: Path, fake: Sequence[str]) -> None:
    bench = bench_peers.Bench(fake, None, [Work("decode", 2)], cache=("q8_0",), **DEFAULTS)
    mlb = bench_peers.converted(gguf, gguf.parent, False)
    with pytest.raises(KraflaError, match="no setting of the peer works: flash, q8_0: no such cache"):
        list(bench.run(gguf, mlb))


def test_a_peer_that_does_not_start(gguf: Path) -> None:
    with pytest.raises(KraflaError, match="the peer ended"), bench_peers.PeerProcess(("true",), gguf):
        pass


def test_the_page_is_written(
    gguf: Path, fake: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_peers, "WORKER", Path(fake[1]))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- peers -->\nold\n<!-- /peers -->\nafter\n", encoding="utf-8")
    arguments = [
        "--python",
        sys.executable,
        "-t",
        "1",
        "-d",
        "0",
        "-p",
        "16",
        "-n",
        "2",
        "--kv",
        "f32",
        "-b",
        "16",
    ]
    arguments += ["--rounds", "1", "--folder", str(tmp_path), "--json"]
    done = CliRunner().invoke(bench_peers.main, [str(gguf), *arguments])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["peer"] == {"name": "llama.cpp", "version": "0.0", "features": "none"}
    assert [row["work"]["kind"] for row in found["rows"]] == ["prefill", "decode"]
    results = tmp_path / "results.json"
    results.write_text(done.stdout, encoding="utf-8")
    done = CliRunner().invoke(peer_page.main, [str(results), "--page", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert "Peers: llama.cpp 0.0." in text
    assert text.endswith("|\n<!-- /peers -->\nafter\n")
    assert "| tiny: decode 2 | 1 |" in text


def test_other_files_are_not_results(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(FormatError, match=r"results.json: not what bench_peers --json prints"):
        peer_page.page_text([path])


def test_markers_must_be_there(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- arm -->\n", encoding="utf-8")
    with pytest.raises(
        FormatError, match=r"page.md: the markers <!-- arm --> and <!-- /arm --> are not there"
    ):
        doc_tables.replace_between(page, "arm", "text")


@pytest.mark.peer
@pytest.mark.skipif("KRAFLA_PEER" not in os.environ, reason="KRAFLA_PEER names no Python with llama_cpp")
def test_a_real_peer(gguf: Path) -> None:
    command = (os.environ["KRAFLA_PEER"], str(bench_peers.WORKER))
    works = [Work("prefill", 32), Work("decode", 4, 20)]
    bench = bench_peers.Bench(command, None, works, **DEFAULTS)
    rows = list(bench.run(gguf, bench_peers.converted(gguf, gguf.parent, False)))
    assert all(row.peer > 0 for row in rows)
