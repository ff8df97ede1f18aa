"""The architectures of Hugging Face folders."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from krafla.tools.architectures import (
    ROPE_KEYS,
    ROPE_READERS,
    ROPE_REQUIRED,
    Architecture,
    Config,
    Only,
    Reader,
    Rule,
    Settings,
    Skip,
    Special,
    To,
    plus_one,
)
from krafla.tools.errors import FormatError
from krafla.tools.mlb import ACT_GELU, LAYER_LINEAR, LAYER_LOCAL_ROPE, LAYER_NO_ROPE, LAYER_WINDOW
from krafla.tools.orders import gated_queries, gates

SLIDING, FULL = "sliding_attention", "full_attention"
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


def read_hf_rope(config: Config, where: str, settings: Settings) -> None:
    """RoPE's base and scaling: rope_parameters, or the older rope_theta with rope_scaling."""
    scaling = dict(config.get("rope_scaling") or {}) | dict(config.get("rope_parameters") or {})
    _read_scaling(scaling, config.get("rope_theta"), where, settings)


def _read_scaling(scaling: dict[str, Any], theta: Any, where: str, settings: Settings) -> None:
    theta = scaling.pop("rope_theta", theta)
    settings.fields["rope_theta"] = float(settings.fields.get("rope_theta", 1e4) if theta is None else theta)
    kinds = {str(scaling.pop(key)) for key in ("rope_type", "type") if key in scaling}
    kind = kinds.pop() if kinds else "default"
    if kinds or kind not in ROPE_KEYS:
        raise FormatError(f"{where}: RoPE scaling {kind!r} is not supported, only {', '.join(ROPE_KEYS)}")
    partial = scaling.pop("partial_rotary_factor", 1.0)
    if partial != 1.0:
        raise FormatError(f"{where}: partial_rotary_factor is {partial}, must be 1 for this architecture")
    if unknown := sorted(set(scaling) - ROPE_KEYS[kind]):
        raise FormatError(f"{where}: unknown keys of RoPE scaling {kind!r}: {', '.join(unknown)}")
    values = {key: value for key, value in scaling.items() if value is not None}
    if missing := sorted(ROPE_REQUIRED[kind] - set(values)):
        raise FormatError(f"{where}: RoPE scaling {kind!r} lacks {', '.join(missing)}")
    ROPE_READERS[kind](values, where, settings)


def read_window(config: Config, where: str, settings: Settings) -> None:
    """A window on every layer, or on those that layer_types names."""
    window = config.get("sliding_window")
    types = config.get("layer_types")
    if types is None:
        types = [SLIDING] * int(settings.fields["n_layers"])
    _set_windows(list(types), window, where, settings)


def read_qwen_window(config: Config, where: str, settings: Settings) -> None:
    """Qwen's window counts only with use_sliding_window, from layer max_window_layers on."""
    layers = int(settings.fields["n_layers"])
    window = config.get("sliding_window") if config.get("use_sliding_window") else None
    first = int(config.get("max_window_layers", 28))
    types = config.get("layer_types") if window else None
    if types is None:
        types = [SLIDING if i >= first else FULL for i in range(layers)]
    _set_windows(list(types), window, where, settings)


def _set_windows(types: list[str], window: int | None, where: str, settings: Settings) -> None:
    _check_types(types, "layer_types", (SLIDING, FULL), where, int(settings.fields["n_layers"]))
    if window is None or SLIDING not in types:
        return
    settings.fields["sliding_window"] = int(window)
    if FULL in types:
        settings.layer_flags = bytes(LAYER_WINDOW if t == SLIDING else 0 for t in types)


