"""Conversion of SmolLM3, Gemma 2 and 3, and Qwen3.5 from GGUF files, and what their descriptions refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from krafla.tools.architectures_hf import HF
from krafla.tools.convert import Options, convert
from krafla.tools.errors import FormatError, ShapeError
from krafla.tools.gen_random import random_rows
from krafla.tools.mlb import (
    LAYER_LINEAR,
    LAYER_LOCAL_ROPE,
    LAYER_NO_ROPE,
    LAYER_WINDOW,
    Header,
    Model,
    layout,
)
from krafla.tools.orders import gather, whole_blocks
from krafla.tools.quantize import dequantize, quantize_q4_0
from tests.checkpoints import GGUF_NAMES, Weights, safetensors_bytes, to_halves
from tests.models import header

PLAIN = Options(tokenizer=False)
NAMES = {
    "tok_emb": "token_embd.weight",
    "final_norm": "output_norm.weight",
    "wcls": "output.weight",
    **{name: f"blk.{{i}}.{theirs}" for name, theirs in GGUF_NAMES.items()},
}
GEMMA_NAMES = {
    **NAMES,
    "post_attn_norm": "blk.{i}.post_attention_norm.weight",
    "post_ffn_norm": "blk.{i}.post_ffw_norm.weight",
}
QWEN35_NAMES = {
    **NAMES,
    "ffn_norm": "blk.{i}.post_attention_norm.weight",
    "lqkv": "blk.{i}.attn_qkv.weight",
    "lz": "blk.{i}.attn_gate.weight",
    "lb": "blk.{i}.ssm_beta.weight",
    "la": "blk.{i}.ssm_alpha.weight",
    "lconv": "blk.{i}.ssm_conv1d.weight",
    "dt_bias": "blk.{i}.ssm_dt.bias",
    "a_log": "blk.{i}.ssm_a",
    "lnorm": "blk.{i}.ssm_norm.weight",
    "lout": "blk.{i}.ssm_out.weight",
}
HALVES = ("wq", "wk", "q_norm", "k_norm")


def random_weights(h: Header, flags: bytes) -> Weights:
    rng = np.random.default_rng(3)
    weights = {}
    for t in layout(h, flags).values():
        if t.name != "layer_flags":
            rows = random_rows(rng, t, t.rows, grid=True)
            weights[t.name] = rows if t.rows > 1 else rows[0]
    return weights


def halves(values: Any, h: Header) -> Any:
    """The rotated part of each head in halves."""
    heads = values.reshape(-1, h.head_size, *values.shape[1:]).copy()
    for head in heads:
        head[: h.rot_size] = to_halves(head[: h.rot_size], h.rot_size)
    return heads.reshape(values.shape)


def renamed(weights: Weights, names: dict[str, str], h: Header, in_halves: bool) -> Weights:
    out = {}
    for name, values in weights.items():
        short = name.rpartition(".")[2]
        layer = name.split(".")[1] if name.startswith("layers.") else ""
        if short in names:
            out[names[short].format(i=layer)] = halves(values, h) if in_halves and short in HALVES else values
    return out


def write(
    path: Path, arch: str, h: Header, tensors: Weights, extra: dict[str, Any], kind: Any = None
) -> Path:
    writer = gguf.GGUFWriter(path, arch)
    values: dict[str, Any] = {
        "block_count": h.n_layers,
        "context_length": h.max_seq,
        "embedding_length": h.dim,
        "feed_forward_length": h.hidden_dim,
        "attention.head_count": h.n_heads,
        "attention.head_count_kv": h.n_kv_heads,
        "attention.layer_norm_rms_epsilon": float(h.norm_eps),
        "attention.key_length": h.head_size,
        "attention.value_length": h.head_size,
        "rope.freq_base": float(h.rope_theta),
        **extra,
    }
    for key, value in values.items():
        if isinstance(value, list):
            writer.add_array(f"{arch}.{key}", value)
        else:
            adders: dict[type, Any] = {
                int: writer.add_uint32,
                float: writer.add_float32,
                str: writer.add_string,
            }
            adders[type(value)](f"{arch}.{key}", value)
    for name, array in tensors.items():
        if array.ndim == 1 or kind is None or "conv1d" in name:
            writer.add_tensor(name, np.ascontiguousarray(array))
        else:
            writer.add_tensor(name, gguf.quantize(np.ascontiguousarray(array), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def assert_holds(path: Path, h: Header, flags: bytes, weights: Weights, options: Options = PLAIN) -> Model:
    convert(path, path.with_suffix(".mlb"), options)
    m = Model(path.with_suffix(".mlb"))
    assert m.header == h.as_stored()
    assert m.layer_flags == flags
    for name, values in weights.items():
        if name.endswith("a_log"):  # through an exponential and a logarithm
            assert np.allclose(m.values(name), values, rtol=0, atol=1e-6)
        else:
            assert np.array_equal(m.values(name), values), name
    return m


def gemma(**changes: Any) -> Header:
    fields: dict[str, Any] = {
        "layer_flags": 1,
        "head_dim": 32,
        "act": 1,
        "post_norms": 1,
        "embed_scale": 8.0,
        "attn_scale": 32**-0.5,
        "sliding_window": 100,
        "shared_classifier": 1,
        "norm_eps": 1e-6,
        **changes,
    }
    return header("llama", **fields)


def test_smollm3(tmp_path: Path) -> None:
    h = header("llama", n_layers=5, layer_flags=1)
    flags = bytes([0, 0, 0, LAYER_NO_ROPE, 0])
    weights = random_weights(h, flags)
    path = write(tmp_path / "m.gguf", "smollm3", h, renamed(weights, NAMES, h, False), {})
    assert_holds(path, h, flags, weights)


def test_gemma2(tmp_path: Path) -> None:
    h = gemma(n_layers=3, attn_softcap=50.0, final_softcap=30.0)
    flags = bytes([LAYER_WINDOW, 0, LAYER_WINDOW])
    weights = random_weights(h, flags)
    extra = {
        "attention.sliding_window": 100,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
    }
    path = write(tmp_path / "m.gguf", "gemma2", h, renamed(weights, GEMMA_NAMES, h, True), extra)
    assert_holds(path, h, flags, weights)


@pytest.mark.parametrize("named", [False, True])
def test_gemma3(named: bool, tmp_path: Path) -> None:
    """The pattern and the local base are the family's, unless the file names them."""
    h = gemma(
        n_layers=7,
        qk_norm=1,
        rope_theta=1e6,
        rope_local_theta=5e3 if named else 1e4,
        rope_type=2,
        rope_factor=8.0,
    )
    windows = [True, False, True, True, False, True, True] if named else [True] * 5 + [False, True]
    flags = bytes(LAYER_WINDOW | LAYER_LOCAL_ROPE if window else 0 for window in windows)
    weights = random_weights(h, flags)
    extra: dict[str, Any] = {
        "attention.sliding_window": 100,
        "rope.scaling.type": "linear",
        "rope.scaling.factor": 8.0,
    }
    if named:
        extra |= {"attention.sliding_window_pattern": windows, "rope.freq_base_swa": 5e3}
    path = write(tmp_path / "m.gguf", "gemma3", h, renamed(weights, GEMMA_NAMES, h, True), extra)
    assert_holds(path, h, flags, weights)


