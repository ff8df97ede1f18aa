"""The reference forward pass: *exact* against the engine, *float* against the formulas of the format."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from krafla.tools import exact_ops, ref_forward
from krafla.tools.errors import KraflaError, UsageError
from krafla.tools.gen_random import write_random
from krafla.tools.mlb import LAYER_LOCAL_ROPE, LAYER_WINDOW, Model
from krafla.tools.ref_forward import forward, frequencies, rope_angles
from tests.engines import Engine
from tests.models import MODELS, header, model

IDS = [int(i) for i in np.random.default_rng(1).integers(0, 263, 40)]


@pytest.mark.parametrize("kv", ["f32", "f16", "q8"])
@pytest.mark.parametrize("name", MODELS)
def test_exact_is_the_engines_unfused_arithmetic(name: str, kv: Any) -> None:
    with Engine(model(name), isa="scalar", kv=kv) as engine:
        logits = engine.logits(IDS)
    expected = forward(Model(model(name)), IDS, "exact", kv)
    assert expected.dtype == np.float32
    assert np.array_equal(logits.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("name", MODELS)
def test_exact_is_close_to_float(name: str) -> None:
    m = Model(model(name))
    expected = forward(m, IDS)
    scale = expected.std()
    assert expected.shape == (40, m.header.vocab) and expected.dtype == np.float64
    deep = 2 if m.header.lin_k_heads else 1  # a state adds up the noise of quantized activations
    for kv, limit in (("f32", 0.04 * deep), ("f16", 0.04 * deep), ("q8", 0.05 * deep)):
        error = forward(m, IDS, "exact", kv) - expected  # type: ignore[arg-type]
        assert math.sqrt((error * error).mean()) < limit * scale


@pytest.mark.parametrize("mode", ["float", "exact"])
@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_later_tokens_change_nothing(name: str, mode: Any) -> None:
    m = Model(model(name))
    whole, part = forward(m, IDS, mode), forward(m, IDS[:25], mode)
    if mode == "exact":
        assert np.array_equal(whole[:25], part)
    else:
        assert np.allclose(whole[:25], part, rtol=0, atol=1e-11)


def test_a_window_forgets() -> None:
    m = Model(model("mistral"))  # 2 layers of 20 positions see 39 back
    changed = [*IDS, 7]
    changed[0] = (IDS[0] + 1) % 263
    before, after = forward(m, [*IDS, 7], "exact"), forward(m, changed, "exact")
    differs = (before != after).any(axis=1)
    assert differs[:39].all() and not differs[39:].any()


# --- RoPE


def test_plain_frequencies_are_correctly_rounded() -> None:
    h = header("llama", rope_theta=500000.0, head_dim=64)
    expected = [float(np.longdouble(500000) ** (np.longdouble(-2 * i) / 64)) for i in range(32)]
    assert np.array_equal(frequencies(h), expected)


def test_linear_frequencies() -> None:
    assert np.array_equal(frequencies(header("linear")) * 2, frequencies(header("llama")))


def test_llama3_frequencies() -> None:
    h = header("llama3", head_dim=64, rope_orig_max_seq=8192)
    for plain, scaled in zip(frequencies(replace(h, rope_type=0)), frequencies(h), strict=True):
        wavelength = 2 * math.pi / plain
        s = (8192 / wavelength - 1) / (4 - 1)
        expected = plain if wavelength < 8192 / 4 else plain / 8
        if 8192 / 4 <= wavelength <= 8192 / 1:
            expected = (1 - s) * plain / 8 + s * plain
        assert scaled == pytest.approx(expected, rel=1e-14)


def test_yarn_frequencies() -> None:
    h = header("yarn", head_dim=64, rope_orig_max_seq=4096)
    plain, scaled = frequencies(replace(h, rope_type=0)), frequencies(h)

    def d(rotations: float) -> float:
        return 64 * math.log(4096 / (2 * math.pi * rotations)) / (2 * math.log(10000))

    low, high = math.floor(d(32)), math.ceil(d(1))
    for i in range(32):
        ramp = min(max((i - low) / (high - low), 0), 1)
        assert scaled[i] == pytest.approx(plain[i] / 4 * ramp + plain[i] * (1 - ramp), rel=1e-14)
    assert scaled[0] == plain[0] and scaled[31] == pytest.approx(plain[31] / 4)


def test_the_local_base_is_never_scaled() -> None:
    h = header("llama3", rope_local_theta=2e4)
    expected = np.arange(5)[:, None] * frequencies(header("llama", rope_theta=2e4))
    assert np.array_equal(rope_angles(h, 5, local=True), expected)


# --- Every feature at once, against a forward pass that takes one value at a time

RICH: dict[str, Any] = {
    "qk_norm": 1,
    "qkv_bias": 1,
    "post_norms": 1,
    "act": 1,
    "embed_scale": 8.0,
    "attn_scale": 0.3,
    "rope_local_theta": 1e3,
    "sliding_window": 4,
    "rot_dim": 8,
    "layer_flags": 1,
}


def slow_forward(m: Model, ids: list[int], flags: bytes) -> np.ndarray[Any, Any]:
    h, w = m.header, {name: m.values(name).astype(np.float64) for name in m.tensors if name != "layer_flags"}

    def norm(x: Any, weight: Any) -> Any:
        return x / math.sqrt(sum(v * v for v in x) / len(x) + h.norm_eps) * weight

    def rotate(x: Any, position: int, theta: float) -> Any:
        out = x.copy()
        for i in range(h.rot_size // 2):
            angle = position * theta ** (-2 * i / h.rot_size)
            a, b = x[2 * i], x[2 * i + 1]
            out[2 * i] = a * math.cos(angle) - b * math.sin(angle)
            out[2 * i + 1] = a * math.sin(angle) + b * math.cos(angle)
        return out

    def cap(x: float, limit: float) -> float:
        return limit * math.tanh(x / limit) if limit else x

    def gelu(x: float) -> float:
        return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    cache: dict[tuple[int, int], list[Any]] = {}
    logits = []
    for position, token in enumerate(ids):
        x = w["tok_emb"][token] * h.embed_scale
        for i in range(h.n_layers):
            p = f"layers.{i}."
            theta = h.rope_local_theta if flags[i] & LAYER_LOCAL_ROPE else h.rope_theta
            n = norm(x, w[p + "attn_norm"])
            q, k, v = (w[f"{p}w{c}"] @ n + w[f"{p}b{c}"] for c in "qkv")
            heads = []
            for kv in range(h.n_kv_heads):
                part = slice(kv * h.head_size, (kv + 1) * h.head_size)
                key = rotate(norm(k[part], w[p + "k_norm"]), position, theta)
                cache.setdefault((i, kv), []).append((key, v[part]))
            for head in range(h.n_heads):
                query = q[head * h.head_size : (head + 1) * h.head_size]
                query = rotate(norm(query, w[p + "q_norm"]), position, theta)
                seen = cache[i, head // (h.n_heads // h.n_kv_heads)]
                if flags[i] & LAYER_WINDOW:
                    seen = seen[-h.sliding_window :]
                weights = [
                    math.exp(cap(float(query @ key) * h.attn_scale, h.attn_softcap)) for key, _ in seen
                ]
                heads.append(
                    sum(e * value for e, (_, value) in zip(weights, seen, strict=True)) / sum(weights)
                )
            x = x + norm(w[p + "wo"] @ np.concatenate(heads), w[p + "post_attn_norm"])
            n = norm(x, w[p + "ffn_norm"])
            gate = np.array([gelu(g) for g in w[p + "w1"] @ n])
            x = x + norm(w[p + "w2"] @ (gate * (w[p + "w3"] @ n)), w[p + "post_ffn_norm"])
        out = w["wcls"] @ norm(x, w["final_norm"])
        logits.append([cap(float(value), h.final_softcap) for value in out])
    return np.array(logits)


@pytest.mark.parametrize("caps", [{}, {"attn_softcap": 5.0, "final_softcap": 3.0}])
def test_every_feature_together(caps: dict[str, float], tmp_path: Path) -> None:
    flags = bytes([LAYER_WINDOW | LAYER_LOCAL_ROPE, 0])
    path = tmp_path / "rich.mlb"
    write_random(path, header("llama", **RICH, **caps), 3, flags)
    m = Model(path)
    expected = slow_forward(m, IDS[:12], flags)
    logits = forward(m, IDS[:12])
    assert np.abs(logits - expected).max() < 1e-11 * np.abs(expected).max()
    error = forward(m, IDS[:12], "exact") - expected
    assert math.sqrt((error * error).mean()) < 0.04 * expected.std()


# --- Single operations


def test_exp() -> None:
    x = np.linspace(-87, 88, 5001, dtype=np.float32)
    assert np.abs(exact_ops.exp(x) / np.exp(x.astype(np.float64)) - 1).max() < 2e-7
    edges = np.array([-np.inf, -87.4, 89, np.inf, np.nan], np.float32)
    assert np.array_equal(exact_ops.exp(edges), [0, 0, np.inf, np.inf, np.nan], equal_nan=True)


def test_log_and_softplus() -> None:
    x = np.concatenate([np.linspace(0.5, 2, 4001), np.geomspace(1e-37, 1e38, 2001)]).astype(np.float32)
    expected = np.log(x.astype(np.float64))
    assert (np.abs(exact_ops.log(x) - expected) <= 1.5e-7 * np.maximum(np.abs(expected), 0.01)).all()
    x = np.linspace(-80, 30, 5001, dtype=np.float32)
    assert np.abs(exact_ops.softplus(x) / np.logaddexp(0, x.astype(np.float64)) - 1).max() < 4e-7


def test_softcap_and_sigmoid() -> None:
    x = np.linspace(-300, 300, 5001, dtype=np.float32)
    wide = x.astype(np.float64)
    assert np.abs(exact_ops.softcap(x, 30.0) - 30 * np.tanh(wide / 30)).max() < 1e-5
    assert np.abs(exact_ops.sigmoid(x) - 1 / (1 + np.exp(-wide))).max() < 1.2e-7


def test_fold16_order() -> None:
    x = np.random.default_rng(2).standard_normal(45).astype(np.float32)
    p = [np.float32(0)] * 16
    for i, value in enumerate(x):
        p[i % 16] += value
    for half in (8, 4, 2, 1):
        for j in range(half):
            p[j] += p[j + half]
    assert exact_ops.fold16(x) == p[0]


# --- Refusals


@pytest.mark.parametrize(
    ("name", "ids", "options", "error", "sentence"),
    [
        ("llama", [], {}, UsageError, "token ids must be from 0 to 262"),
        ("llama", [263], {}, UsageError, "token ids must be from 0 to 262"),
        ("llama", [-1], {}, UsageError, "token ids must be from 0 to 262"),
        ("llama", [1] * 321, {}, UsageError, "321 tokens do not fit into the 320 positions"),
        ("llama", [1], {"kv": "q8"}, UsageError, "float mode keeps keys and values"),
    ],
)
def test_refuses(name: str, ids: list[int], options: Any, error: type[KraflaError], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        forward(Model(model(name)), ids, **options)


def test_command(tmp_path: Path) -> None:
    out = tmp_path / "logits.npy"
    run = CliRunner().invoke
    result = run(
        ref_forward.main, [str(model("llama")), "--ids", "5,6", "--mode", "exact", "--out", str(out)]
    )
    assert result.exit_code == 0, result.output
    logits = np.load(out)
    assert np.array_equal(logits, forward(Model(model("llama")), [5, 6], "exact"))
    assert result.output.splitlines()[1].startswith(f"{logits[1].argmax()}:{logits[1].max():.4f}")
    assert run(ref_forward.main, [str(tmp_path / "none.mlb"), "--ids", "1"]).exit_code == 4
    assert run(ref_forward.main, [str(model("llama")), "--ids", "x"]).exit_code == 2
