"""Small random models, one per feature, written once per session: `path = model("qwen3")`."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from krafla.tools.gen_random import write_random
from krafla.tools.mlb import (
    ACT_GELU,
    LAYER_LINEAR,
    LAYER_LOCAL_ROPE,
    LAYER_NO_ROPE,
    LAYER_WINDOW,
    Q4_0,
    ROPE_LINEAR,
    ROPE_LLAMA3,
    ROPE_YARN,
    Header,
)

_BASE: dict[str, Any] = {
    "dim": 64,
    "n_layers": 2,
    "n_heads": 4,
    "n_kv_heads": 2,
    "hidden_dim": 96,
    "vocab": 263,
    "max_seq": 320,
}

_GEMMA: dict[str, Any] = {
    "head_dim": 32,
    "act": ACT_GELU,
    "post_norms": 1,
    "embed_scale": 8.0,
    "attn_scale": 0.2,
    "sliding_window": 12,
    "shared_classifier": 1,
}
_LINEAR: dict[str, Any] = {
    "head_dim": 32,
    "qk_norm": 1,
    "attn_gate": 1,
    "rot_dim": 8,
    "lin_k_heads": 2,
    "lin_v_heads": 4,
    "lin_k_dim": 12,
    "lin_v_dim": 24,
    "lin_conv": 4,
}

# What differs from _BASE; together they cover every feature of the format.
MODELS: dict[str, dict[str, Any]] = {
    "llama": {},
    "shared": {"shared_classifier": 1},
    "mha": {"n_kv_heads": 4},
    "mqa": {"n_heads": 8, "n_kv_heads": 1, "head_dim": 16},
    "odd_head": {"dim": 96, "n_heads": 16, "n_kv_heads": 4, "head_dim": 6},
    "f16_scales": {"scale_f16": 1},
    "q4": {"wtype": Q4_0},
    "q4_f16_scales": {"wtype": Q4_0, "scale_f16": 1},
    "mixed": {"wtype": Q4_0, "q8_mask": 2 + 8 + 64},
    "mixed_shared": {"wtype": Q4_0, "q8_mask": 2, "shared_classifier": 1, "scale_f16": 1},
    "mistral": {"sliding_window": 20},
    "qwen2": {"qkv_bias": 1, "shared_classifier": 1, "rope_theta": 1e6},
    "qwen3": {"qk_norm": 1, "head_dim": 32, "shared_classifier": 1, "rope_theta": 1e6, "norm_eps": 1e-6},
    "llama3": {
        "rope_type": ROPE_LLAMA3,
        "rope_theta": 500000.0,
        "rope_factor": 8.0,
        "rope_low_freq_factor": 1.0,
        "rope_high_freq_factor": 4.0,
        "rope_orig_max_seq": 64,
    },
    "linear": {"rope_type": ROPE_LINEAR, "rope_factor": 2.0},
    "yarn": {
        "rope_type": ROPE_YARN,
        "rope_factor": 4.0,
        "rope_low_freq_factor": 32.0,
        "rope_high_freq_factor": 1.0,
        "rope_orig_max_seq": 64,
        "rope_attn_factor": 1.1386294,
    },
    # Rows that fill no group of 4, 8 or 16, several blocks per row, more than one page of vocabulary.
    "wide": {"dim": 160, "n_heads": 5, "n_kv_heads": 5, "head_dim": 32, "hidden_dim": 352, "vocab": 1021},
}
MODELS |= {
    "window_layers": {"sliding_window": 12},
    "no_rope_layers": {},
    "smollm3": {"sliding_window": 12, "n_layers": 3, "rope_theta": 2e6, "shared_classifier": 1},
    "gate": {"attn_gate": 1, "qkv_bias": 1},
    "partial": {"head_dim": 32, "rot_dim": 8},
    "gemma2": {**_GEMMA, "attn_softcap": 4.0, "final_softcap": 6.0},
    "gemma3": {
        **_GEMMA,
        "qk_norm": 1,
        "n_layers": 3,
        "rope_theta": 1e6,
        "rope_local_theta": 1e4,
        "rope_type": ROPE_LINEAR,
        "rope_factor": 8.0,
    },
    "qwen35": {**_LINEAR, "n_layers": 4, "rope_theta": 1e7, "shared_classifier": 1},
    "qwen35_q4": {**_LINEAR, "wtype": Q4_0, "q8_mask": 4, "scale_f16": 1, "lin_k_heads": 4, "lin_conv": 3},
    "linear_last": {**_LINEAR, "attn_gate": 0, "lin_conv": 1, "lin_v_dim": 8, "lin_k_dim": 1},
    "linear_only": {**_LINEAR, "post_norms": 1},
}
LAYER_FLAGS: dict[str, bytes] = {
    "smollm3": bytes([LAYER_WINDOW, LAYER_NO_ROPE, LAYER_NO_ROPE | LAYER_WINDOW]),
    "gemma2": bytes([LAYER_WINDOW, 0]),
    "gemma3": bytes([LAYER_WINDOW | LAYER_LOCAL_ROPE, 0, LAYER_WINDOW | LAYER_LOCAL_ROPE]),
    "qwen35": bytes([LAYER_LINEAR, LAYER_LINEAR, LAYER_LINEAR, 0]),
    "qwen35_q4": bytes([LAYER_LINEAR, 0]),
    "linear_last": bytes([0, LAYER_LINEAR]),
    "linear_only": bytes([LAYER_LINEAR, LAYER_LINEAR]),
    "window_layers": bytes([LAYER_WINDOW, 0]),
    "no_rope_layers": bytes([0, LAYER_NO_ROPE]),
}

_FOLDER = Path(tempfile.mkdtemp(prefix="krafla-models-"))
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)


@cache
def model(name: str, seed: int = 0, grid: bool = False) -> Path:
    """The path of the model called NAME (a key of MODELS)."""
    path = _FOLDER / f"{name}-{seed}-{int(grid)}.mlb"
    write_random(path, header(name), seed, LAYER_FLAGS.get(name, b""), grid)
    return path


def header(name: str, **changes: Any) -> Header:
    """The header of the model called NAME, with changes."""
    return Header(**{**_BASE, **MODELS[name], **changes})