def read_smollm3_layers(config: Config, where: str, settings: Settings) -> None:
    """Layers without RoPE, and with use_sliding_window a window on those that layer_types names."""
    layers = int(settings.fields["n_layers"])
    rotated = config.get("no_rope_layers")  # 1 where there is RoPE, in spite of its name
    if rotated is None:
        interval = int(config.get("no_rope_layer_interval", 4))
        rotated = [(i + 1) % interval != 0 for i in range(layers)]
    _check_types(rotated, "no_rope_layers", (0, 1), where, layers)
    window = config.get("sliding_window") if config.get("use_sliding_window") else None
    types = config.get("layer_types")
    if types is None:
        types = [FULL if rope or window is None else SLIDING for rope in rotated]
    _check_types(types, "layer_types", (SLIDING, FULL), where, layers)
    flags = [0 if rope else LAYER_NO_ROPE for rope in rotated]
    if window is not None:
        settings.fields["sliding_window"] = int(window)
        flags = [f | (LAYER_WINDOW if t == SLIDING else 0) for f, t in zip(flags, types, strict=True)]
    settings.layer_flags = bytes(flags) if any(flags) else b""


def read_gemma_layers(pattern: int, local: bool) -> Reader:
    """Windows on all layers but every `pattern`th; with `local`, those layers have a RoPE base of their own."""

    def read(config: Config, where: str, settings: Settings) -> None:
        layers = int(settings.fields["n_layers"])
        types = config.get("layer_types")
        if types is None:
            every = config.get("sliding_window_pattern") or config.get("_sliding_window_pattern") or pattern
            types = [SLIDING if (i + 1) % int(every) else FULL for i in range(layers)]
        _check_types(types, "layer_types", (SLIDING, FULL), where, layers)
        flag = LAYER_WINDOW | LAYER_LOCAL_ROPE if local else LAYER_WINDOW
        settings.layer_flags = bytes(flag if t == SLIDING else 0 for t in types)

    return read


def read_gemma_scales(config: Config, where: str, settings: Settings) -> None:
    """Factors on embeddings and scores."""
    settings.fields["embed_scale"] = float(np.float32(math.sqrt(settings.fields["dim"])))
    settings.fields["attn_scale"] = float(config.get("query_pre_attn_scalar", 256)) ** -0.5


def read_gemma3_rope(config: Config, where: str, settings: Settings) -> None:
    """A base for layers with a window, never scaled, and one for the others; by layer type in newer files."""
    by_type = dict(config.get("rope_parameters") or {})
    if unknown := sorted(set(by_type) - {SLIDING, FULL}):
        raise FormatError(f"{where}: rope_parameters holds {', '.join(unknown)}, must go by layer types")
    local = dict(by_type.get(SLIDING) or {})
    theta = local.pop("rope_theta", config.get("rope_local_base_freq"))
    if {**local, "rope_type": local.get("rope_type", "default")} != {"rope_type": "default"}:
        raise FormatError(f"{where}: RoPE scaling of {SLIDING} is not supported")
    settings.fields["rope_local_theta"] = 1e4 if theta is None else float(theta)
    scaling = dict(config.get("rope_scaling") or {}) | dict(by_type.get(FULL) or {})
    _read_scaling(scaling, config.get("rope_theta"), where, settings)


def read_qwen35_rope(config: Config, where: str, settings: Settings) -> None:
    """Partial rotation; for text, the sections of multimodal positions all say the same position."""
    scaling = dict(config.get("rope_scaling") or {}) | dict(config.get("rope_parameters") or {})
    for key in ("mrope_section", "mrope_interleaved"):
        scaling.pop(key, None)
    partial = float(scaling.pop("partial_rotary_factor", config.get("partial_rotary_factor", 0.25)))
    _read_scaling(scaling, config.get("rope_theta"), where, settings)
    rotated = int(settings.fields["head_dim"] * partial)
    settings.fields["rot_dim"] = 0 if rotated == settings.fields["head_dim"] else rotated


def read_qwen35_layers(config: Config, where: str, settings: Settings) -> None:
    """Linear attention on all layers but every fourth, or as layer_types says."""
    layers = int(settings.fields["n_layers"])
    types = config.get("layer_types")
    if types is None:
        every = int(config.get("full_attention_interval", 4))
        types = ["linear_attention" if (i + 1) % every else FULL for i in range(layers)]
    _check_types(types, "layer_types", ("linear_attention", FULL), where, layers)
    settings.layer_flags = bytes(0 if t == FULL else LAYER_LINEAR for t in types)


