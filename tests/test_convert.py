"""The converter: every source and type, options, and what it refuses."""

from __future__ import annotations

import json
import struct
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from click.testing import CliRunner
from gguf import GGMLQuantizationType as Type

from krafla.tools import convert as tool
from krafla.tools import orders
from krafla.tools.architectures import Settings
from krafla.tools.architectures_gguf import read_rope_freqs
from krafla.tools.convert import Options, convert
from krafla.tools.errors import AccessError, FormatError, KraflaError, ShapeError, UsageError
from krafla.tools.mlb import Q4_0, Header, Model
from krafla.tools.quantize import dequantize, quantize_q4_0, quantize_q8_0, unpack_q4
from krafla.tools.ref_forward import forward, frequencies
from tests.checkpoints import (
    Weights,
    gguf_weights,
    hf_config,
    hf_weights,
    random_weights,
    safetensors_bytes,
    write_gguf,
    write_hf,
    write_llama2c,
)
from tests.models import header

PLAIN = Options(tokenizer=False)


def converted(source: Path, options: Options = PLAIN) -> Model:
    target = source.parent / "out.mlb"
    convert(source, target, options)
    return Model(target)


def assert_holds(m: Model, weights: Weights) -> None:
    assert [name for name in m.tensors if name != "layer_flags"] == list(weights)
    for name, values in weights.items():
        assert np.array_equal(m.values(name), values), name


# --- Hugging Face


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("llama", {}),
        ("shared", {}),
        ("qwen2", {"model_type": "qwen2", "use_sliding_window": False, "sliding_window": 32}),
        ("qwen3", {"model_type": "qwen3", "head_dim": 32, "attention_bias": False, "max_window_layers": 2}),
        ("mistral", {"model_type": "mistral", "sliding_window": 20, "head_dim": None}),
        ("llama", {"head_dim": 16, "num_key_value_heads": 2, "rope_interleaved": False}),
    ],
)
def test_hugging_face_folder(name: str, config: dict[str, Any], shards: int, tmp_path: Path) -> None:
    h = header(name)
    weights = random_weights(h)
    folder = write_hf(
        tmp_path / "hf", hf_config(h, **config), hf_weights(weights, h.head_size), shards=shards
    )
    m = converted(folder)
    assert m.header == h.as_stored()
    assert_holds(m, weights)


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_half_precision(dtype: str, tmp_path: Path) -> None:
    h = header("llama")
    weights = random_weights(h)
    folder = write_hf(tmp_path / "hf", hf_config(h), hf_weights(weights, 16), dtype)
    m = converted(folder)
    for name, values in weights.items():
        if dtype == "BF16":
            stored = (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        else:
            stored = values.astype(np.float16).astype(np.float32)
        expected = stored if m.tensors[name].kind == 0 else dequantize(*quantize_q8_0(stored))
        assert np.array_equal(m.values(name), expected), name


def test_heads_are_interleaved() -> None:
    h = header("llama", head_dim=6)
    assert orders.pairs(h, 12).tolist() == [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]
    partial = header("llama", head_dim=8, rot_dim=4)
    assert orders.pairs(partial, 8).tolist() == [0, 2, 1, 3, 4, 5, 6, 7]


def test_ffn_widths_are_padded_with_zeros(tmp_path: Path) -> None:
    h = header("llama", hidden_dim=96)
    weights = random_weights(h)
    cut = dict(weights)
    for i in range(2):
        for name in ("w1", "w3"):
            cut[f"layers.{i}.{name}"] = weights[f"layers.{i}.{name}"][:75]
            weights[f"layers.{i}.{name}"] = np.pad(cut[f"layers.{i}.{name}"], ((0, 21), (0, 0)))
        w2 = weights[f"layers.{i}.w2"]
        cut[f"layers.{i}.w2"] = w2[:, :75]
        weights[f"layers.{i}.w2"] = dequantize(*quantize_q8_0(np.pad(w2[:, :75], ((0, 0), (0, 21)))))
    config = hf_config(h, intermediate_size=75)
    m = converted(write_hf(tmp_path / "hf", config, hf_weights(cut, 16)))
    assert m.header.hidden_dim == 96
    assert_holds(m, weights)
    assert np.isfinite(forward(m, [1, 2, 3])).all()


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, {"rope_type": 2, "rope_factor": 4.0}),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 7e4}}, {"rope_theta": 7e4}),
        (
            {
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 32.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 8192,
                }
            },
            {
                "rope_type": 1,
                "rope_factor": 32.0,
                "rope_low_freq_factor": 1.0,
                "rope_high_freq_factor": 4.0,
                "rope_orig_max_seq": 8192,
            },
        ),
        (
            {
                "rope_scaling": {
                    "rope_type": "yarn",
                    "type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 80,
                }
            },
            {
                "rope_type": 3,
                "rope_factor": 4.0,
                "rope_low_freq_factor": 32.0,
                "rope_high_freq_factor": 1.0,
                "rope_orig_max_seq": 80,
                "rope_attn_factor": float(np.float32(0.1 * np.log(4) + 1)),
            },
        ),
        ({"model_type": "mistral", "sliding_window": None}, {}),
        (
            {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 2},
            {},
        ),
        (
            {
                "model_type": "mistral",
                "sliding_window": 9,
                "layer_types": ["full_attention", "sliding_attention"],
            },
            {"sliding_window": 9, "layer_flags": 1},
        ),
        ({"rms_norm_eps": 1e-5, "vocab_size": ...}, {}),
        ({"rms_norm_eps": ...}, {"norm_eps": float(np.float32(1e-6))}),
        ({"num_key_value_heads": None}, {"n_kv_heads": 4}),
        ({"rope_theta": ...}, {"rope_theta": 10000.0}),
    ],
)
def test_configurations(changes: dict[str, Any], fields: dict[str, Any], tmp_path: Path) -> None:
    kind = changes.get("model_type", "llama")
    source_header = header(
        "qwen2" if kind == "qwen2" else "llama",
        **{key: value for key, value in fields.items() if key == "n_kv_heads"},
    )
    weights = hf_weights(random_weights(replace(source_header, shared_classifier=0)), 16)
    config = hf_config(replace(source_header, shared_classifier=0), **changes)
    m = converted(write_hf(tmp_path / "hf", config, weights))
    expected = {**vars(replace(source_header, shared_classifier=0).as_stored()), **fields}
    assert vars(m.header) == expected
    assert m.layer_flags == (b"\0\1" if fields.get("layer_flags") else b"")


