"""What a model file is, in plain values: family, sizes, tensors by kind, and the memory that it will take."""

from __future__ import annotations

import ctypes
import math
import re
from dataclasses import dataclass
from pathlib import Path

from krafla.runtime.bind import Api
from krafla.runtime.model import KV_TYPES
from krafla.tools.mlb import (
    LAYER_NO_ROPE,
    LAYER_WINDOW,
    Q4_0,
    Q8_0,
    ROPE_LLAMA3,
    Header,
    Model,
    Tensor,
)

KINDS = {0: "F32", Q8_0: "Q8_0", Q4_0: "Q4_0"}
CONTEXTS = (512, 2048, 4096, 8192, 32768, 131072)


@dataclass(frozen=True)
class Tensors:
    """All tensors of one name, that of every layer taken together."""

    name: str
    count: int
    rows: int
    cols: int
    kind: str
    bytes: int


@dataclass(frozen=True)
class Memory:
    """Bytes that a model takes with a context and a KV type."""

    context: int
    kv: str
    weight_bytes: int
    kv_bytes: int
    peak_bytes: int


def family(header: Header, layer_flags: bytes) -> str:
    """The family whose features a header has; a family without features of its own is Llama's."""
    flags = 0
    for of_layer in layer_flags:
        flags |= of_layer
    features = (
        (header.lin_k_heads, "Qwen3.5"),
        (header.post_norms and header.qk_norm, "Gemma 3"),
        (header.post_norms, "Gemma 2"),
        (header.qk_norm, "Qwen3"),
        (header.qkv_bias, "Qwen2"),
        (flags & LAYER_NO_ROPE, "SmolLM3"),
        (header.sliding_window and (not flags or flags & LAYER_WINDOW), "Mistral"),
        (header.rope_type == ROPE_LLAMA3, "Llama 3"),
    )
    return next((name for has, name in features if has), "Llama")


def parameters(model: Model) -> int:
    """How many weights a model has; shared ones count once."""
    return sum(t.rows * t.cols for t in model.tensors.values() if t.name != "layer_flags")


def tensors(model: Model) -> list[Tensors]:
    """The tensors in file order, those of all layers under one name."""
    groups: dict[tuple[str, int, int, str], list[Tensor]] = {}
    for tensor in model.tensors.values():
        name = re.sub(r"^layers\.\d+\.", "layers.*.", tensor.name)
        kind = "u8" if name == "layer_flags" else KINDS[tensor.kind]
        groups.setdefault((name, tensor.rows, tensor.cols, kind), []).append(tensor)
    return [
        Tensors(name, len(group), rows, cols, kind, sum(map(_bytes, group)))
        for (name, rows, cols, kind), group in groups.items()
    ]


def _bytes(tensor: Tensor) -> int:
    scales = tensor.rows * tensor.blocks * tensor.scale_bytes if tensor.kind else 0
    return tensor.rows * tensor.row_bytes + scales


def memory(api: Api, path: Path, max_seq: int) -> list[Memory]:
    """The engine's prediction for contexts up to the model's longest, and every KV type."""
    found = []
    for context in sorted({min(each, max_seq) for each in CONTEXTS}):
        for index, kv in enumerate(KV_TYPES):
            info = api.types.ml_info()
            options = api.types.ml_options(context=context, kv_type=index, pack=1)
            api.fn.ml_engine_predict(ctypes.byref(info), str(path).encode(), ctypes.byref(options))
            found.append(Memory(context, kv, info.weight_bytes, info.kv_bytes, info.peak_bytes))
    return found


def count(number: int) -> str:
    """A number of weights for people: 134.5 M."""
    power = min(3, int(math.log10(max(number, 1)) // 3))
    return f"{number / 1000**power:.4g} {('', 'k', 'M', 'G')[power]}".strip()
