"""Writes small checkpoints in the formats the converter reads, all from one set of weights under .mlb names."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

from krafla.tools.gen_random import random_rows
from krafla.tools.mlb import Header, layout

Weights = dict[str, npt.NDArray[np.float32]]
HF_NAMES = {
    "attn_norm": "input_layernorm.weight",
    "wq": "self_attn.q_proj.weight",
    "wk": "self_attn.k_proj.weight",
    "wv": "self_attn.v_proj.weight",
    "wo": "self_attn.o_proj.weight",
    "bq": "self_attn.q_proj.bias",
    "bk": "self_attn.k_proj.bias",
    "bv": "self_attn.v_proj.bias",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
    "ffn_norm": "post_attention_layernorm.weight",
    "w1": "mlp.gate_proj.weight",
    "w2": "mlp.down_proj.weight",
    "w3": "mlp.up_proj.weight",
}
GGUF_NAMES = {
    "attn_norm": "attn_norm.weight",
    "wq": "attn_q.weight",
    "wk": "attn_k.weight",
    "wv": "attn_v.weight",
    "wo": "attn_output.weight",
    "bq": "attn_q.bias",
    "bk": "attn_k.bias",
    "bv": "attn_v.bias",
    "q_norm": "attn_q_norm.weight",
    "k_norm": "attn_k_norm.weight",
    "ffn_norm": "ffn_norm.weight",
    "w1": "ffn_gate.weight",
    "w2": "ffn_down.weight",
    "w3": "ffn_up.weight",
}
ROTATED = ("wq", "wk", "bq", "bk", "q_norm", "k_norm")


def random_weights(header: Header, seed: int = 0) -> Weights:
    """Weights on the grid of the header's type, as an .mlb file holds them."""
    rng = np.random.default_rng(seed)
    weights = {}
    for t in layout(header).values():
        rows = random_rows(rng, t, t.rows, grid=True)
        weights[t.name] = rows if t.rows > 1 else rows[0]
    return weights


