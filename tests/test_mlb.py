"""The .mlb reference reader and writer, and the quantization rules against slow, obvious ones."""

from __future__ import annotations

import math
import resource
import struct
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from krafla.tools import gen_random
from krafla.tools.errors import AccessError, FormatError, KraflaError, ShapeError
from krafla.tools.mlb import (
    HEADER_BYTES,
    LAYER_LINEAR,
    LAYER_LOCAL_ROPE,
    LAYER_NO_ROPE,
    LAYER_WINDOW,
    Q4_0,
    Q8_0,
    Header,
    Model,
    Writer,
    layout,
    validate,
)
from krafla.tools.quantize import (
    F32,
    Q4_LEVELS,
    ScaleOverflowError,
    dequantize,
    pack_q4,
    quantize_q4_0,
    quantize_q8_0,
    unpack_q4,
)
from tests.models import LAYER_FLAGS, MODELS, header, model

_f = np.float32
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**100), max_value=2.0**100)
PLAIN = st.floats(width=32, min_value=-4, max_value=4)
SMALL = st.floats(width=32, min_value=-(2.0**-20), max_value=2.0**-20)


def blocks(elements: st.SearchStrategy[float]) -> st.SearchStrategy[F32]:
    return st.lists(elements, min_size=32, max_size=32).map(lambda x: np.array(x, np.float32))


# --- Q8_0


def slow_q8(x: F32, f16: bool) -> tuple[list[int], np.float32]:
    amax = max(abs(v) for v in x)
    if amax < _f(1e-30):
        return [0] * 32, _f(0)
    d, inverse = amax / _f(127), _f(127) / amax
    if f16:
        d = _f(np.float16(d))
        if d == 0:
            return [0] * 32, _f(0)
        inverse = _f(1) / d
    quants = [int(v * inverse + _f(math.copysign(0.5, v))) for v in x]
    return [max(-127, min(127, q)) for q in quants], d


@given(blocks(FLOATS) | blocks(PLAIN) | blocks(SMALL))
def test_q8_rule(x: F32) -> None:
    q, d = quantize_q8_0(x)
    assert (q.tolist(), d[0]) == slow_q8(x, f16=False)


@given(blocks(PLAIN) | blocks(SMALL))
def test_q8_rule_with_f16_scales(x: F32) -> None:
    q, d = quantize_q8_0(x, f16_scales=True)
    assert (q.tolist(), d[0]) == slow_q8(x, f16=True)


def test_scales_beyond_f16_are_refused() -> None:
    x = np.zeros(32, np.float32)
    x[3] = 127 * 65600.0
    for quantize in (quantize_q8_0, quantize_q4_0):
        before = x.copy()
        quantize(x)
        assert np.array_equal(x, before), "the input is left alone"
        with pytest.raises(ScaleOverflowError, match="beyond f16"):
            quantize(x, True)


def test_rows_must_consist_of_blocks() -> None:
    with pytest.raises(ValueError, match="blocks of 32"):
        quantize_q8_0(np.zeros((2, 33)))


# --- Q4_0


def slow_q4_candidates(x: F32) -> list[tuple[float, list[int], float]]:
    """(weighted error, levels, d) of every candidate, in float64."""
    largest = x[np.abs(x).argmax()]
    found = []
    for level in Q4_LEVELS:
        q = [int(max(-8, min(7, round(float(_f(v * (_f(level) / largest))))))) for v in x]
        w = [float(v) ** 2 for v in x]
        xq = sum(wi * float(v) * qi for wi, v, qi in zip(w, x, q, strict=True))
        qq = sum(wi * qi * qi for wi, qi in zip(w, q, strict=True))
        d = xq / qq
        error = sum(wi * (float(v) - d * qi) ** 2 for wi, v, qi in zip(w, x, q, strict=True))
        found.append((error, q, d))
    return found


def test_q4_levels_are_the_formats() -> None:
    assert Q4_LEVELS == (-6.0, -6.2, -6.4, -6.6, -6.8, -7.0, -7.2, -7.4, -7.6, -7.8, -8.0, -8.2, -8.4)