def _check_types(values: Any, key: str, known: tuple[Any, ...], where: str, layers: int) -> None:
    if unknown := sorted({str(value) for value in values if value not in known}):
        raise FormatError(f"{where}: {key} holds {', '.join(unknown)}, which is not supported")
    if len(values) != layers:
        raise FormatError(f"{where}: {key} has {len(values)} entries, num_hidden_layers differs")


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

_GEMMA_NORMS = dict.fromkeys(
    ["attn_norm", "ffn_norm", "post_attn_norm", "post_ffn_norm", "q_norm", "k_norm", "final_norm"], plus_one
)
_GEMMA_NAMES = {
    **_HF_NAMES,
    "layers.{i}.ffn_norm": "model.layers.{i}.pre_feedforward_layernorm.weight",
    "layers.{i}.post_attn_norm": "model.layers.{i}.post_attention_layernorm.weight",
    "layers.{i}.post_ffn_norm": "model.layers.{i}.post_feedforward_layernorm.weight",
}
_GELU = Only(("gelu_pytorch_tanh",))
_GEMMA_RULES: dict[str, Rule] = {
    **_HF_RULES,
    "hidden_act": _GELU,
    "hidden_activation": _GELU,
    "cache_implementation": Skip(),
    "query_pre_attn_scalar": Special(),
    "sliding_window": To("sliding_window"),
    "layer_types": Special(),
    "attn_logit_softcapping": To("attn_softcap", null=0.0),
    "final_logit_softcapping": To("final_softcap", null=0.0),
    "use_bidirectional_attention": Only((False, None)),
}
_GEMMA3_RULES: dict[str, Rule] = {
    **_GEMMA_RULES,
    "attn_logit_softcapping": Only((None,)),  # transformers does not apply it either
    "rope_local_base_freq": Special(),
    "sliding_window_pattern": Special(),
    "_sliding_window_pattern": Special(),
}
_GEMMA_DEFAULTS: dict[str, int | float] = {
    **_HF_DEFAULTS,
    "n_heads": 8,
    "n_kv_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
    "shared_classifier": 1,
}
_GEMMA_FEATURES = {"act": ACT_GELU, "post_norms": 1}

# Keys around a nested text model that concern images and video only.
_MULTIMODAL: dict[str, Rule] = {
    **dict.fromkeys(_HF_SKIPPED.split(), Skip()),
    **dict.fromkeys(
        [
            "boi_token_index",
            "eoi_token_index",
            "image_token_index",
            "mm_tokens_per_image",
            "image_token_id",
            "video_token_id",
            "vision_start_token_id",
            "vision_end_token_id",
            "vision_config",
        ],
        Skip(),
    ),
    "tie_word_embeddings": To("shared_classifier"),
}
_NESTED_RENAMES = (
    ("language_model.model.", "model."),
    ("model.language_model.", "model."),
    ("language_model.lm_head.", "lm_head."),
)
_VISION = (
    r"(model\.)?(visual|vision_tower|multi_modal_projector)\..*",
    *_HF_DROPPED,
)

_GEMMA3 = Architecture(
    rules=_GEMMA3_RULES,
    names=_GEMMA_NAMES,
    features={**_GEMMA_FEATURES, "qk_norm": 1},
    defaults={**_GEMMA_DEFAULTS, "max_seq": 131072, "rope_theta": 1e6},
    readers=(read_gemma_scales, read_gemma3_rope, read_gemma_layers(6, local=True)),
    halves=True,
    dropped=_VISION,
    nested="text_config",
    outer=_MULTIMODAL,
    renames=_NESTED_RENAMES,
    values=_GEMMA_NORMS,
    q4_rule="round",
)