@pytest.mark.parametrize(("asked", "rule"), [(None, "round"), ("round", "round"), ("search", "search")])
def test_gemma3_is_rounded_unless_asked_otherwise(asked: Any, rule: Any, tmp_path: Path) -> None:
    h = gemma(n_layers=1, qk_norm=1, rope_theta=1e6, rope_local_theta=1e4)
    weights = random_weights(h, bytes([LAYER_WINDOW | LAYER_LOCAL_ROPE]))
    theirs = renamed(weights, GEMMA_NAMES, h, True)
    theirs["blk.0.ffn_up.weight"] = theirs["blk.0.ffn_up.weight"] * np.linspace(0.3, 1, 64, dtype=np.float32)
    path = write(tmp_path / "m.gguf", "gemma3", h, theirs, {"attention.sliding_window": 100})
    convert(path, tmp_path / "m.mlb", Options(type="q4_0", q4_rule=asked, tokenizer=False))
    expected = dequantize(*quantize_q4_0(theirs["blk.0.ffn_up.weight"], rule=rule))
    assert np.array_equal(Model(tmp_path / "m.mlb").values("layers.0.w3"), expected)


def test_the_largest_gemmas_scale_scores_otherwise(tmp_path: Path) -> None:
    h = gemma(n_layers=46, dim=64, hidden_dim=32, attn_softcap=50.0, final_softcap=30.0, attn_scale=0.25)
    flags = bytes([LAYER_WINDOW, 0] * 23)
    weights = random_weights(h, flags)
    path = write(
        tmp_path / "m.gguf",
        "gemma2",
        h,
        renamed(weights, GEMMA_NAMES, h, True),
        {"attention.sliding_window": 100},
    )
    assert_holds(path, h, flags, weights)