@settings(max_examples=60)
@given(blocks(PLAIN).filter(lambda x: bool(np.abs(x).max() > 1e-3)), st.sampled_from([1.0, 1e-8, 1e-18, 1e8]))
def test_q4_search_takes_the_best_candidate(x: F32, scale: float) -> None:
    candidates = slow_q4_candidates(x)
    q, d = quantize_q4_0(x * _f(scale))
    fitted = float(d[0]) / scale
    matching = [c for c in candidates if c[1] == q.tolist() and abs(c[2] - fitted) <= 1e-5 * abs(c[2])]
    assert matching, "the levels and their scale are one of the candidates"
    energy = sum(float(v) ** 4 for v in x)
    assert matching[0][0] <= min(c[0] for c in candidates) + 1e-5 * energy


def test_q4_search_beats_rounding() -> None:
    x = np.random.default_rng(1).standard_normal((64, 256), np.float32)

    def error(rule: Any) -> float:
        values = dequantize(*quantize_q4_0(x, rule=rule))
        return float((x * x * (x - values) ** 2).sum())

    assert error("search") < 0.8 * error("round")


@pytest.mark.parametrize("scale", [0.0, -0.0, 1e-44])
def test_q4_of_nothing(scale: float) -> None:
    x = np.full((1, 64), scale, np.float32)
    values = dequantize(*quantize_q4_0(x))
    assert np.isfinite(values).all() and np.abs(values - x).max() <= abs(scale)
    assert not dequantize(*quantize_q4_0(x, rule="round")).any()


@given(blocks(PLAIN).filter(lambda x: bool(np.abs(x).max() > 1e-3)))
def test_q4_round_rule(x: F32) -> None:
    largest = next(v for v in x if abs(v) == np.abs(x).max())
    d = largest / _f(-8)
    expected = [min(15, int(v * (_f(1) / d) + _f(8.5))) - 8 for v in x]
    q, scales = quantize_q4_0(x, rule="round")
    assert (q.tolist(), scales[0]) == (expected, d)


@pytest.mark.parametrize("rule", ["search", "round"])
def test_q4_f16_scales_are_the_rounded_ones(rule: Any) -> None:
    x = np.random.default_rng(2).standard_normal((8, 64), np.float32)
    q, d = quantize_q4_0(x, rule=rule)
    q16, d16 = quantize_q4_0(x, True, rule)
    assert np.array_equal(q, q16) and np.array_equal(d.astype(np.float16), d16)


def test_nibbles() -> None:
    q = np.tile(np.arange(-8, 8, dtype=np.int8), 4).reshape(1, 64)
    q[0, 16] = 5
    packed = pack_q4(q)
    assert packed.shape == (1, 32)
    assert packed[0, 0] == int(q[0, 0] + 8) | int(q[0, 16] + 8) << 4
    assert packed[0, 31] == int(q[0, 47] + 8) | int(q[0, 63] + 8) << 4
    assert np.array_equal(unpack_q4(packed), q)


def test_every_pass_of_blocks_is_quantized() -> None:
    x = np.random.default_rng(3).standard_normal((5, 32 * 1001), np.float32)
    for quantize in (quantize_q8_0, quantize_q4_0):
        q, d = quantize(x)
        assert q.shape == x.shape and d.shape == (5, 1001)
        last_q, last_d = quantize(x[4, -32:])
        assert np.array_equal(last_q, q[4, -32:]) and last_d[0] == d[4, -1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Q8_0, Q4_0])
def test_135_million_weights_take_less_than_20_seconds(kind: int) -> None:
    x = np.random.default_rng(4).standard_normal((4096, 1024), np.float32)
    start = time.process_time()
    (quantize_q8_0 if kind == Q8_0 else quantize_q4_0)(x)
    assert (time.process_time() - start) * 135e6 / x.size < 20


# --- Header and layout

OFFSETS = """
    version dim n_layers n_heads n_kv_heads hidden_dim vocab max_seq rope_theta norm_eps wtype
    shared_classifier rope_type rope_factor rope_low_freq_factor rope_high_freq_factor rope_orig_max_seq
    q8_mask qkv_bias head_dim qk_norm rope_attn_factor sliding_window layer_flags rope_local_theta act
    post_norms embed_scale attn_scale scale_f16 attn_softcap final_softcap rot_dim attn_gate lin_k_heads
    lin_v_heads lin_k_dim lin_v_dim lin_conv
"""
FLOAT_FIELDS = """
    rope_theta norm_eps rope_factor rope_low_freq_factor rope_high_freq_factor rope_attn_factor
    rope_local_theta embed_scale attn_scale attn_softcap final_softcap
"""