# --- GGUF


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3"])
def test_gguf_architectures(arch: str, tmp_path: Path) -> None:
    h = header(arch)
    weights = random_weights(h)
    tensors = gguf_weights(weights, 0 if arch == "llama" else h.head_size)
    m = converted(write_gguf(tmp_path / "m.gguf", h, tensors, arch))
    assert m.header == h.as_stored()
    assert_holds(m, weights)


@pytest.mark.parametrize(
    "kind", [Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0], ids=lambda k: k.name
)
def test_gguf_types(kind: Type, tmp_path: Path) -> None:
    h = header("llama")
    weights = random_weights(h)
    m = converted(write_gguf(tmp_path / "m.gguf", h, gguf_weights(weights), kind=kind))
    for name, values in weights.items():
        if values.ndim == 2:
            stored = gguf.dequantize(gguf.quantize(values, kind), kind)
            # Q8_0 blocks are copied; quantizing them again could move a scale by a bit.
            expected = stored if kind == Type.Q8_0 else dequantize(*quantize_q8_0(stored))
            assert np.array_equal(m.values(name), expected), name


K_TYPES = {Type.Q2_K: 84, Type.Q3_K: 110, Type.Q4_K: 144, Type.Q5_K: 176, Type.Q6_K: 210, Type.IQ4_XS: 136}


@pytest.mark.parametrize("kind", K_TYPES, ids=lambda k: k.name)
def test_gguf_types_that_only_llama_cpp_writes(kind: Type, tmp_path: Path) -> None:
    h = header("llama", dim=256, n_heads=8, hidden_dim=256)
    weights = random_weights(h)
    tensors = gguf_weights(weights)
    name = "blk.1.ffn_down.weight"
    rng = np.random.default_rng(9)
    blocks = rng.integers(0, 256, (256, K_TYPES[kind]), np.uint8)
    # The scales of a block are f16 numbers somewhere in it: no byte of theirs may make an infinity.
    blocks &= np.uint8(0x3B)
    m = converted(write_gguf(tmp_path / "m.gguf", h, tensors, raw={name: (blocks.tobytes(), kind)}))
    stored = gguf.dequantize(blocks, kind)
    assert stored.std() > 0
    assert np.array_equal(m.values("layers.1.w2"), dequantize(*quantize_q8_0(stored)))