def tile(values: Any, h: Header, width: int) -> Any:
    """Value heads at the end as llama.cpp orders them: the first of every key head, then the second, ..."""
    heads = values[-h.lin_v_heads * width :].reshape(h.lin_k_heads, -1, width, *values.shape[1:])
    return np.concatenate(
        [values[: -h.lin_v_heads * width], heads.swapaxes(0, 1).reshape(-1, *values.shape[1:])]
    )


def qwen35(v_dim: int) -> tuple[Header, bytes, Weights, Weights]:
    sizes = {"lin_k_heads": 2, "lin_v_heads": 4, "lin_k_dim": 16, "lin_v_dim": v_dim, "lin_conv": 4}
    h = header("llama", n_layers=4, head_dim=32, qk_norm=1, attn_gate=1, rot_dim=8, layer_flags=1, **sizes)
    flags = bytes([LAYER_LINEAR, LAYER_LINEAR, LAYER_LINEAR, 0])
    weights = random_weights(h, flags)
    theirs = renamed(weights, QWEN35_NAMES, h, True)
    queries = theirs["blk.3.attn_q.weight"].reshape(h.n_heads, 1, 32, h.dim)
    gates = weights["layers.3.wg"].reshape(queries.shape)
    theirs["blk.3.attn_q.weight"] = np.concatenate([queries, gates], axis=1).reshape(-1, h.dim)
    for i in range(3):
        widths = {"attn_qkv.weight": v_dim, "attn_gate.weight": v_dim, "ssm_conv1d.weight": v_dim}
        ones = ("ssm_beta.weight", "ssm_alpha.weight", "ssm_dt.bias", "ssm_a")
        for name, width in {**widths, **dict.fromkeys(ones, 1)}.items():
            theirs[f"blk.{i}.{name}"] = tile(theirs[f"blk.{i}.{name}"], h, width)
        theirs[f"blk.{i}.ssm_out.weight"] = tile(theirs[f"blk.{i}.ssm_out.weight"].T, h, v_dim).T
        theirs[f"blk.{i}.ssm_a"] = -np.exp(theirs[f"blk.{i}.ssm_a"])
    return h, flags, weights, theirs


QWEN35_KEYS: dict[str, Any] = {
    "rope.dimension_count": 8,
    "rope.dimension_sections": [2, 1, 1, 0],
    "ssm.conv_kernel": 4,
    "ssm.state_size": 16,
    "ssm.group_count": 2,
    "ssm.time_step_rank": 4,
    "full_attention_interval": 4,
}


