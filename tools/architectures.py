"""What the converter knows about each architecture: names of tensors, configuration keys, RoPE layout.

Every key of a checkpoint's configuration has a rule. A key without one is an error that lists it: a model
that asks for something unknown would run, but say nonsense.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from krafla.tools.errors import FormatError
from krafla.tools.mlb import LAYER_WINDOW, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN
from krafla.tools.quantize import F32


@dataclass
class Settings:
    """Header fields collected from a configuration, and the flags of layers."""

    fields: dict[str, int | float] = field(default_factory=dict)
    layer_flags: bytes = b""


@dataclass(frozen=True)
class To:
    """The key's value goes into a field of the header; null counts as absent."""

    field: str


@dataclass(frozen=True)
class Only:
    """Any other value asks for something that is not supported."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Skip:
    """The key does not change what the model computes."""


@dataclass(frozen=True)
class Special:
    """A function of the architecture reads the key."""


Rule = To | Only | Skip | Special
Config = Mapping[str, Any]
# Reads special keys: (configuration, its name for messages, settings so far).
Reader = Callable[[Config, str, Settings], None]


@dataclass(frozen=True)
class Architecture:
    """How one architecture's checkpoints of one kind map to an .mlb file."""

    rules: Mapping[str, Rule]
    names: Mapping[str, str]  # our name to theirs; {i} is the layer
    features: Mapping[str, int] = field(default_factory=dict)  # header fields that the architecture implies
    defaults: Mapping[str, int | float] = field(default_factory=dict)  # for keys that a file may leave out
    readers: tuple[Reader, ...] = ()
    halves: bool = False  # RoPE pairs dimension i with i + half, to be interleaved
    dropped: tuple[str, ...] = ()  # tensors that are not needed, as regular expressions


# --- Hugging Face