@pytest.mark.parametrize("arch", ["llama", "qwen3"])
@pytest.mark.parametrize("f16", [True, False])
def test_q8_0_blocks_are_copied(arch: str, f16: bool, tmp_path: Path) -> None:
    h = replace(header("qwen3" if arch == "qwen3" else "llama"), scale_f16=int(f16))
    rng = np.random.default_rng(10)
    weights = {name: rng.standard_normal(v.shape).astype(np.float32) for name, v in random_weights(h).items()}
    head = h.head_size if arch == "qwen3" else 0
    path = write_gguf(tmp_path / "m.gguf", h, gguf_weights(weights, head), arch, Type.Q8_0)
    m = converted(path, replace(PLAIN, f16_scales=f16))
    for name, values in weights.items():
        if values.ndim == 2:
            blocks = gguf.quantize(values, Type.Q8_0).reshape(len(values), -1, 34)
            assert np.array_equal(m.quants(name), blocks[:, :, 2:].view(np.int8).reshape(values.shape)), name
            scales = np.ascontiguousarray(blocks[:, :, :2]).view(np.float16)[..., 0]
            assert np.array_equal(m.scales(name), scales.astype(np.float32)), name


def test_q4_0_blocks_are_copied(tmp_path: Path) -> None:
    h = replace(header("q4"), scale_f16=1)
    rng = np.random.default_rng(11)
    weights = {name: rng.standard_normal(v.shape).astype(np.float32) for name, v in random_weights(h).items()}
    path = write_gguf(tmp_path / "m.gguf", h, gguf_weights(weights), kind=Type.Q4_0)
    m = converted(path, replace(PLAIN, type="q4_0", f16_scales=True))
    blocks = gguf.quantize(weights["layers.0.w3"], Type.Q4_0).reshape(96, -1, 18)
    assert np.array_equal(m.quants("layers.0.w3"), unpack_q4(blocks[:, :, 2:].reshape(96, -1)))


def test_a_quant_of_minus_128_is_quantized_anew(tmp_path: Path) -> None:
    h = header("llama")
    weights = random_weights(h)
    name = "blk.0.ffn_up.weight"
    tensors = gguf_weights(weights)
    blocks = gguf.quantize(tensors[name], Type.Q8_0).reshape(96, -1, 34)
    blocks[5, 1, 9] = 0x80
    path = write_gguf(
        tmp_path / "m.gguf", h, tensors, kind=Type.Q8_0, raw={name: (blocks.tobytes(), Type.Q8_0)}
    )
    m = converted(path)
    m.check_quants()
    stored = gguf.dequantize(blocks.reshape(96, -1), Type.Q8_0)
    assert np.array_equal(m.values("layers.0.w3"), dequantize(*quantize_q8_0(stored)))


@pytest.mark.parametrize(
    ("extra", "fields"),
    [
        ([("{arch}.rope.scaling.type", "none")], {}),
        ([("{arch}.rope.scale_linear", 2.0)], {"rope_type": 2, "rope_factor": 2.0}),
        (
            [("{arch}.rope.scaling.type", "linear"), ("{arch}.rope.scaling.factor", 3.0)],
            {"rope_type": 2, "rope_factor": 3.0},
        ),
        (
            [
                ("{arch}.rope.scaling.type", "yarn"),
                ("{arch}.rope.scaling.factor", 4.0),
                ("{arch}.rope.scaling.original_context_length", 80),
            ],
            {
                "rope_type": 3,
                "rope_factor": 4.0,
                "rope_low_freq_factor": 32.0,
                "rope_high_freq_factor": 1.0,
                "rope_orig_max_seq": 80,
                "rope_attn_factor": float(np.float32(0.1 * np.log(4) + 1)),
            },
        ),
        ([("{arch}.attention.sliding_window", 9)], {"sliding_window": 9}),
        ([("{arch}.vocab_size", 263), ("quantize.imatrix.file", "x")], {}),
    ],
)
def test_gguf_configurations(extra: list[tuple[str, Any]], fields: dict[str, Any], tmp_path: Path) -> None:
    h = header("llama")
    m = converted(write_gguf(tmp_path / "m.gguf", h, gguf_weights(random_weights(h)), extra=extra))
    assert vars(m.header) == {**vars(h.as_stored()), **fields}