_LINEAR = "model.layers.{i}.linear_attn."
_QWEN35_NAMES = {
    **_HF_NAMES,
    "layers.{i}.wg": "model.layers.{i}.self_attn.q_proj.weight",
    "layers.{i}.lqkv": _LINEAR + "in_proj_qkv.weight",
    "layers.{i}.lz": _LINEAR + "in_proj_z.weight",
    "layers.{i}.lb": _LINEAR + "in_proj_b.weight",
    "layers.{i}.la": _LINEAR + "in_proj_a.weight",
    "layers.{i}.lconv": _LINEAR + "conv1d.weight",
    "layers.{i}.dt_bias": _LINEAR + "dt_bias",
    "layers.{i}.a_log": _LINEAR + "A_log",
    "layers.{i}.lnorm": _LINEAR + "norm.weight",
    "layers.{i}.lout": _LINEAR + "out_proj.weight",
}
_QWEN35 = Architecture(
    rules={
        **_HF_RULES,
        "layer_types": Special(),
        "full_attention_interval": Special(),
        "partial_rotary_factor": Special(),
        "attn_output_gate": Only((True,)),
        "linear_num_key_heads": To("lin_k_heads"),
        "linear_num_value_heads": To("lin_v_heads"),
        "linear_key_head_dim": To("lin_k_dim"),
        "linear_value_head_dim": To("lin_v_dim"),
        "linear_conv_kernel_dim": To("lin_conv"),
        "mlp_only_layers": Only(([], None)),
        "output_gate_type": Only(("swish", None)),
        "mamba_ssm_dtype": Skip(),
        "mtp_num_hidden_layers": Skip(),
        "mtp_use_dedicated_embeddings": Skip(),
    },
    names=_QWEN35_NAMES,
    features={"qk_norm": 1, "attn_gate": 1},
    defaults={
        **_HF_DEFAULTS,
        "n_heads": 16,
        "n_kv_heads": 4,
        "head_dim": 256,
        "max_seq": 32768,
        "lin_k_heads": 16,
        "lin_v_heads": 32,
        "lin_k_dim": 128,
        "lin_v_dim": 128,
        "lin_conv": 4,
    },
    readers=(read_qwen35_rope, read_qwen35_layers),
    halves=True,
    dropped=(*_VISION, r"mtp\..*"),
    nested="text_config",
    outer=_MULTIMODAL,
    renames=_NESTED_RENAMES,
    orders={"wq": gated_queries, "wg": gates},
    times={"wq": 2, "wg": 2},
    values=dict.fromkeys(["attn_norm", "ffn_norm", "q_norm", "k_norm", "final_norm"], plus_one),
)

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
    "smollm3": Architecture(
        rules={
            **_HF_RULES,
            **_WINDOW_RULES,
            "use_sliding_window": Special(),
            "max_window_layers": Skip(),
            "no_rope_layers": Special(),
            "no_rope_layer_interval": Special(),
        },
        names=_HF_NAMES,
        defaults={
            **_HF_DEFAULTS,
            "n_kv_heads": 4,
            "max_seq": 32768,
            "rope_theta": 2e6,
            "shared_classifier": 1,
        },
        readers=(read_hf_rope, read_smollm3_layers),
        halves=True,
        dropped=_HF_DROPPED,
    ),
    "gemma2": Architecture(
        rules=_GEMMA_RULES,
        names=_GEMMA_NAMES,
        features=_GEMMA_FEATURES,
        defaults={**_GEMMA_DEFAULTS, "max_seq": 8192, "attn_softcap": 50.0, "final_softcap": 30.0},
        readers=(read_hf_rope, read_gemma_scales, read_gemma_layers(2, local=False)),
        halves=True,
        dropped=_HF_DROPPED,
        values=_GEMMA_NORMS,
    ),
    "gemma3_text": _GEMMA3,
    "gemma3": _GEMMA3,
    "qwen3_5_text": _QWEN35,
    "qwen3_5": _QWEN35,
}