@pytest.mark.parametrize("kind", [None, gguf.GGMLQuantizationType.Q8_0])
@pytest.mark.parametrize("v_dim", [24, 32])
def test_qwen35(v_dim: int, kind: Any, tmp_path: Path) -> None:
    """Heads come back into order, whether values or (where heads are whole blocks) blocks are copied."""
    h, flags, weights, theirs = qwen35(v_dim)
    extra = {**QWEN35_KEYS, "ssm.inner_size": 4 * v_dim}
    path = write(tmp_path / "m.gguf", "qwen35", h, theirs, extra, kind)
    if kind is not None and v_dim % 32:  # their blocks cross heads: quantized anew in our order
        convert(path, tmp_path / "m.mlb", PLAIN)
        stored = Model(tmp_path / "m.mlb").values("layers.0.lout")
        assert np.abs(stored - weights["layers.0.lout"]).max() < 0.02 * np.abs(stored).max()
    else:
        assert_holds(path, h, flags, weights)


def test_qwen35_leaves_out_layers_that_predict_several_tokens(tmp_path: Path) -> None:
    h, flags, weights, theirs = qwen35(32)
    theirs |= {
        "blk.4.attn_norm.weight": np.ones(64, np.float32),
        "blk.4.nextn.eh_proj.weight": np.ones((64, 64), np.float32),
    }
    extra = {**QWEN35_KEYS, "ssm.inner_size": 128, "block_count": 5, "nextn_predict_layers": 1}
    assert_holds(write(tmp_path / "m.gguf", "qwen35", h, theirs, extra), h, flags, weights)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ssm.inner_size": 130}, "ssm.inner_size is 130, must be a multiple of ssm.time_step_rank"),
        ({"ssm.dt_b_c_rms": 1}, "unknown configuration key ssm.dt_b_c_rms"),
        ({"attention.value_length": 16}, "attention.value_length is 16, must be the head size"),
    ],
)
def test_gguf_refusals(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    h, _, _, theirs = qwen35(32)
    extra = {**QWEN35_KEYS, "ssm.inner_size": 128, **changes}
    with pytest.raises(FormatError, match=sentence):
        convert(write(tmp_path / "m.gguf", "qwen35", h, theirs, extra), tmp_path / "m.mlb", PLAIN)
    assert not (tmp_path / "m.mlb").exists()


def test_a_decay_must_be_negative(tmp_path: Path) -> None:
    h, _, _, theirs = qwen35(32)
    theirs["blk.1.ssm_a"][2] = 0
    with pytest.raises(FormatError, match=r"m.gguf: blk.1.ssm_a .* not negative"):
        convert(
            write(tmp_path / "m.gguf", "qwen35", h, theirs, {**QWEN35_KEYS, "ssm.inner_size": 128}),
            tmp_path / "m.mlb",
            PLAIN,
        )


# --- Hugging Face configurations

BASE = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "max_position_embeddings": 64,
    "head_dim": 32,
}