@pytest.mark.parametrize(
    ("theta", "head", "factor", "high", "original"),
    [(500000.0, 64, 32.0, 4.0, 8192), (500000.0, 128, 8.0, 4.0, 8192), (1e4, 64, 4.0, 8.0, 1024)],
)
def test_llama3_scaling_is_recovered(
    theta: float, head: int, factor: float, high: float, original: int, tmp_path: Path
) -> None:
    h = header(
        "llama3",
        rope_theta=theta,
        dim=2 * head,
        n_heads=2,
        n_kv_heads=1,
        rope_factor=factor,
        rope_high_freq_factor=high,
        rope_orig_max_seq=original,
    )
    divisors = (frequencies(replace(h, rope_type=0)) / frequencies(h)).astype(np.float32)
    tensors = gguf_weights(random_weights(h)) | {"rope_freqs.weight": divisors}
    assert converted(write_gguf(tmp_path / "m.gguf", h, tensors)).header == h.as_stored()


def test_other_frequencies_are_refused() -> None:
    divisors = np.linspace(1, 8, 32, dtype=np.float32)
    with pytest.raises(FormatError, match="does not hold llama3 scaling"):
        read_rope_freqs(divisors, "m.gguf", Settings({"rope_theta": 500000.0}))
    settings = Settings({"rope_theta": 500000.0})
    read_rope_freqs(np.ones(32, np.float32), "m.gguf", settings)
    assert settings.fields == {"rope_theta": 500000.0}


def test_split_gguf(tmp_path: Path) -> None:
    h = header("llama")
    weights = random_weights(h)
    tensors = list(gguf_weights(weights).items())
    for k, part in enumerate((tensors[:9], tensors[9:])):
        path = tmp_path / f"m-{k + 1:05d}-of-00002.gguf"
        write_gguf(path, h, dict(part), extra=[("split.count", 2), ("split.no", k)])
    assert_holds(converted(tmp_path / "m-00001-of-00002.gguf"), weights)
    with pytest.raises(FormatError, match=r"one of 2 parts; give the one that ends in -00001-of-00002\.gguf"):
        converted(tmp_path / "m-00002-of-00002.gguf")


# --- llama2.c


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("shared", [0, 1])
def test_llama2c(version: int, shared: int, tmp_path: Path) -> None:
    h = header("llama", shared_classifier=shared)
    weights = random_weights(h)
    m = converted(write_llama2c(tmp_path / "m.bin", h, weights, version))
    assert m.header == h.as_stored()
    assert_holds(m, weights)


def test_llama2c_needs_no_tokenizer_and_pads(tmp_path: Path) -> None:
    h = header("llama", hidden_dim=32)
    weights = random_weights(h)
    for i in range(2):
        weights[f"layers.{i}.w2"] = np.ascontiguousarray(weights[f"layers.{i}.w2"][:, :20])
        for name in ("w1", "w3"):
            weights[f"layers.{i}.{name}"] = weights[f"layers.{i}.{name}"][:20]
    path = write_llama2c(tmp_path / "m.bin", replace(h, hidden_dim=20), weights)
    m = converted(path, Options())
    assert m.header.hidden_dim == 32
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.bin", "out.mlb"]


# --- Options


def test_q4_0_with_classes(tmp_path: Path) -> None:
    h = header("llama")
    rng = np.random.default_rng(12)
    weights = {name: rng.standard_normal(v.shape).astype(np.float32) for name, v in random_weights(h).items()}
    folder = write_hf(tmp_path / "hf", hf_config(h), hf_weights(weights, 16))
    for rule in ("search", "round"):
        options = Options("q4_0", True, ("w2", "wcls"), rule, 100, tokenizer=False)
        m = converted(folder, options)
        assert (m.header.wtype, m.header.q8_mask, m.header.scale_f16, m.header.max_seq) == (Q4_0, 66, 1, 100)
        w1, w2 = weights["layers.1.w1"], weights["layers.1.w2"]
        assert np.array_equal(m.values("layers.1.w1"), dequantize(*quantize_q4_0(w1, True, rule)))
        assert np.array_equal(m.values("layers.1.w2"), dequantize(*quantize_q8_0(w2, True)))