_HF_SKIPPED = """
    _attn_implementation_autoset _name_or_path add_cross_attention architectures attention_dropout
    auto_map bos_token_id chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id
    do_sample dtype eos_token_id finetuning_task id2label initializer_range is_decoder
    is_llama_config label2id max_length model_type output_attentions output_hidden_states
    pad_token_id prefix pretraining_tp problem_type pruned_heads repetition_penalty return_dict
    sep_token_id task_specific_params temperature tie_encoder_decoder tokenizer_class top_k top_p
    torch_dtype torchscript transformers.js_config transformers_version unk_token_id unsloth_fixed
    unsloth_version use_bfloat16 use_cache
"""
_HF_RULES: dict[str, Rule] = {
    **dict.fromkeys(_HF_SKIPPED.split(), Skip()),
    "hidden_size": To("dim"),
    "num_hidden_layers": To("n_layers"),
    "num_attention_heads": To("n_heads"),
    "num_key_value_heads": To("n_kv_heads"),
    "intermediate_size": To("hidden_dim"),
    "vocab_size": To("vocab"),
    "max_position_embeddings": To("max_seq"),
    "rms_norm_eps": To("norm_eps"),
    "head_dim": To("head_dim"),
    "tie_word_embeddings": To("shared_classifier"),
    "hidden_act": Only(("silu", "swish")),
    "is_encoder_decoder": Only((False, None)),
    "attention_bias": Only((False, None)),
    "mlp_bias": Only((False, None)),
    "rope_interleaved": Only((False, None)),
    "rope_theta": Special(),
    "rope_scaling": Special(),
    "rope_parameters": Special(),
}
_HF_NAMES = {
    "tok_emb": "model.embed_tokens.weight",
    "layers.{i}.attn_norm": "model.layers.{i}.input_layernorm.weight",
    "layers.{i}.wq": "model.layers.{i}.self_attn.q_proj.weight",
    "layers.{i}.wk": "model.layers.{i}.self_attn.k_proj.weight",
    "layers.{i}.wv": "model.layers.{i}.self_attn.v_proj.weight",
    "layers.{i}.wo": "model.layers.{i}.self_attn.o_proj.weight",
    "layers.{i}.bq": "model.layers.{i}.self_attn.q_proj.bias",
    "layers.{i}.bk": "model.layers.{i}.self_attn.k_proj.bias",
    "layers.{i}.bv": "model.layers.{i}.self_attn.v_proj.bias",
    "layers.{i}.q_norm": "model.layers.{i}.self_attn.q_norm.weight",
    "layers.{i}.k_norm": "model.layers.{i}.self_attn.k_norm.weight",
    "layers.{i}.ffn_norm": "model.layers.{i}.post_attention_layernorm.weight",
    "layers.{i}.w1": "model.layers.{i}.mlp.gate_proj.weight",
    "layers.{i}.w2": "model.layers.{i}.mlp.down_proj.weight",
    "layers.{i}.w3": "model.layers.{i}.mlp.up_proj.weight",
    "final_norm": "model.norm.weight",
    "wcls": "lm_head.weight",
}
_HF_DROPPED = (r".*\.rotary_emb\.inv_freq",)
_ROPE_KEYS: dict[str, set[str]] = {
    "default": set(),
    "linear": {"factor"},
    "llama3": {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
    "yarn": {
        "factor",
        "original_max_position_embeddings",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
    },
}


def read_hf_rope(config: Config, where: str, settings: Settings) -> None:
    """RoPE's base and scaling: rope_parameters, or the older rope_theta with rope_scaling."""
    scaling = dict(config.get("rope_scaling") or {}) | dict(config.get("rope_parameters") or {})
    theta = scaling.pop("rope_theta", config.get("rope_theta"))
    settings.fields["rope_theta"] = 10000.0 if theta is None else float(theta)
    kinds = {str(scaling.pop(key)) for key in ("rope_type", "type") if key in scaling}
    kind = kinds.pop() if kinds else "default"
    if kinds or kind not in _ROPE_KEYS:
        raise FormatError(f"{where}: RoPE scaling {kind!r} is not supported, only {', '.join(_ROPE_KEYS)}")
    partial = scaling.pop("partial_rotary_factor", 1.0)
    if partial != 1.0:
        raise FormatError(f"{where}: partial_rotary_factor is {partial}, must be 1 for this architecture")
    if unknown := sorted(set(scaling) - _ROPE_KEYS[kind]):
        raise FormatError(f"{where}: unknown keys of RoPE scaling {kind!r}: {', '.join(unknown)}")
    values = {key: value for key, value in scaling.items() if value is not None}
    if missing := sorted(_ROPE_REQUIRED[kind] - set(values)):
        raise FormatError(f"{where}: RoPE scaling {kind!r} lacks {', '.join(missing)}")
    _ROPE_READERS[kind](values, where, settings)


_ROPE_REQUIRED: dict[str, set[str]] = {
    "default": set(),
    "linear": {"factor"},
    "llama3": _ROPE_KEYS["llama3"],
    "yarn": {"factor"},
}


def _rope_default(values: Config, where: str, settings: Settings) -> None:
    """Nothing to set."""


def _rope_linear(values: Config, where: str, settings: Settings) -> None:
    settings.fields |= {"rope_type": ROPE_LINEAR, "rope_factor": float(values["factor"])}


def _rope_llama3(values: Config, where: str, settings: Settings) -> None:
    settings.fields |= {
        "rope_type": ROPE_LLAMA3,
        "rope_factor": float(values["factor"]),
        "rope_low_freq_factor": float(values["low_freq_factor"]),
        "rope_high_freq_factor": float(values["high_freq_factor"]),
        "rope_orig_max_seq": int(values["original_max_position_embeddings"]),
    }


def _rope_yarn(values: Config, where: str, settings: Settings) -> None:
    if not values.get("truncate", True):
        raise FormatError(f"{where}: yarn scaling with truncate false is not supported")
    factor = float(values["factor"])
    settings.fields |= {
        "rope_type": ROPE_YARN,
        "rope_factor": factor,
        "rope_low_freq_factor": float(values.get("beta_fast") or 32),
        "rope_high_freq_factor": float(values.get("beta_slow") or 1),
        "rope_orig_max_seq": int(
            values.get("original_max_position_embeddings") or settings.fields["max_seq"]
        ),
        "rope_attn_factor": float(values.get("attention_factor") or _attention_factor(factor, values)),
    }


def _attention_factor(factor: float, values: Config) -> float:
    """Yarn's factor on cosines and sines when the configuration does not name it, as transformers has it."""

    def magnitude(scale: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0

    mscale, all_dim = values.get("mscale"), values.get("mscale_all_dim")
    if mscale and all_dim:
        return magnitude(float(mscale)) / magnitude(float(all_dim))
    return magnitude(1.0)


_ROPE_READERS: dict[str, Reader] = {
    "default": _rope_default,
    "linear": _rope_linear,
    "llama3": _rope_llama3,
    "yarn": _rope_yarn,
}


def read_window(config: Config, where: str, settings: Settings) -> None:
    """A window on every layer, or on those that layer_types names."""
    window = config.get("sliding_window")
    types = config.get("layer_types")
    if types is None:
        types = ["sliding_attention"] * int(settings.fields["n_layers"])
    _set_windows(list(types), window, where, settings)


def read_qwen_window(config: Config, where: str, settings: Settings) -> None:
    """Qwen's window counts only with use_sliding_window, from layer max_window_layers on."""
    layers = int(settings.fields["n_layers"])
    window = config.get("sliding_window") if config.get("use_sliding_window") else None
    first = int(config.get("max_window_layers", 28))
    types = config.get("layer_types") if window else None
    if types is None:
        types = ["sliding_attention" if i >= first else "full_attention" for i in range(layers)]
    _set_windows(list(types), window, where, settings)


def _set_windows(types: list[str], window: int | None, where: str, settings: Settings) -> None:
    if unknown := sorted(set(types) - {"sliding_attention", "full_attention"}):
        raise FormatError(f"{where}: layer_types holds {', '.join(unknown)}, which is not supported")
    if len(types) != settings.fields["n_layers"]:
        raise FormatError(f"{where}: layer_types has {len(types)} entries, num_hidden_layers differs")
    if window is None or "sliding_attention" not in types:
        return
    settings.fields["sliding_window"] = int(window)
    if "full_attention" in types:
        settings.layer_flags = bytes(LAYER_WINDOW if t == "sliding_attention" else 0 for t in types)


_WINDOW_RULES: dict[str, Rule] = {"sliding_window": Special(), "layer_types": Special()}
_QWEN_RULES: dict[str, Rule] = {
    **_HF_RULES,
    **_WINDOW_RULES,
    "use_sliding_window": Special(),
    "max_window_layers": Special(),
    "use_mrope": Only((False, None)),
}
_HF_DEFAULTS: dict[str, int | float] = {"norm_eps": 1e-6}

_QWEN_READERS: tuple[Reader, ...] = (read_hf_rope, read_qwen_window)

HF: dict[str, Architecture] = {
    "llama": Architecture(
        rules=_HF_RULES,
        names=_HF_NAMES,
        defaults={**_HF_DEFAULTS, "max_seq": 2048},
        readers=(read_hf_rope,),
        halves=True,
        dropped=_HF_DROPPED,
    ),
    "mistral": Architecture(
        rules={**_HF_RULES, **_WINDOW_RULES},
        names=_HF_NAMES,
        defaults={**_HF_DEFAULTS, "n_kv_heads": 8},
        readers=(read_hf_rope, read_window),
        halves=True,
        dropped=_HF_DROPPED,
    ),
    "qwen2": Architecture(
        rules=_QWEN_RULES,
        names=_HF_NAMES,
        features={"qkv_bias": 1},
        defaults={**_HF_DEFAULTS, "n_kv_heads": 32},
        readers=_QWEN_READERS,
        halves=True,
        dropped=_HF_DROPPED,
    ),
    "qwen3": Architecture(
        rules=_QWEN_RULES,
        names=_HF_NAMES,
        features={"qk_norm": 1},
        defaults={**_HF_DEFAULTS, "n_kv_heads": 32, "head_dim": 128},
        readers=_QWEN_READERS,
        halves=True,
        dropped=_HF_DROPPED,
    ),
}


# --- GGUF: keys without the architecture's prefix

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
    for key in ("rope.dimension_count", "attention.value_length"):
        if config.get(key, head) != head:
            raise FormatError(f"{where}: {key} is {config[key]}, must be the head size ({head})")
    factor = float(config.get("rope.scaling.factor", config.get("rope.scale_linear", 1.0)))
    # A factor without a type means linear scaling, as llama.cpp reads it.
    kind = str(config.get("rope.scaling.type", "linear"))
    if kind == "none" or (kind == "linear" and factor in (0.0, 1.0)):
        return
    if kind == "linear":
        _rope_linear({"factor": factor}, where, settings)
    elif kind == "yarn":
        attention = float(config.get("rope.scaling.attn_factor", 1.0)) * _attention_factor(factor, {})
        values = {
            "factor": factor,
            "original_max_position_embeddings": config.get("rope.scaling.original_context_length"),
            "beta_fast": config.get("rope.scaling.yarn_beta_fast"),
            "beta_slow": config.get("rope.scaling.yarn_beta_slow"),
            "attention_factor": attention,
        }
        _rope_yarn(values, where, settings)
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


_GGUF_DEFAULTS: dict[str, int | float] = {"norm_eps": 1e-5}
_GGUF_READERS: tuple[Reader, ...] = (read_gguf_rope,)

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
}


# --- llama2.c: tensors already carry our names

_LLAMA2C_FIELDS = "dim hidden_dim n_layers n_heads n_kv_heads vocab max_seq shared_classifier"
LLAMA2C = {
    "llama2c": Architecture(
        rules={key: To(key) for key in _LLAMA2C_FIELDS.split()},
        names={name: name for name in _HF_NAMES if name.rpartition(".")[2] not in ("bq", "bk", "bv")},
    )
}
ARCHITECTURES: dict[str, dict[str, Architecture]] = {"hf": HF, "gguf": GGUF, "llama2c": LLAMA2C}
REQUIRED = ("dim", "n_layers", "n_heads", "hidden_dim", "max_seq")


def read_settings(architecture: Architecture, config: Config, where: str) -> Settings:
    """Apply the rules to a configuration."""
    if unknown := sorted(set(config) - set(architecture.rules)):
        keys = "key" if len(unknown) == 1 else "keys"
        raise FormatError(f"{where}: unknown configuration {keys} {', '.join(unknown)}")
    settings = Settings(dict(architecture.defaults))
    for key, value in config.items():
        rule = architecture.rules[key]
        if isinstance(rule, Only) and value not in rule.values:
            raise FormatError(f"{where}: {key} is {value!r}, only {rule.values[0]!r} is supported")
        if isinstance(rule, To) and value is not None:
            if not isinstance(value, int | float):
                raise FormatError(f"{where}: {key} is {value!r}, must be a number")
            settings.fields[rule.field] = int(value) if isinstance(value, bool) else value
    for name in REQUIRED:
        if name not in settings.fields:
            keys = " or ".join(k for k, r in architecture.rules.items() if r == To(name))
            raise FormatError(f"{where}: {keys} is missing")
        if settings.fields[name] <= 0:
            raise FormatError(f"{where}: {name} is {settings.fields[name]}, must be positive")
    if "num_key_value_heads" in architecture.rules and config.get("num_key_value_heads", 0) is None:
        settings.fields.pop("n_kv_heads", None)
    settings.fields.setdefault("n_kv_heads", settings.fields["n_heads"])
    settings.fields |= architecture.features
    try:
        for reader in architecture.readers:
            reader(config, where, settings)
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise FormatError(f"{where}: RoPE or window settings cannot be read: {error}") from error
    return settings