@pytest.mark.parametrize(
    ("kind", "changes", "sentence"),
    [
        ("gemma3", {"text_config": {**BASE, "color": 1}}, "text_config: unknown configuration key color"),
        ("gemma3", {"text_config": BASE, "color": 1}, "config.json: unknown configuration key color"),
        ("gemma3", {"text_config": 7}, "text_config must hold an object"),
        (
            "gemma3_text",
            {**BASE, "layer_types": ["full_attention"]},
            "layer_types has 1 entries, num_hidden_layers differs",
        ),
        ("gemma3_text", {**BASE, "layer_types": ["odd", "full_attention"]}, "layer_types holds odd"),
        ("gemma3_text", {**BASE, "use_bidirectional_attention": True}, "use_bidirectional_attention is True"),
        (
            "gemma3_text",
            {**BASE, "rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2.0}}},
            "RoPE scaling of sliding_attention is not supported",
        ),
        ("gemma3_text", {**BASE, "rope_parameters": {"odd": {}}}, "rope_parameters holds odd"),
        (
            "gemma2",
            {**BASE, "hidden_activation": "gelu"},
            "hidden_activation is 'gelu', only 'gelu_pytorch_tanh'",
        ),
        ("smollm3", {**BASE, "no_rope_layers": [1, 2]}, "no_rope_layers holds 2"),
        ("smollm3", {**BASE, "no_rope_layers": [1]}, "no_rope_layers has 1 entries"),
        ("qwen3_5", {"text_config": {**BASE, "attn_output_gate": False}}, "attn_output_gate is False"),
        (
            "qwen3_5_text",
            {**BASE, "rope_parameters": {"rope_type": "default", "odd": 1}},
            "unknown keys of RoPE scaling 'default': odd",
        ),
        (
            "qwen3_5_text",
            {**BASE, "layer_types": ["sliding_attention"] * 2},
            "layer_types holds sliding_attention",
        ),
        ("qwen3_5_text", {**BASE, "mlp_only_layers": [1]}, r"mlp_only_layers is \[1\]"),
    ],
)
def test_refuses_a_configuration(kind: str, changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    tensors = {"model.embed_tokens.weight": np.zeros((300, 64), np.float32)}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, **changes}))
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    with pytest.raises(FormatError, match=sentence):
        convert(tmp_path, tmp_path / "m.mlb", PLAIN)


def test_a_projection_that_is_not_doubled(tmp_path: Path) -> None:
    names = HF["qwen3_5_text"].names
    tensors = {
        names["tok_emb"]: np.zeros((300, 64), np.float32),
        names["layers.{i}.attn_norm"].format(i=0): np.zeros(64, np.float32),
        names["layers.{i}.wq"].format(i=0): np.zeros((128, 64), np.float32),
    }
    config = {**BASE, "model_type": "qwen3_5_text", "layer_types": ["full_attention"] * 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    with pytest.raises(ShapeError, match=r"q_proj.weight has the shape \[128, 64\], must have \[256, 64\]"):
        convert(tmp_path, tmp_path / "m.mlb", PLAIN)


# --- Orders


def test_gather_reads_near_rows_together() -> None:
    source, ranges = np.arange(5000)[:, None], []

    def read(low: int, high: int) -> Any:
        ranges.append((low, high))
        return source[low:high]

    index = np.array([4, 2, 3, 4000, 4001, 10])
    assert gather(read, index).ravel().tolist() == index.tolist()
    assert ranges == [(2, 5), (4000, 4002), (10, 11)]


def test_orders_that_keep_blocks_whole() -> None:
    blocks = np.arange(96).reshape(3, 32)[[2, 0, 1]].ravel()
    found = whole_blocks(blocks)
    assert found is not None and found.tolist() == [2, 0, 1]
    assert whole_blocks(np.roll(np.arange(64), 1)) is None
    assert whole_blocks(np.roll(np.arange(64), 16)) is None
    assert whole_blocks(np.arange(40)) is None


def test_every_architecture_names_known_fields() -> None:
    known = set(Header.__dataclass_fields__)
    for architecture in HF.values():
        fields = {rule.field for rule in architecture.rules.values() if hasattr(rule, "field")}
        assert fields | set(architecture.features) | set(architecture.defaults) <= known


def test_the_page_on_adding_a_family_shows_the_code_as_it_is() -> None:
    root = Path(__file__).parents[1]
    files = ("tools/architectures_hf.py", "tools/architectures_gguf.py", "tests/test_parity.py")
    code = " ".join(" ".join((root / name).read_text().split()) for name in files)
    page = (root / "docs/adding-a-model-family.md").read_text()
    shown = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(shown) >= 3
    for block in shown:
        for part in re.split(r"^\s*\.\.\.$", block, flags=re.MULTILINE):  # what the page leaves out
            assert " ".join(part.split()) in code, part