def test_options_out_of_range(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown matrix class w9, must be one of tok_emb"):
        Options("q4_0", q8=("w9", "w2"))
    with pytest.raises(UsageError, match="only be kept as Q8_0 in a Q4_0 model"):
        Options(q8=("w2",))
    h = header("llama")
    folder = write_hf(tmp_path / "hf", hf_config(h), hf_weights(random_weights(h), 16))
    for length in (0, 321):
        with pytest.raises(UsageError, match=f"max-seq is {length}, the model allows 1 to 320"):
            convert(folder, tmp_path / "out.mlb", Options(max_seq=length, tokenizer=False))


def test_progress_goes_to_the_end(tmp_path: Path) -> None:
    h = header("llama", hidden_dim=96)
    weights = random_weights(h)
    seen: list[tuple[str, int, int]] = []
    folder = write_hf(tmp_path / "hf", hf_config(h), hf_weights(weights, 16))
    convert(folder, tmp_path / "out.mlb", PLAIN, lambda *state: seen.append(state))
    total = sum(values.size for values in weights.values())
    assert seen[-1] == ("wcls", total, total) and [s[1] for s in seen] == sorted({s[1] for s in seen})


def test_memory_stays_small(tmp_path: Path) -> None:
    h = header("shared", vocab=400_000)
    weights = random_weights(h)
    folder = write_hf(tmp_path / "hf", hf_config(h), hf_weights(weights, 16))
    size = weights["tok_emb"].nbytes
    del weights
    tracemalloc.start()
    try:
        convert(folder, tmp_path / "out.mlb", PLAIN)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 100e6 and peak < 60e6


# --- The tokenizer beside the model


def tokenizer_json() -> str:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: i for i, letter in enumerate(letters)} | {"he": 256}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[("h", "e")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>"])
    return str(tokenizer.to_str())


def folder_with_tokenizer(tmp_path: Path, **changes: Any) -> Path:
    h = header("llama")
    folder = write_hf(tmp_path / "hf", hf_config(h, **changes), hf_weights(random_weights(h), 16))
    (folder / "tokenizer.json").write_text(tokenizer_json())
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": "<end>", "chat_template": "{{ messages[0].content }}"})
    )
    return folder