def to_halves(values: npt.NDArray[Any], head: int) -> npt.NDArray[Any]:
    """Pairs (2i, 2i + 1) of each head to halves (i, i + head / 2), one row at a time."""
    out = np.empty_like(values)
    for row in range(len(values)):
        h, d = divmod(row, head)
        out[h * head + d // 2 + (d % 2) * head // 2] = values[row]
    return out


def renamed(
    weights: Weights, names: Mapping[str, str], layer: str, top: dict[str, str], halves: int
) -> Weights:
    """The weights under other names; `halves` is the head size if heads are to be split into halves."""
    out = {}
    for name, values in weights.items():
        _, _, short = name.rpartition(".")
        if halves and short in ROTATED:
            values = to_halves(values, halves)
        if name.startswith("layers."):
            out[layer.format(i=name.split(".")[1]) + names[short]] = values
        else:
            out[top[name]] = values
    return out


def hf_weights(weights: Weights, head: int) -> Weights:
    top = {
        "tok_emb": "model.embed_tokens.weight",
        "final_norm": "model.norm.weight",
        "wcls": "lm_head.weight",
    }
    return renamed(weights, HF_NAMES, "model.layers.{i}.", top, head)


def hf_config(header: Header, **changes: Any) -> dict[str, Any]:
    """A config.json as older versions of transformers write it."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": header.dim,
        "intermediate_size": header.hidden_dim,
        "num_hidden_layers": header.n_layers,
        "num_attention_heads": header.n_heads,
        "num_key_value_heads": header.n_kv_heads,
        "vocab_size": header.vocab,
        "max_position_embeddings": header.max_seq,
        "rms_norm_eps": header.norm_eps,
        "rope_theta": header.rope_theta,
        "rope_scaling": None,
        "tie_word_embeddings": bool(header.shared_classifier),
        "hidden_act": "silu",
        "torch_dtype": "float32",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "use_cache": True,
    }
    return {key: value for key, value in {**config, **changes}.items() if value is not ...}


def safetensors_bytes(tensors: Weights, dtype: str = "F32") -> bytes:
    """A safetensors file; bfloat16 by cutting off the lower half of a float."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, values in tensors.items():
        if dtype == "BF16":
            data = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
        else:
            data = values.astype({"F32": "<f4", "F16": "<f2", "F64": "<f8"}[dtype]).tobytes()
        offsets = [len(body), len(body) + len(data)]
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": offsets}
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def write_hf(
    folder: Path, config: dict[str, Any], tensors: Weights, dtype: str = "F32", shards: int = 1
) -> Path:
    """A Hugging Face folder, in one file or in shards with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors, dtype))
        return folder
    weight_map: dict[str, str] = {}
    for k in range(shards):
        file = f"model-{k + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: values for i, (name, values) in enumerate(tensors.items()) if i % shards == k}
        (folder / file).write_bytes(safetensors_bytes(part, dtype))
        weight_map |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


def gguf_weights(weights: Weights, head: int = 0) -> Weights:
    """`head` is the head size for architectures that do not interleave (qwen2, qwen3)."""
    top = {"tok_emb": "token_embd.weight", "final_norm": "output_norm.weight", "wcls": "output.weight"}
    return renamed(weights, GGUF_NAMES, "blk.{i}.", top, head)


def write_gguf(
    path: Path,
    header: Header,
    tensors: Weights,
    arch: str = "llama",
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    raw: Mapping[str, tuple[bytes, gguf.GGMLQuantizationType]] | None = None,
    extra: Iterable[tuple[str, Any]] = (),
) -> Path:
    """A GGUF file; matrices have the type `kind` or, for those in `raw`, the given bytes and type."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(header.n_layers)
    writer.add_context_length(header.max_seq)
    writer.add_embedding_length(header.dim)
    writer.add_feed_forward_length(header.hidden_dim)
    writer.add_head_count(header.n_heads)
    writer.add_head_count_kv(header.n_kv_heads)
    writer.add_layer_norm_rms_eps(header.norm_eps)
    writer.add_rope_freq_base(header.rope_theta)
    writer.add_rope_dimension_count(header.head_size)
    if header.head_dim:
        writer.add_key_length(header.head_dim)
        writer.add_value_length(header.head_dim)
    writer.add_string("general.name", "a test")
    for key, value in extra:
        adders: dict[type, Any] = {
            bool: writer.add_bool,
            int: writer.add_uint32,
            float: writer.add_float32,
            str: writer.add_string,
            list: writer.add_array,
        }
        adders[type(value)](key.format(arch=arch), value)
    for name, values in tensors.items():
        if raw and name in raw:
            data, of_kind = raw[name]
            rows = np.frombuffer(data, np.uint8).reshape(len(values), -1)
            writer.add_tensor(name, rows, raw_dtype=of_kind)
        elif values.ndim == 1:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_llama2c(path: Path, header: Header, weights: Weights, version: int = 0) -> Path:
    """A llama2.c checkpoint, legacy (0) or version 1."""
    numbers = [header.dim, header.hidden_dim, header.n_layers, header.n_heads, header.n_kv_heads]
    shared = bool(header.shared_classifier)

    def each(*names: str) -> bytes:
        arrays = [weights[f"layers.{i}.{name}"] for name in names for i in range(header.n_layers)]
        return b"".join(values.astype("<f4").tobytes() for values in arrays)

    def one(name: str) -> bytes:
        return weights[name].astype("<f4").tobytes()

    matrices = ("wq", "wk", "wv", "wo")
    if version == 0:
        tables = np.full(header.max_seq * header.head_size, 7, "<f4").tobytes()
        data = struct.pack("<7i", *numbers, header.vocab if shared else -header.vocab, header.max_seq)
        data += one("tok_emb") + each("attn_norm", *matrices, "ffn_norm", "w1", "w2", "w3")
        data += one("final_norm") + tables
    else:
        data = struct.pack("<Ii7iB", 0x616B3432, version, *numbers, header.vocab, header.max_seq, shared)
        data = data.ljust(256, b"\0") + each("attn_norm", "ffn_norm") + one("final_norm") + one("tok_emb")
        data += each(*matrices, "w1", "w2", "w3")
    path.write_bytes(data + (b"" if shared else one("wcls")))
    return path
