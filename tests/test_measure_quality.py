"""The quality tool: its float model is the file's, its measures are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from krafla.tools.convert import Options, convert
from krafla.tools.errors import UsageError
from krafla.tools.mlb import LAYER_LOCAL_ROPE, LAYER_WINDOW, Model
from krafla.tools.ref_forward import forward
from tests.checkpoints import gguf_weights, random_weights, write_gguf
from tests.models import header
from tests.test_families import GEMMA_NAMES, gemma, renamed, write
from tests.test_families import random_weights as gemma_weights

pytest.importorskip("transformers", reason="the parity extra is not installed")

from krafla.tools import measure_quality as tool

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
IDS = [int(i) for i in np.random.default_rng(4).integers(0, 256, 24)]


def llama(folder: Path) -> Path:
    h = header("llama")
    return write_gguf(folder / "m.gguf", h, gguf_weights(random_weights(h)))


def gemma3(folder: Path) -> Path:
    h = gemma(n_layers=2, qk_norm=1, rope_theta=1e6, rope_local_theta=1e4, sliding_window=8)
    flags = bytes([LAYER_WINDOW | LAYER_LOCAL_ROPE] * 2)
    weights = renamed(gemma_weights(h, flags), GEMMA_NAMES, h, True)
    return write(folder / "m.gguf", "gemma3", h, weights, {"attention.sliding_window": 8})


@pytest.mark.parametrize("make", [llama, gemma3])
def test_the_float_model_is_the_files(make: Any, tmp_path: Path) -> None:
    path = make(tmp_path)
    net, h = tool.float_model(path)
    convert(path, tmp_path / "m.mlb", Options(tokenizer=False))
    expected = forward(Model(tmp_path / "m.mlb"), IDS)
    logits = tool.logits_of(net, IDS)
    assert logits.shape == (len(IDS), h.vocab)
    assert np.abs(logits - expected).max() <= 1e-4 * np.abs(expected).max()


def test_quantized_inside_is_about_as_far_as_the_engine(tmp_path: Path) -> None:
    path = llama(tmp_path)
    net, _ = tool.float_model(path)
    reference = tool.logits_of(net, IDS)
    tool.quantize_inside(net)
    inside = tool.compare(tool.logits_of(net, IDS), reference, IDS)
    convert(path, tmp_path / "m.mlb", Options(tokenizer=False))
    exact = tool.compare(forward(Model(tmp_path / "m.mlb"), IDS, "exact"), reference, IDS)
    assert 0 < inside.error < 0.05 * inside.spread
    assert 0.5 * inside.error < exact.error < 2 * inside.error


def test_a_rounded_cache_costs_what_its_type_costs(tmp_path: Path) -> None:
    net, _ = tool.float_model(llama(tmp_path))
    reference = tool.logits_of(net, IDS)
    far = {}
    for kv in ("f16", "q8"):
        tool.round_cache(net, kv)
        far[kv] = tool.compare(tool.logits_of(net, IDS), reference, IDS)
    assert 0 < far["f16"].error < 0.001 * far["f16"].spread
    assert 2 * far["f16"].error < far["q8"].error < 0.02 * far["q8"].spread


def test_a_row_for_each_type_of_cache(tmp_path: Path) -> None:
    path, mlb = llama(tmp_path), tmp_path / "m.mlb"
    net, _ = tool.float_model(path)
    reference = tool.logits_of(net, IDS)
    convert(path, mlb, Options(tokenizer=False))
    rows = tool.measure_caches("m", mlb, net, reference, IDS, lambda sentence: None)
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[0] for row in cells] == ["f32", "f32, weights moved", "f16", "q8"]
    assert [bool(row[1]) for row in cells] == [False, False, True, True]
    assert float(cells[0][2]) == 0 < float(cells[1][2]) < float(cells[3][2])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.gguf", "m.mlb"]


def test_other_families_are_refused(tmp_path: Path) -> None:
    h = header("qwen2")
    path = write_gguf(tmp_path / "m.gguf", h, gguf_weights(random_weights(h), 16), "qwen2")
    with pytest.raises(UsageError, match="qwen2 is not among the families measured: llama, gemma3"):
        tool.float_model(path)


def test_closeness() -> None:
    rng = np.random.default_rng(1)
    reference = rng.standard_normal((300, 50)).astype(np.float32)
    ids = [int(i) for i in rng.integers(0, 50, 300)]
    same = tool.compare(reference, reference, ids)
    assert same.agreement == pytest.approx(1) and same.error == 0 and same.nats == same.float_nats
    other = reference + 0.5
    other[:150] = -other[:150]
    c = tool.compare(other, reference, ids)
    assert c.agreement == pytest.approx(0.5)
    assert c.error == pytest.approx(np.abs(other - reference).mean(), rel=1e-5)
    p = np.exp(reference - np.log(np.exp(reference).sum(axis=1, keepdims=True)))
    likelihoods = [np.log(p[i, ids[i + 1]]) for i in range(299)]
    assert c.float_nats == pytest.approx(-np.mean(likelihoods), rel=1e-5)
    assert same.perplexity == pytest.approx(np.exp(-np.mean(likelihoods)), rel=1e-5)
