"""The architectures of GGUF files; keys are without the architecture's prefix."""

from __future__ import annotations

import math

import numpy as np

from krafla.tools.architectures import (
    Architecture,
    Config,
    Only,
    Reader,
    Rule,
    Settings,
    Skip,
    Special,
    To,
    rope_linear,
    rope_yarn,
    yarn_attention_factor,
)
from krafla.tools.errors import FormatError
from krafla.tools.mlb import (
    ACT_GELU,
    LAYER_LINEAR,
    LAYER_LOCAL_ROPE,
    LAYER_NO_ROPE,
    LAYER_WINDOW,
    ROPE_LLAMA3,
)
from krafla.tools.orders import gated_queries, gates, tiled
from krafla.tools.quantize import F32

_GGUF_RULES: dict[str, Rule] = {
    "embedding_length": To("dim"),
    "block_count": To("n_layers"),
    "attention.head_count": To("n_heads"),
    "attention.head_count_kv": To("n_kv_heads"),
    "feed_forward_length": To("hidden_dim"),
    "vocab_size": To("vocab"),
    "context_length": To("max_seq"),
    "attention.layer_norm_rms_epsilon": To("norm_eps"),
    "attention.key_length": To("head_dim"),
    "attention.value_length": Special(),
    "attention.sliding_window": To("sliding_window"),
    "attention.causal": Only((True,)),
    "expert_count": Only((0,)),
    "expert_used_count": Only((0,)),
    "rope.freq_base": To("rope_theta"),
    "rope.dimension_count": Special(),
    "rope.scaling.type": Special(),
    "rope.scaling.factor": Special(),
    "rope.scaling.original_context_length": Special(),
    "rope.scaling.attn_factor": Special(),
    "rope.scaling.finetuned": Skip(),
    "rope.scaling.yarn_log_multiplier": Only((0,)),
    "rope.scaling.yarn_beta_fast": Special(),
    "rope.scaling.yarn_beta_slow": Special(),
    "rope.scale_linear": Special(),
    "tensor_data_layout": Skip(),
}
_GGUF_NAMES = {
    "tok_emb": "token_embd.weight",
    "layers.{i}.attn_norm": "blk.{i}.attn_norm.weight",
    "layers.{i}.wq": "blk.{i}.attn_q.weight",
    "layers.{i}.wk": "blk.{i}.attn_k.weight",
    "layers.{i}.wv": "blk.{i}.attn_v.weight",
    "layers.{i}.wo": "blk.{i}.attn_output.weight",
    "layers.{i}.bq": "blk.{i}.attn_q.bias",
    "layers.{i}.bk": "blk.{i}.attn_k.bias",
    "layers.{i}.bv": "blk.{i}.attn_v.bias",
    "layers.{i}.q_norm": "blk.{i}.attn_q_norm.weight",
    "layers.{i}.k_norm": "blk.{i}.attn_k_norm.weight",
    "layers.{i}.ffn_norm": "blk.{i}.ffn_norm.weight",
    "layers.{i}.w1": "blk.{i}.ffn_gate.weight",
    "layers.{i}.w2": "blk.{i}.ffn_down.weight",
    "layers.{i}.w3": "blk.{i}.ffn_up.weight",
    "final_norm": "output_norm.weight",
    "wcls": "output.weight",
}
# Holds llama3's scaling as divisors of the frequencies.
ROPE_FREQS = "rope_freqs.weight"