def test_tokenizer_and_template(tmp_path: Path) -> None:
    folder = folder_with_tokenizer(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    convert(folder, out / "m.mlb")
    assert sorted(p.name for p in out.iterdir()) == ["m.jinja", "m.mlb", "m.mlt"]
    assert (out / "m.jinja").read_text() == "{{ messages[0].content }}"
    assert (out / "m.mlt").read_bytes()[:4] == b"MLT1"
    (folder / "tokenizer_config.json").unlink()
    convert(folder, out / "m.mlb")
    assert sorted(p.name for p in out.iterdir()) == ["m.mlb", "m.mlt"], "no template of an earlier model"


def test_without_a_tokenizer(tmp_path: Path) -> None:
    folder = folder_with_tokenizer(tmp_path)
    (folder / "tokenizer.json").unlink()
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(FormatError, match=r"there is no tokenizer\.json"):
        convert(folder, out / "m.mlb")
    assert not list(out.iterdir())


def test_a_fault_in_the_model_leaves_no_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_with_tokenizer(tmp_path)
    out = tmp_path / "out"
    out.mkdir()

    def interrupt(name: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(folder, out / "m.mlb", progress=interrupt)
    assert not list(out.iterdir())


# --- Refusals: one sentence, nothing left


def refused(source: Path, error: type[KraflaError], sentence: str, options: Options = PLAIN) -> None:
    out = source.parent / "refused"
    out.mkdir(exist_ok=True)
    with pytest.raises(error, match=sentence) as caught:
        convert(source, out / "m.mlb", options)
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == {AccessError: 4, FormatError: 5, ShapeError: 6}[error]
    assert not list(out.iterdir())


CONFIGS: list[tuple[dict[str, Any], type[KraflaError], str]] = [
    ({"frobnicate": 1}, FormatError, r"config\.json: unknown configuration key frobnicate$"),
    ({"a_new": 1, "b_new": 2}, FormatError, "unknown configuration keys a_new, b_new$"),
    (
        {"model_type": "mamba"},
        FormatError,
        "architecture mamba is unknown, known: llama, mistral, qwen2, qwen3",
    ),
    ({"model_type": ...}, FormatError, r"architecture \(none\) is unknown"),
    ({"hidden_act": "gelu"}, FormatError, "hidden_act is 'gelu', only 'silu' is supported"),
    ({"attention_bias": True}, FormatError, "attention_bias is True, only False is supported"),
    ({"hidden_size": ...}, FormatError, "hidden_size is missing"),
    ({"hidden_size": "64"}, FormatError, "hidden_size is '64', must be a number"),
    ({"num_attention_heads": 0}, FormatError, "n_heads is 0, must be positive"),
    ({"num_attention_heads": 3}, ShapeError, "n_heads is 3, must divide the width"),
    (
        {"num_attention_heads": 8},
        ShapeError,
        r"k_proj\.weight has the shape \[32, 64\], must have \[16, 64\]",
    ),
    (
        {"vocab_size": 264},
        ShapeError,
        r"embed_tokens\.weight has the shape \[263, 64\], must have \[264, 64\]",
    ),
    (
        {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
        FormatError,
        "RoPE scaling 'dynamic' is not supported",
    ),
    (
        {"rope_scaling": {"type": "linear", "new": 2.0}},
        FormatError,
        "unknown keys of RoPE scaling 'linear': new",
    ),
    (
        {"rope_scaling": {"type": "llama3", "factor": 2.0}},
        FormatError,
        "lacks high_freq_factor, low_freq_factor",
    ),
    (
        {"rope_scaling": {"type": "linear", "factor": "x"}},
        FormatError,
        "RoPE, window or layer settings cannot be read",
    ),
    ({"rope_parameters": [1]}, FormatError, "RoPE, window or layer settings cannot be read"),
    ({"rope_scaling": {"type": "linear", "factor": -1}}, FormatError, "rope_factor is -1"),
    (
        {"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "truncate": False}},
        FormatError,
        "truncate false is not supported",
    ),
    ({"model_type": "mistral", "layer_types": ["x", "y"]}, FormatError, "layer_types holds x, y"),
    ({"model_type": "mistral", "layer_types": ["full_attention"]}, FormatError, "layer_types has 1 entries"),
    ({"rope_parameters": {"partial_rotary_factor": 0.5}}, FormatError, "partial_rotary_factor is 0.5"),
]


@pytest.mark.parametrize(("changes", "error", "sentence"), CONFIGS, ids=[c[2][:30] for c in CONFIGS])
def test_refuses_a_configuration(
    changes: dict[str, Any], error: type[KraflaError], sentence: str, tmp_path: Path
) -> None:
    h = header("llama")
    folder = write_hf(tmp_path / "hf", hf_config(h, **changes), hf_weights(random_weights(h), 16))
    refused(folder, error, sentence)


def test_refuses_wrong_tensors(tmp_path: Path) -> None:
    h = header("llama")
    tensors = hf_weights(random_weights(h), 16)
    w2 = "model.layers.1.mlp.down_proj.weight"

    def folder(**changes: Any) -> Path:
        changed = {**tensors, **{name: value for name, value in changes.items() if value is not None}}
        for name, value in changes.items():
            if value is None:
                del changed[name]
        return write_hf(tmp_path / "hf", hf_config(h), changed)

    def with_value(value: float) -> Any:
        changed = tensors[w2].copy()
        changed[7, 7] = value
        return changed

    refused(folder(**{w2: None}), FormatError, "hf: model.layers.1.mlp.down_proj.weight is missing$")
    refused(folder(**{w2: tensors[w2].T}), ShapeError, r"has the shape \[96, 64\], must have \[64, 96\]")
    extra = {"model.layers.1.mlp.new.weight": np.ones(3, np.float32)}
    refused(folder(**extra), FormatError, "mlp.new.weight is a tensor that this architecture does not have")
    refused(folder(**{w2: with_value(np.nan)}), FormatError, r"down_proj\.weight has a weight that is NaN")
    refused(folder(**{w2: with_value(np.inf)}), FormatError, r"down_proj\.weight has a weight that is NaN")
    f16 = replace(PLAIN, f16_scales=True)
    refused(folder(**{w2: with_value(1e9)}), FormatError, r"layers\.1\.w2: a scale of .* beyond f16", f16)
    converted(folder(**{w2: with_value(1e9)}))
    inv_freq = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(8, np.float32)}
    converted(folder(**inv_freq))


def test_refuses_broken_folders(tmp_path: Path) -> None:
    h = header("llama")
    tensors = hf_weights(random_weights(h), 16)
    folder = write_hf(tmp_path / "hf", hf_config(h), tensors, shards=2)
    index, first = folder / "model.safetensors.index.json", folder / "model-00001-of-00002.safetensors"
    whole, shard = index.read_text(), first.read_bytes()
    first.write_bytes(shard[:-100])
    refused(folder, FormatError, "00001-of-00002.safetensors: the file is truncated: .* ends .* bytes after")
    first.write_bytes(shard[:50])
    refused(folder, FormatError, "not a safetensors file: its header takes")
    first.write_bytes(b"")
    refused(folder, FormatError, "not a safetensors file: its header takes 0 of 0 bytes")
    first.write_bytes(shard[:8] + b"x" + shard[9:])
    refused(folder, FormatError, "its header cannot be read")
    first.unlink()
    refused(folder, AccessError, "00001-of-00002.safetensors: cannot read: No such file")
    first.write_bytes(safetensors_bytes({}))
    refused(folder, FormatError, "is missing, although model.safetensors.index.json lists it")
    first.write_bytes(shard)
    index.write_text("[1]")
    refused(folder, FormatError, "must hold a JSON object")
    index.write_text(whole[:-3])
    refused(folder, FormatError, "not valid JSON")
    index.write_text("{}")
    refused(folder, FormatError, "weight_map is missing")
    index.unlink()
    refused(
        folder, AccessError, "model-00001-of-00002.safetensors is there, but no model.safetensors.index.json"
    )
    for path in folder.glob("*.safetensors"):
        path.unlink()
    refused(folder, AccessError, "there is neither model.safetensors nor model.safetensors.index.json")
    (folder / "config.json").unlink()
    refused(folder, AccessError, r"config\.json: cannot read: No such file")


def test_refuses_safetensors_of_other_types(tmp_path: Path) -> None:
    h = header("llama")
    folder = write_hf(tmp_path / "hf", hf_config(h), hf_weights(random_weights(h), 16), "F64")
    refused(folder, FormatError, "has the type F64, must be one of F32, F16, BF16")
    data = bytearray(safetensors_bytes({"x": np.ones(4, np.float32)}))
    (folder / "model.safetensors").write_bytes(data.replace(b"[4]", b"[5]"))
    refused(folder, FormatError, r"x takes 16 bytes, which does not fit its shape \[5\]")
    refused(folder / "model.safetensors", FormatError, "give the folder that holds it")


@pytest.mark.parametrize(
    ("arch", "extra", "error", "sentence"),
    [
        ("falcon", [], FormatError, "architecture falcon is unknown, known: llama, qwen2, qwen3"),
        ("llama", [("{arch}.new_key", 1)], FormatError, "unknown configuration key new_key"),
        ("llama", [("{arch}.expert_count", 8)], FormatError, "expert_count is 8, only 0 is supported"),
        ("llama", [("{arch}.rope.scaling.type", "longrope")], FormatError, "RoPE scaling 'longrope'"),
        ("llama", [("{arch}.attention.value_length", 8)], FormatError, "attention.value_length is 8"),
        ("qwen2", [], FormatError, r"blk\.0\.attn_q\.bias is missing"),
        ("llama", [("split.count", 2)], FormatError, "one of 2 parts"),
        ("llama", [("split.count", "2")], FormatError, "split.count is '2', must be a positive number"),
        ("llama", [("general.alignment", 0)], FormatError, "general.alignment is 0"),
    ],
)
def test_refuses_a_gguf(
    arch: str, extra: list[tuple[str, Any]], error: type[KraflaError], sentence: str, tmp_path: Path
) -> None:
    h = header("llama")
    refused(
        write_gguf(tmp_path / "m.gguf", h, gguf_weights(random_weights(h)), arch, extra=extra),
        error,
        sentence,
    )


def test_refuses_broken_ggufs(tmp_path: Path) -> None:
    h = header("llama")
    path = write_gguf(tmp_path / "m.gguf", h, gguf_weights(random_weights(h)))
    data = path.read_bytes()
    steps = [*range(4, 3000, 97), len(data) - 1, len(data) - 50000]
    for size in steps:
        path.write_bytes(data[:size])
        refused(path, FormatError, r"m\.gguf: not a GGUF file that can be read: truncated within ")
    at = data.index(b"blk.1.ffn_down.weight") + 21 + 4 + 16
    assert struct.unpack("<I", data[at : at + 4])[0] == Type.F32
    path.write_bytes(data[:at] + struct.pack("<I", 99) + data[at + 4 :])
    refused(path, FormatError, r"blk\.1\.ffn_down\.weight has the type 99, which gguf does not know")
    for old, new, sentence in [
        (b"GGUF\3\0\0\0", b"GGUF\1\0\0\0", "GGUF version 1 is not supported$"),
        (b"GGUF\3\0\0\0", b"GGUF\0\0\0\3", r"GGUF version 50331648 .* \(a file for big-endian machines\?\)"),
        (b"llama.block_count\4", b"llama.block_count\x17", "llama.block_count has the value type 23"),
        (b"general.name", b"\xff" * 12, "a key is not valid UTF-8"),
        (b"blk.0.ffn_down", b"blk.1.ffn_down", r"blk\.1\.ffn_down\.weight is there twice"),
        (b"\0output.weight\2", b"\0output.weight\x07", r"output\.weight has 7 dimensions"),
        (
            b"\0output.weight\2\0\0\0\x40",
            b"\0output.weight\2\0\0\0\0",
            r"output\.weight has the shape \[263, 0\]",
        ),
    ]:
        assert data.count(old) == 1, old
        path.write_bytes(data.replace(old, new))
        refused(path, FormatError, sentence)
    path.write_bytes(b"GGUX" + data[4:])
    refused(path, FormatError, "not a GGUF file: it starts with b'GGUX'")
    path.write_bytes(b"")
    refused(path, FormatError, "not a GGUF file: it starts with b''")
    path.unlink()
    refused(path, AccessError, "cannot read: No such file")


def test_refuses_a_gguf_type_without_numbers(tmp_path: Path) -> None:
    h = header("llama")
    rows = np.zeros((64, 96), np.int8)
    raw = {"blk.1.ffn_down.weight": (rows.tobytes(), Type.I8)}
    path = write_gguf(tmp_path / "m.gguf", h, gguf_weights(random_weights(h)), raw=raw)
    refused(path, FormatError, r"blk\.1\.ffn_down\.weight has the type I8, which gguf cannot read")


def test_refuses_broken_llama2c(tmp_path: Path) -> None:
    h = header("llama")
    path = write_llama2c(tmp_path / "m.bin", h, random_weights(h))
    data = path.read_bytes()
    for content, error, sentence in [
        (data[:-1], FormatError, f"the file has {len(data) - 1} bytes, its header implies {len(data)}"),
        (data[:20], FormatError, "the file has 20 bytes, its header takes 28"),
        (b"", FormatError, "the file has 0 bytes"),
        (struct.pack("<i", 0) + data[4:], ShapeError, "dim is 0, must be from 1"),
        (struct.pack("<i", 66) + data[4:], ShapeError, r"n_heads is 4, must divide dim \(66\)"),
        (struct.pack("<Ii", 0x616B3432, 2) + data[8:], FormatError, "of version 2, must be 0 or 1"),
    ]:
        path.write_bytes(content)
        refused(path, error, sentence)
    (tmp_path / "m.xyz").write_text("hello")
    refused(tmp_path / "m.xyz", FormatError, "not a model this converter reads")


def test_a_width_that_cannot_be_padded(tmp_path: Path) -> None:
    h: Header = replace(header("llama"), dim=48, n_heads=4, n_kv_heads=4)
    rng = np.random.default_rng(13)
    shapes = {"wq": (48, 48), "wk": (48, 48), "wv": (48, 48), "wo": (48, 48), "attn_norm": (48,)}
    shapes |= {"w1": (96, 48), "w2": (48, 96), "w3": (96, 48), "ffn_norm": (48,)}
    tops = {"tok_emb": (263, 48), "final_norm": (48,), "wcls": (263, 48)}
    every = tops | {f"layers.{i}.{name}": shape for i in range(2) for name, shape in shapes.items()}
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in every.items()}
    refused(
        write_hf(tmp_path / "hf", hf_config(h), hf_weights(weights, 12)),
        ShapeError,
        r"config\.json: dim is 48, must be a multiple of 32",
    )


def test_no_place_to_write(tmp_path: Path) -> None:
    h = header("llama")
    folder = write_hf(tmp_path / "hf", hf_config(h), hf_weights(random_weights(h), 16))
    with pytest.raises(AccessError, match=r"nowhere/m\.mlb: cannot write: No such file"):
        convert(folder, tmp_path / "nowhere" / "m.mlb", PLAIN)


# --- The command


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_with_tokenizer(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(tool.main, [str(folder), "--type", "q4_0", "--q8", "w2,wcls", "--f16-scales"])
    assert result.exit_code == 0, result.output
    assert result.stdout == "hf.mlb\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["hf", "hf.jinja", "hf.mlb", "hf.mlt"]
    assert Model(tmp_path / "hf.mlb").header.q8_mask == 66
    result = CliRunner().invoke(tool.main, [str(tmp_path / "none.gguf"), "x.mlb"])
    assert result.exit_code == 4 and result.stdout == ""
    assert result.stderr == f"convert: {tmp_path}/none.gguf: cannot read: No such file or directory\n"
    assert CliRunner().invoke(tool.main, [str(folder), "--q8", "w2"]).exit_code == 2
