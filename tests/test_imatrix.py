"""Importance matrices: what the engine adds up, the file, and what the quantizer makes of it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from krafla.runtime.cli import call
from krafla.tools.convert import Options, convert
from krafla.tools.errors import FormatError, UsageError
from krafla.tools.imatrix import FLOOR, read_imatrix
from krafla.tools.mlb import Model
from krafla.tools.quantize import dequantize, quantize_q4_0
from krafla.tools.ref_forward import ExactArithmetic, forward
from tests.checkpoints import hf_config, hf_weights, random_weights, write_hf
from tests.engines import Engine, usable_isas
from tests.models import header, model
from tests.toys import toy

IDS = [int(i) for i in np.random.default_rng(4).integers(0, 256, 30)]
INPUTS = (("wq", "wk", "wv", "wg", "lqkv", "lz"), ("wo", "lout"), ("w1", "w3"), ("w2",))


def collect(name: str, path: Path, wants: bool = True, **options: Any) -> bytes:
    with Engine(model(name), imatrix=1, **options) as engine:
        engine.extend(engine.open(), IDS, wants)
        engine.api.fn.ml_imatrix_write(engine.handle, bytes(path))
    return path.read_bytes()


def expected_sums(name: str, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Every product's input in the reference forward pass, which is bit for bit the engine's."""
    m = Model(model(name))
    inputs: dict[str, Any] = {}
    linear = ExactArithmetic.linear

    def spy(self: ExactArithmetic, x: Any, matrix: str) -> Any:
        inputs[matrix] = x
        return linear(self, x, matrix)

    monkeypatch.setattr(ExactArithmetic, "linear", spy)
    forward(m, IDS, "exact")
    h = m.header
    names = [
        next(f"layers.{i}.{matrix}" for matrix in matrices if f"layers.{i}.{matrix}" in inputs)
        for i in range(h.n_layers)
        for matrices in INPUTS
    ]
    names.append("tok_emb" if h.shared_classifier else "wcls")
    arrays = [np.add.accumulate(inputs[n].astype(np.float64) ** 2)[-1] for n in names]
    q_dim = 0 if h.q_dim == h.dim else h.q_dim
    numbers = struct.pack("<4s5I2Q", b"MLI1", 1, h.n_layers, h.dim, h.hidden_dim, q_dim, len(IDS), len(IDS))
    return numbers + b"".join(array.astype("<f8").tobytes() for array in arrays)


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3", "qwen35", "gate", "linear_last"])
def test_sums_are_those_of_the_reference(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert collect(name, tmp_path / "i") == expected_sums(name, monkeypatch)


def test_sums_depend_on_the_tokens_only(tmp_path: Path) -> None:
    isa = usable_isas()[-1]
    first = collect("qwen35", tmp_path / "a", isa=isa)
    for options in ({"threads": 2}, {"batch": 7}, {"pack": 0}, {"batch": 1, "threads": 3}):
        assert collect("qwen35", tmp_path / "b", isa=isa, **options) == first
    unwanted = collect("qwen35", tmp_path / "c", wants=False, isa=isa)
    assert struct.unpack_from("<2Q", unwanted, 24) == (len(IDS), 0)
    width = Model(model("qwen35")).header.dim * 8
    assert unwanted[40:-width] == first[40:-width] and not any(unwanted[-width:])


def test_logits_are_the_same_while_sums_are_taken() -> None:
    with Engine(model("llama")) as plain, Engine(model("llama"), imatrix=1) as summing:
        assert np.array_equal(plain.logits(IDS), summing.logits(IDS))
        sequence = summing.open()
        got = summing.forward((sequence, i, token, i in (3, 29)) for i, token in enumerate(IDS))
        assert np.array_equal(got, plain.logits(IDS)[[3, 29]])
        with pytest.raises(UsageError, match="opened without an importance matrix"):
            plain.api.fn.ml_imatrix_write(plain.handle, b"x")


# --- The reader


def test_importance_has_a_mean_of_one_and_a_floor(tmp_path: Path) -> None:
    data = bytearray(collect("llama", tmp_path / "i"))
    m = Model(model("llama"))
    sums = np.frombuffer(data, "<f8", 64, 40)
    data[40:48] = struct.pack("<d", 0.0)
    (tmp_path / "i").write_bytes(data)
    found = read_imatrix(tmp_path / "i", m.header)
    assert set(found) >= {
        f"layers.{i}.{name}" for i in range(2) for name in ("wq", "wk", "wo", "w1", "w2")
    } | {"wcls"}
    assert found["layers.0.wq"][0] == np.float32(FLOOR)
    assert found["layers.0.wq"][1:].mean() == pytest.approx(64 / 63, rel=1e-5)
    assert np.allclose(found["layers.0.wv"][1:] / found["layers.0.wv"][1], sums[1:64] / sums[1])


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda data: b"MLB1" + data[4:], "not an importance matrix"),
        (lambda data: data[:30], "not an importance matrix|implies"),
        (lambda data: data[:4] + b"\2" + data[5:], "version is 2, must be 1"),
        (lambda data: data[:8] + b"\3" + data[9:], "n_layers is 3, the model has 2"),
        (lambda data: data[:20] + b"\3" + data[21:], "q_dim is 3, the model has 0"),
        (lambda data: data[:-8], "bytes, its header implies"),
        (lambda data: data[:24] + bytes(8) + data[32:], "sums of no tokens"),
        (lambda data: data[:-8] + struct.pack("<d", float("nan")), "negative or not finite"),
        (lambda data: data[:-8] + struct.pack("<d", -1.0), "negative or not finite"),
    ],
)
def test_wrong_files(damage: Any, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "i"
    path.write_bytes(damage(collect("llama", path)))
    with pytest.raises(FormatError, match=sentence):
        read_imatrix(path, Model(model("llama")).header)


# --- The quantizer


def test_important_columns_get_smaller_errors() -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((64, 256)).astype(np.float32)
    importance = np.where(np.arange(256) % 4 == 0, 30, 0.1).astype(np.float32)
    plain = (dequantize(*quantize_q4_0(x)) - x) ** 2
    weighted = (dequantize(*quantize_q4_0(x, importance=importance)) - x) ** 2
    assert weighted[:, ::4].sum() < 0.8 * plain[:, ::4].sum()
    assert (weighted * importance).sum() < 0.85 * (plain * importance).sum()


def test_tiny_and_zero_weights_with_importance() -> None:
    importance = np.linspace(0.001, 4, 64, dtype=np.float32)
    x = np.random.default_rng(6).standard_normal((4, 64)).astype(np.float32)
    x[1] *= 1e-30
    x[2] = 0
    x[3, 5:] *= 1e-9
    q, d = quantize_q4_0(x, importance=importance)
    assert np.isfinite(d).all() and not q[2].any()
    scaled = quantize_q4_0(x[:1] * np.float32(2**-90), importance=importance)
    assert np.array_equal(scaled[0], quantize_q4_0(x[:1], importance=importance)[0])


def test_from_run_to_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Collected by the command line on a Q8_0 model, used for a Q4_0 one."""
    path, sums = toy(tmp_path), tmp_path / "toy.imatrix"
    assert call(["run", "hello there", "-m", str(path), "-n", "8", "-q", "--imatrix", str(sums)]) == 0
    h = Model(path).header
    assert read_imatrix(sums, h)
    capsys.readouterr()


def test_convert_uses_it(tmp_path: Path) -> None:
    h = header("llama")
    weights = {
        name: values * np.random.default_rng(7).uniform(0.5, 1.5, values.shape).astype(np.float32)
        for name, values in random_weights(h).items()
    }
    folder = write_hf(tmp_path / "hf", hf_config(h), hf_weights(weights, 16))
    convert(folder, tmp_path / "q8.mlb", Options(tokenizer=False))
    with Engine(tmp_path / "q8.mlb", imatrix=1) as engine:
        engine.extend(engine.open(), IDS)
        engine.api.fn.ml_imatrix_write(engine.handle, bytes(tmp_path / "i"))
    importance = read_imatrix(tmp_path / "i", h)
    convert(folder, tmp_path / "q4.mlb", Options(type="q4_0", imatrix=tmp_path / "i", tokenizer=False))
    m = Model(tmp_path / "q4.mlb")
    for name in ("layers.0.w1", "layers.1.w2", "wcls"):
        expected = dequantize(*quantize_q4_0(weights[name], importance=importance[name]))
        assert np.array_equal(m.values(name), expected), name
    assert np.array_equal(m.values("tok_emb"), dequantize(*quantize_q4_0(weights["tok_emb"])))


@pytest.mark.parametrize("options", [{"type": "q8_0"}, {"type": "q4_0", "q4_rule": "round"}])
def test_it_is_for_the_search(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="for the search of Q4_0 scales"):
        Options(imatrix=tmp_path / "i", **options)