def read_gguf_rope(config: Config, where: str, settings: Settings) -> None:
    """RoPE scaling by name and factor; rotated dimensions must be the whole head."""
    f = settings.fields
    f.setdefault("rope_theta", 10000.0)
    head = int(f.get("head_dim") or f["dim"] // f["n_heads"])
    expected = {"rope.dimension_count": int(f.get("rot_dim") or head), "attention.value_length": head}
    for key, size in expected.items():
        if config.get(key, size) != size:
            raise FormatError(f"{where}: {key} is {config[key]}, must be the head size ({size})")
    factor = float(config.get("rope.scaling.factor", config.get("rope.scale_linear", 1.0)))
    # A factor without a type means linear scaling, as llama.cpp reads it.
    kind = str(config.get("rope.scaling.type", "linear"))
    if kind == "none" or (kind == "linear" and factor in (0.0, 1.0)):
        return
    if kind == "linear":
        rope_linear({"factor": factor}, where, settings)
    elif kind == "yarn":
        attention = float(config.get("rope.scaling.attn_factor", 1.0)) * yarn_attention_factor(factor, {})
        values = {
            "factor": factor,
            "original_max_position_embeddings": config.get("rope.scaling.original_context_length"),
            "beta_fast": config.get("rope.scaling.yarn_beta_fast"),
            "beta_slow": config.get("rope.scaling.yarn_beta_slow"),
            "attention_factor": attention,
        }
        rope_yarn(values, where, settings)
    else:
        raise FormatError(f"{where}: RoPE scaling {kind!r} is not supported, only none, linear, yarn")


def read_rope_freqs(divisors: F32, where: str, settings: Settings) -> None:
    """Recover llama3's parameters from the divisors that GGUF stores; others are an error."""
    f = settings.fields
    size = 2 * len(divisors)
    wavelength = 2 * math.pi * float(f["rope_theta"]) ** (np.arange(0, size, 2) / size)
    factor = float(divisors.max())
    if np.allclose(divisors, 1):
        return
    # Only the ratios of the three parameters count: low is 1, the other two follow from a line through
    # the interpolated part, where 1 / divisor = (1 - s) / factor + s and s = a / wavelength - b.
    s = (1 / divisors.astype(np.float64) - 1 / factor) / (1 - 1 / factor)
    between = (s > 1e-4) & (s < 1 - 1e-4)
    high, original = 4.0, 8192.0
    if between.sum() >= 2:
        a, minus_b = np.polyfit(1 / wavelength[between], s[between], 1)
        high = round((1 - minus_b) / -minus_b, 2)
        original = round(float(a) * (high - 1))
    expected = np.clip((original / wavelength - 1) / (high - 1), 0, 1)
    if not np.allclose(expected, s, atol=1e-3):
        raise FormatError(f"{where}: {ROPE_FREQS} does not hold llama3 scaling, which alone is supported")
    settings.fields |= {
        "rope_type": ROPE_LLAMA3,
        "rope_factor": factor,
        "rope_low_freq_factor": 1.0,
        "rope_high_freq_factor": high,
        "rope_orig_max_seq": int(original),
    }


def read_smollm3_layers(config: Config, where: str, settings: Settings) -> None:
    """Every fourth layer has no RoPE; the file does not say so."""
    layers = int(settings.fields["n_layers"])
    settings.layer_flags = bytes(0 if (i + 1) % 4 else LAYER_NO_ROPE for i in range(layers))


def read_gemma_layers(pattern: int, local: bool, large: int) -> Reader:
    """Windows on all layers but every `pattern`th, and the factors on embeddings and scores.

    The largest model, told by its layers, scales scores by the width of heads in its residual stream.
    """

    def read(config: Config, where: str, settings: Settings) -> None:
        f = settings.fields
        layers = int(f["n_layers"])
        every = config.get("attention.sliding_window_pattern", pattern)
        windows = [bool((i + 1) % every) for i in range(layers)] if isinstance(every, int) else list(every)
        if len(windows) != layers:
            raise FormatError(
                f"{where}: attention.sliding_window_pattern has {len(windows)} entries, block_count differs"
            )
        flag = LAYER_WINDOW | LAYER_LOCAL_ROPE if local else LAYER_WINDOW
        settings.layer_flags = bytes(flag if window else 0 for window in windows)
        f["embed_scale"] = float(np.float32(math.sqrt(f["dim"])))
        width = f["dim"] / f["n_heads"] if layers == large else f["head_dim"]
        f["attn_scale"] = float(width) ** -0.5

    return read


def read_qwen35(config: Config, where: str, settings: Settings) -> None:
    """Linear attention's sizes; layers for predicting several tokens are left out."""
    f = settings.fields
    values = int(config["ssm.inner_size"])
    if values % int(f["lin_v_heads"]):
        raise FormatError(f"{where}: ssm.inner_size is {values}, must be a multiple of ssm.time_step_rank")
    f["lin_v_dim"] = values // int(f["lin_v_heads"])
    rotated = int(config.get("rope.dimension_count", f["head_dim"]))
    f["rot_dim"] = 0 if rotated == f["head_dim"] else rotated
    blocks, extra = int(f["n_layers"]), int(config.get("nextn_predict_layers", 0))
    f["n_layers"] = blocks - extra
    settings.dropped = tuple(rf"blk\.{i}\..*" for i in range(blocks - extra, blocks))
    every = int(config.get("full_attention_interval", 4))
    settings.layer_flags = bytes(LAYER_LINEAR if (i + 1) % every else 0 for i in range(blocks - extra))


def _a_log(values: F32) -> F32:
    """The file stores -exp(A_log)."""
    if not (values < 0).all():
        raise ValueError("holds a value that is not negative")
    return np.log(-values)


_GGUF_DEFAULTS: dict[str, int | float] = {"norm_eps": 1e-5}
_GGUF_READERS: tuple[Reader, ...] = (read_gguf_rope,)

_GEMMA_NAMES = {
    **_GGUF_NAMES,
    "layers.{i}.post_attn_norm": "blk.{i}.post_attention_norm.weight",
    "layers.{i}.post_ffn_norm": "blk.{i}.post_ffw_norm.weight",
}
_GEMMA_RULES: dict[str, Rule] = {
    **_GGUF_RULES,
    "attention.sliding_window_pattern": Special(),
    "attn_logit_softcapping": To("attn_softcap"),
    "final_logit_softcapping": To("final_softcap"),
    "rope.freq_base_swa": To("rope_local_theta"),
}
_GEMMA_DEFAULTS: dict[str, int | float] = {"norm_eps": 1e-6, "head_dim": 256}
_QWEN35_NAMES = {
    **_GGUF_NAMES,
    "layers.{i}.ffn_norm": "blk.{i}.post_attention_norm.weight",
    "layers.{i}.wg": "blk.{i}.attn_q.weight",
    "layers.{i}.lqkv": "blk.{i}.attn_qkv.weight",
    "layers.{i}.lz": "blk.{i}.attn_gate.weight",
    "layers.{i}.lb": "blk.{i}.ssm_beta.weight",
    "layers.{i}.la": "blk.{i}.ssm_alpha.weight",
    "layers.{i}.lconv": "blk.{i}.ssm_conv1d.weight",
    "layers.{i}.dt_bias": "blk.{i}.ssm_dt.bias",
    "layers.{i}.a_log": "blk.{i}.ssm_a",
    "layers.{i}.lnorm": "blk.{i}.ssm_norm.weight",
    "layers.{i}.lout": "blk.{i}.ssm_out.weight",
}

GGUF: dict[str, Architecture] = {
    # Query and key rows of this architecture are already interleaved.
    "llama": Architecture(
        rules=_GGUF_RULES, names=_GGUF_NAMES, defaults=_GGUF_DEFAULTS, readers=_GGUF_READERS
    ),
    "qwen2": Architecture(
        rules=_GGUF_RULES,
        names=_GGUF_NAMES,
        features={"qkv_bias": 1},
        defaults=_GGUF_DEFAULTS,
        readers=_GGUF_READERS,
        halves=True,
    ),
    "qwen3": Architecture(
        rules=_GGUF_RULES,
        names=_GGUF_NAMES,
        features={"qk_norm": 1},
        defaults=_GGUF_DEFAULTS,
        readers=_GGUF_READERS,
        halves=True,
    ),
    "smollm3": Architecture(
        rules=_GGUF_RULES,
        names=_GGUF_NAMES,
        defaults=_GGUF_DEFAULTS,
        readers=(read_gguf_rope, read_smollm3_layers),
    ),
    "gemma2": Architecture(
        rules=_GEMMA_RULES,
        names=_GEMMA_NAMES,
        features={"act": ACT_GELU, "post_norms": 1},
        defaults={
            **_GEMMA_DEFAULTS,
            "sliding_window": 4096,
            "attn_softcap": 50.0,
            "final_softcap": 30.0,
        },
        readers=(read_gguf_rope, read_gemma_layers(2, local=False, large=46)),
        halves=True,
    ),
    "gemma3": Architecture(
        rules=_GEMMA_RULES,
        names=_GEMMA_NAMES,
        features={"act": ACT_GELU, "post_norms": 1, "qk_norm": 1},
        defaults={**_GEMMA_DEFAULTS, "rope_theta": 1e6, "rope_local_theta": 1e4},
        readers=(read_gguf_rope, read_gemma_layers(6, local=True, large=62)),
        halves=True,
        q4_rule="round",
    ),
    "qwen35": Architecture(
        rules={
            **_GGUF_RULES,
            "rope.dimension_sections": Skip(),
            "ssm.conv_kernel": To("lin_conv"),
            "ssm.state_size": To("lin_k_dim"),
            "ssm.group_count": To("lin_k_heads"),
            "ssm.time_step_rank": To("lin_v_heads"),
            "ssm.inner_size": Special(),
            "full_attention_interval": Special(),
            "nextn_predict_layers": Special(),
        },
        names=_QWEN35_NAMES,
        features={"qk_norm": 1, "attn_gate": 1},
        defaults=_GGUF_DEFAULTS,
        readers=(read_qwen35, read_gguf_rope),
        halves=True,
        orders={
            "wq": gated_queries,
            "wg": gates,
            **dict.fromkeys(["lqkv", "lz", "lb", "la", "lconv", "dt_bias", "a_log"], tiled),
        },
        columns={"lout": tiled},
        times={"wq": 2, "wg": 2},
        values={"a_log": _a_log},
    ),
}