def test_header_fields_lie_where_the_format_says() -> None:
    names = OFFSETS.split()
    values: dict[str, Any] = {
        name: (i + 0.5 if name in FLOAT_FIELDS.split() else i + 1000) for i, name in enumerate(names, start=1)
    }
    data = Header(**values).pack()
    assert data[:4] == b"MLB1" and len(data) == HEADER_BYTES and not any(data[160:])
    for i, name in enumerate(names, start=1):
        code = "<f" if name in FLOAT_FIELDS.split() else "<I"
        assert struct.unpack_from(code, data, 4 * i)[0] == values[name], name
    assert Header.unpack(data) == Header(**values)
    assert [f.name for f in fields(Header)] == names


def test_arrays_lie_where_the_format_says() -> None:
    h = replace(header("mixed"), scale_f16=1)
    tensors = layout(h)
    at = HEADER_BYTES
    for name, rows, cols, kind in [
        ("tok_emb", 263, 64, "q4"),
        ("layers.0.attn_norm", 1, 64, "f32"),
        ("layers.0.wq", 64, 64, "q4"),
        ("layers.0.wk", 32, 64, "q4"),
        ("layers.0.wv", 32, 64, "q8"),
        ("layers.0.wo", 64, 64, "q4"),
        ("layers.0.ffn_norm", 1, 64, "f32"),
        ("layers.0.w1", 96, 64, "q4"),
        ("layers.0.w2", 64, 96, "q8"),
        ("layers.0.w3", 96, 64, "q4"),
    ]:
        assert tensors[name].offset == at, name
        bytes_of = {"f32": rows * cols * 4, "q8": rows * cols, "q4": rows * cols // 2}[kind]
        at += -(-bytes_of // 64) * 64
        if kind != "f32":
            assert tensors[name].scales_offset == at, name
            at += -(-rows * cols // 32 * 2 // 64) * 64
    assert list(tensors)[-2:] == ["final_norm", "wcls"] and tensors["wcls"].kind == Q8_0


@pytest.mark.parametrize(
    ("mask", "shared", "q8"),
    [
        (0, 0, ""),
        (1, 0, "tok_emb"),
        (2, 0, "wcls"),
        (2, 1, "tok_emb"),
        (1, 1, "tok_emb"),
        (4, 0, "wq wk"),
        (8, 0, "wv"),
        (16, 0, "wo"),
        (32, 0, "w1 w3"),
        (64, 0, "w2"),
    ],
)
def test_classes_of_the_mask(mask: int, shared: int, q8: str) -> None:
    tensors = layout(replace(header("q4"), q8_mask=mask, shared_classifier=shared)).values()
    assert {t.name.rpartition(".")[2] for t in tensors if t.kind == Q8_0} == set(q8.split())


LINEAR: dict[str, Any] = {
    "lin_k_heads": 2,
    "lin_v_heads": 4,
    "lin_k_dim": 16,
    "lin_v_dim": 24,
    "lin_conv": 4,
    "attn_gate": 1,
    "qkv_bias": 1,
    "qk_norm": 1,
    "post_norms": 1,
    "layer_flags": 1,
    "wtype": Q4_0,
}


def test_linear_attention_layers() -> None:
    h = header("llama", **LINEAR)
    tensors = layout(h, bytes([LAYER_LINEAR, 0]))
    shapes = {t.name: (t.rows, t.cols, t.kind) for t in tensors.values()}
    assert list(shapes)[:2] == ["layer_flags", "tok_emb"] and tensors["tok_emb"].offset == HEADER_BYTES + 64
    first = [name.removeprefix("layers.0.") for name in shapes if name.startswith("layers.0.")]
    ffn = "ffn_norm w1 w2 w3 post_attn_norm post_ffn_norm"
    assert " ".join(first) == f"attn_norm lqkv lz lb la lconv dt_bias a_log lnorm lout {ffn}"
    second = [name.removeprefix("layers.1.") for name in shapes if name.startswith("layers.1.")]
    assert " ".join(second) == f"attn_norm wq wk wv wo wg bq bk bv q_norm k_norm {ffn}"
    assert shapes["layers.0.lqkv"] == (2 * 2 * 16 + 4 * 24, 64, Q4_0)
    assert shapes["layers.0.lz"] == (96, 64, Q4_0)
    assert shapes["layers.0.lb"] == shapes["layers.0.la"] == (4, 64, Q8_0)
    assert shapes["layers.0.lconv"] == (160, 4, 0)
    assert shapes["layers.0.lout"] == (64, 96, Q4_0)


# --- Validation

BAD: list[tuple[dict[str, Any], type[KraflaError], str]] = [
    ({"version": 2}, FormatError, "version is 2, must be 1"),
    ({"wtype": 3}, FormatError, "wtype is 3"),
    ({"rope_type": 4, "rope_factor": 1.0}, FormatError, "rope_type is 4"),
    ({"rope_theta": 0.0}, FormatError, "rope_theta is 0"),
    ({"norm_eps": -1.0}, FormatError, "norm_eps is -1"),
    ({"norm_eps": math.nan}, FormatError, "norm_eps is nan"),
    ({"rope_type": 2}, FormatError, "rope_factor is 0"),
    ({"rope_type": 2, "rope_factor": math.inf}, FormatError, "rope_factor is inf"),
    ({**MODELS["llama3"], "rope_low_freq_factor": 0.0}, FormatError, "rope_low_freq_factor is 0"),
    ({**MODELS["llama3"], "rope_high_freq_factor": 1.0}, FormatError, "must be above rope_low_freq_factor"),
    ({**MODELS["llama3"], "rope_orig_max_seq": 0}, FormatError, "rope_orig_max_seq is 0"),
    ({**MODELS["yarn"], "rope_high_freq_factor": 32.0}, FormatError, "must be below beta_fast"),
    ({**MODELS["yarn"], "rope_attn_factor": 0.0}, FormatError, "rope_attn_factor is 0"),
    ({"rope_attn_factor": 1.0}, FormatError, "rope_attn_factor is 1, must be 0 without yarn"),
    ({"qkv_bias": 2}, FormatError, "qkv_bias is 2"),
    ({"qk_norm": 2}, FormatError, "qk_norm is 2"),
    ({"layer_flags": 2}, FormatError, "layer_flags is 2"),
    ({"post_norms": 2}, FormatError, "post_norms is 2"),
    ({"scale_f16": 2}, FormatError, "scale_f16 is 2"),
    ({"attn_gate": 2}, FormatError, "attn_gate is 2"),
    ({"act": 2}, FormatError, "act is 2"),
    ({"embed_scale": -1.0}, FormatError, "embed_scale is -1"),
    ({"attn_scale": math.inf}, FormatError, "attn_scale is inf"),
    ({"attn_softcap": -1.0}, FormatError, "attn_softcap is -1"),
    ({"final_softcap": math.nan}, FormatError, "final_softcap is nan"),
    ({"rope_local_theta": -1.0}, FormatError, "rope_local_theta is -1"),
    ({"sliding_window": (1 << 24) + 1}, FormatError, "sliding_window is"),
    ({"dim": 0}, ShapeError, "dim is 0"),
    ({"dim": 65568}, ShapeError, "dim is 65568"),
    ({"dim": 100}, ShapeError, "dim is 100, must be a multiple of 32"),
    ({"n_layers": 0}, ShapeError, "n_layers is 0"),
    ({"n_heads": 0}, ShapeError, "n_heads is 0"),
    ({"n_heads": 5}, ShapeError, "n_heads is 5, must be a divisor of dim"),
    ({"n_kv_heads": 3}, ShapeError, "n_kv_heads is 3, must be a divisor"),
    ({"hidden_dim": 100}, ShapeError, "hidden_dim is 100, must be a multiple of 32"),
    ({"vocab": 2}, ShapeError, "vocab is 2"),
    ({"vocab": (1 << 24) + 1}, ShapeError, "vocab is"),
    ({"max_seq": 0}, ShapeError, "max_seq is 0"),
    ({"head_dim": 17}, ShapeError, "head_dim is 17, must be even"),
    ({"head_dim": 6}, ShapeError, "q_dim is 24"),
    ({"head_dim": 65536}, ShapeError, "q_dim is 262144"),
    ({"rot_dim": 18}, ShapeError, "rot_dim is 18"),
    ({"rot_dim": 3}, ShapeError, "rot_dim is 3"),
    ({**LINEAR, "lin_conv": 0}, ShapeError, "lin_conv is 0"),
    ({**LINEAR, "lin_v_heads": 6}, ShapeError, "lin_v_heads is 6"),
    ({**LINEAR, "lin_v_dim": 20}, ShapeError, r"lin_v_dim is 80"),
]


@pytest.mark.parametrize(("changes", "error", "sentence"), BAD, ids=lambda x: x if isinstance(x, str) else "")
def test_validation(changes: dict[str, Any], error: type[KraflaError], sentence: str) -> None:
    h = Header(**{**vars(header("llama")), **changes})
    with pytest.raises(error, match=sentence) as caught:
        validate(h.as_stored(), "m.mlb")
    assert caught.value.message.startswith("m.mlb: ") and caught.value.exit_code == (
        5 if error is FormatError else 6
    )


@pytest.mark.parametrize(
    ("flags", "changes", "sentence"),
    [
        ([1], {}, "1 layer flags for 2 layers"),
        ([1, 16], {}, "flags of layer 1 are 16"),
        ([LAYER_LOCAL_ROPE | LAYER_NO_ROPE, 0], {"rope_local_theta": 1e4}, "both the local RoPE base"),
        ([0, LAYER_LOCAL_ROPE], {}, "needs rope_local_theta"),
        ([LAYER_LINEAR, 0], {}, "needs lin_k_heads"),
        ([LAYER_LINEAR | LAYER_WINDOW, 0], LINEAR, "stands alone"),
    ],
)
def test_validation_of_layer_flags(flags: list[int], changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        validate(header("llama", **{**changes, "layer_flags": 1}), "m.mlb", bytes(flags))


@pytest.mark.parametrize("name", MODELS)
def test_models_of_the_tests_are_valid(name: str) -> None:
    m = Model(model(name))
    m.check_quants()
    assert replace(m.header, layer_flags=0) == header(name).as_stored()
    assert m.layer_flags == LAYER_FLAGS.get(name, b"")


@pytest.mark.parametrize("field", ["dim", "rope_theta"])
def test_numbers_that_fit_no_field(field: str) -> None:
    with pytest.raises(FormatError, match=field):
        header("llama", **{field: 1e300}).pack()


# --- Reader and writer


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "mixed_shared", "window_layers"])
@pytest.mark.parametrize("whole", [True, False])
def test_what_is_written_is_read(name: str, whole: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    path = tmp_path / "m.mlb"
    expected = {}
    with Writer(path, header(name), LAYER_FLAGS.get(name, b"")) as writer:
        tensors = [t for t in writer.tensors.values() if t.name != "layer_flags"]
        for t in tensors if whole else reversed(tensors):
            x = gen_random.random_rows(rng, t, t.rows, grid=True)
            expected[t.name] = x if t.rows > 1 else x[0]
            for part in [x] if whole else np.array_split(x, 3):
                writer.write(t.name, part)
    read = Model(path)
    for key, values in expected.items():
        assert np.array_equal(read.values(key), values), key
    assert np.array_equal(read.values("tok_emb", [3, 1]), expected["tok_emb"][[3, 1]])
    assert path.stat().st_size % 64 == 0 and list(tmp_path.iterdir()) == [path]


def attempt(path: Path, fault: str) -> None:
    with Writer(path, replace(header("llama"), scale_f16=1)) as writer:
        for t in writer.tensors.values():
            x = np.ones((t.rows, t.cols), np.float32)
            if t.name == "layers.1.w1":
                if fault == "missing":
                    continue
                if fault == "short":
                    x = x[:-1]
                if fault == "long":
                    x = np.concatenate([x, x])
                if fault == "nan":
                    x[5, 5] = np.nan
                if fault == "scale":
                    x[5, 5] = 1e9
                if fault == "interrupt":
                    raise KeyboardInterrupt
            writer.write(t.name, x)


@pytest.mark.parametrize(
    ("fault", "error", "sentence"),
    [
        ("missing", FormatError, r"layers\.1\.w1 is missing or incomplete"),
        ("short", FormatError, r"layers\.1\.w1 is missing or incomplete"),
        ("long", ShapeError, r"layers\.1\.w1 got 192 rows, must have 96"),
        ("nan", FormatError, r"layers\.1\.w1 has a weight that is NaN"),
        ("scale", FormatError, r"layers\.1\.w1: a scale of .* is beyond f16"),
        ("interrupt", KeyboardInterrupt, None),
    ],
)
def test_nothing_half_written(
    fault: str, error: type[BaseException], sentence: str | None, tmp_path: Path
) -> None:
    with pytest.raises(error, match=sentence):
        attempt(tmp_path / "m.mlb", fault)
    assert not list(tmp_path.iterdir())
    (tmp_path / "m.mlb").write_text("the old one")
    with pytest.raises(error):
        attempt(tmp_path / "m.mlb", fault)
    assert (tmp_path / "m.mlb").read_text() == "the old one"


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match=r"nowhere/m\.mlb: cannot write: No such file"):
        Writer(tmp_path / "nowhere" / "m.mlb", header("llama"))
    (tmp_path / "m.mlb").mkdir()
    with pytest.raises(AccessError, match=r"m\.mlb: cannot write"):
        attempt(tmp_path / "m.mlb", "none")
    assert [p.name for p in tmp_path.iterdir()] == ["m.mlb"]


def test_a_full_disk(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, limits[1]))
    try:
        with pytest.raises(AccessError, match=r"m\.mlb: cannot write: File too large"):
            attempt(tmp_path / "m.mlb", "none")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "m.mlb"
    with pytest.raises(AccessError, match="cannot read"):
        Model(path)
    good = model("window_layers").read_bytes()
    for data, sentence in [
        (b"", "the file is empty"),
        (good[:255], "has 255 bytes, the header alone takes 256"),
        (b"MLB2" + good[4:], "magic is b'MLB2'"),
        (good[:257], "has 257 bytes, its header implies 258"),
        (good[: layout(Model(model("window_layers")).header, b"\1\0")["wcls"].end - 1], "its header implies"),
    ]:
        path.write_bytes(data)
        with pytest.raises(FormatError, match=sentence):
            Model(path)


def test_minus_128_is_found(tmp_path: Path) -> None:
    data = bytearray(model("llama").read_bytes())
    data[Model(model("llama")).tensors["layers.1.w3"].offset + 77] = 0x80
    (tmp_path / "m.mlb").write_bytes(data)
    with pytest.raises(FormatError, match=r"layers\.1\.w3 holds a quant of -128"):
        Model(tmp_path / "m.mlb").check_quants()


# --- Random models


@pytest.mark.parametrize("kind", [Q8_0, Q4_0])
def test_the_grid_is_its_own_quantization(kind: int) -> None:
    x = gen_random.random_grid(np.random.default_rng(6), 200, 96, 0.3, kind)
    for f16 in (True, False):
        values = dequantize(*(quantize_q8_0 if kind == Q8_0 else quantize_q4_0)(x, f16))
        if kind == Q4_0 and not f16:
            assert np.allclose(values, x, rtol=1e-6, atol=0)  # the fitted scale may be off by a bit
        else:
            assert np.array_equal(values, x)


def test_gen_random_command(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.mlb", "b.mlb", "c.mlb")]
    common = ["--n-layers", "3", "--qk-norm", "1", "--sliding-window", "8", "--layer-flags", "1,0,0x4"]
    for path, seed in zip(paths, "112", strict=True):
        result = CliRunner().invoke(gen_random.main, [str(path), "--seed", seed, *common])
        assert result.exit_code == 0, result.output
    m = Model(paths[0])
    assert m.layer_flags == b"\1\0\4" and m.header.sliding_window == 8 and "layers.2.q_norm" in m.tensors
    assert paths[0].read_bytes() == paths[1].read_bytes() != paths[2].read_bytes()
    result = CliRunner().invoke(gen_random.main, [str(paths[0]), "--hidden-dim", "100"])
    assert result.exit_code == 6 and "hidden_dim is 100, must be a multiple of 32" in result.output
    result = CliRunner().invoke(gen_random.main, [str(paths[0]), "--layer-flags", "x"])
    assert result.exit_code == 2
