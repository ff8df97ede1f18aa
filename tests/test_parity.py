"""Random transformers models, converted and run by the reference forward pass: the same logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from krafla.tools.convert import Options, convert
from krafla.tools.gen_random import random_grid
from krafla.tools.mlb import Q4_0, Q8_0, Model
from krafla.tools.ref_forward import forward
from tests.engines import Engine

torch = pytest.importorskip("torch", reason="the parity extra is not installed")
transformers = pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

PLAIN = Options(tokenizer=False)
SMALL: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "attn_implementation": "eager",
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}
GEMMA = {"head_dim": 32, "query_pre_attn_scalar": 24, "sliding_window": 8, "pad_token_id": 0}
GEMMA3 = {
    **GEMMA,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 5e3},
        "full_attention": {"rope_type": "linear", "rope_theta": 2e5, "factor": 8.0},
    },
}
QWEN35 = {
    "num_hidden_layers": 4,
    "head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 24,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1e6,
        "partial_rotary_factor": 0.25,
        "mrope_section": [2, 1, 1],
        "mrope_interleaved": True,
    },
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama-tied": ("Llama", {"tie_word_embeddings": True}),
    "llama-own-head": ("Llama", {"head_dim": 32}),
    "llama3": ("Llama", {"rope_parameters": LLAMA3}),
    "llama-linear": (
        "Llama",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 5e4, "factor": 2.5}},
    ),
    "llama-padded": ("Llama", {"intermediate_size": 84}),
    "yarn": ("Llama", {"rope_parameters": YARN}),
    "yarn-mscale": ("Llama", {"rope_parameters": {**YARN, "mscale": 1.3, "mscale_all_dim": 0.7}}),
    "yarn-betas": (
        "Llama",
        {"rope_parameters": {**YARN, "beta_fast": 8, "beta_slow": 2, "attention_factor": 1.2}},
    ),
    "mistral": ("Mistral", {"sliding_window": 11}),
    "qwen2": ("Qwen2", {}),
    "qwen2-window": ("Qwen2", {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {"head_dim": 32, "tie_word_embeddings": True}),
    "smollm3": ("SmolLM3", {"num_hidden_layers": 5, "pad_token_id": 0, "tie_word_embeddings": True}),
    "smollm3-window": (
        "SmolLM3",
        {
            "num_hidden_layers": 5,
            "pad_token_id": 0,
            "no_rope_layer_interval": 2,
            "use_sliding_window": True,
            "sliding_window": 9,
            "tie_word_embeddings": False,
        },
    ),
    "gemma2": ("Gemma2", {**GEMMA, "attn_logit_softcapping": 4.0, "final_logit_softcapping": 6.0}),
    "gemma2-no-caps": (
        "Gemma2",
        {**GEMMA, "attn_logit_softcapping": None, "final_logit_softcapping": None},
    ),
    "gemma3": ("Gemma3", GEMMA3),
    "gemma3-pattern": ("Gemma3", {**GEMMA, "num_hidden_layers": 7}),
    "gemma3-cap": ("Gemma3", {**GEMMA3, "final_logit_softcapping": 5.0}),
    "qwen3.5": ("Qwen3_5", QWEN35),
    "qwen3.5-tied": (
        "Qwen3_5",
        {
            **QWEN35,
            "tie_word_embeddings": True,
            "linear_num_key_heads": 4,
            "linear_conv_kernel_dim": 3,
            "layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention"],
        },
    ),
}
TEXT_CONFIGS = {"Gemma3": "Gemma3TextConfig", "Qwen3_5": "Qwen3_5TextConfig"}
# Types and classes that stay Q8_0, for models that have every kind of matrix.
Q4_CASES = ["llama", "llama-padded", "gemma2", "gemma3", "qwen3.5", "qwen3.5-tied"]
Q8_CLASSES = ("tok_emb", "wv", "w2")
CLASS_OF = {
    "embed_tokens": "tok_emb",
    "lm_head": "wcls",
    "q_proj": "wq",
    "k_proj": "wq",
    "in_proj_qkv": "wq",
    "v_proj": "wv",
    "in_proj_z": "wv",
    "o_proj": "wo",
    "out_proj": "wo",
    "gate_proj": "w1",
    "up_proj": "w1",
    "down_proj": "w2",
}


def random_model(kind: str, config: Any, options: Options | None = None, suffix: str = "CausalLM") -> Any:
    """A model whose matrices lie on the grid of their type, and whose vectors are not trivial."""
    rng = np.random.default_rng(7)
    net = getattr(transformers, f"{kind}For{suffix}")(config).eval()
    with torch.no_grad():
        for name, weight in net.named_parameters():
            values = random_weight(rng, name, tuple(weight.shape), options or Options(), "Gemma" in kind)
            weight.copy_(torch.from_numpy(np.ascontiguousarray(values)).reshape(weight.shape))
    return net


def random_weight(
    rng: np.random.Generator, name: str, shape: tuple[int, ...], options: Options, offset_norms: bool
) -> npt.NDArray[np.float32]:
    if len(shape) != 2:
        values = rng.standard_normal(shape).astype(np.float32) * (0.5 if "conv" in name else 0.1)
        plain = "linear_attn.norm" in name or not (offset_norms or "Qwen3_5" in name)
        return values + 1 if "norm" in name and plain else values
    short = CLASS_OF.get(name.split(".")[-2], "")
    kind = Q4_0 if options.type == "q4_0" and short and short not in options.q8 else Q8_0
    spread = 1.0 if "embed" in name else 1.5 / shape[1] ** 0.5
    width = -(-shape[1] // 32) * 32
    full = random_grid(rng, shape[0], width, spread, kind)
    if (
        width != shape[1]
    ):  # padded when it is converted: the element that fixes the scale must survive the cut
        largest = np.abs(full[:, -32:]).argmax(axis=1)
        rows = np.arange(shape[0])
        full[:, -32], full[rows, width - 32 + largest] = full[rows, width - 32 + largest], full[:, -32].copy()
    return full[:, : shape[1]]


def logits_of(net: Any, ids: list[int]) -> npt.NDArray[np.float32]:
    with torch.no_grad():
        out: npt.NDArray[np.float32] = net(torch.tensor([ids])).logits[0].numpy()
    return out


def token_ids() -> list[int]:
    return [int(i) for i in np.random.default_rng(8).integers(0, 300, 80)]


def config_of(name: str) -> tuple[str, Any]:
    kind, changes = CASES[name]
    config = getattr(transformers, TEXT_CONFIGS.get(kind, f"{kind}Config"))
    return kind, config(**{**SMALL, **changes})


def assert_same_logits(net: Any, folder: Path, options: Options = PLAIN) -> Model:
    """Converted, the model gives transformers' logits before and after every boundary; the engine those of *exact*."""
    net.save_pretrained(folder / "hf")
    convert(folder / "hf", folder / "m.mlb", options)
    model = Model(folder / "m.mlb")
    ids = token_ids()
    expected = logits_of(net, ids)
    error = np.abs(forward(model, ids) - expected).max(axis=1)
    assert (error <= 1e-4 * np.abs(expected).max(axis=1)).all()
    with Engine(model.path, "scalar") as engine:
        logits = engine.logits(ids)
    assert np.array_equal(logits.view(np.uint32), forward(model, ids, "exact").view(np.uint32))
    return model


@pytest.mark.parametrize("name", CASES)
def test_converted_model_equals_transformers(name: str, tmp_path: Path) -> None:
    kind, config = config_of(name)
    assert_same_logits(random_model(kind, config), tmp_path)


@pytest.mark.parametrize("q8", [(), Q8_CLASSES], ids=["q4", "mixed"])
@pytest.mark.parametrize("name", Q4_CASES)
def test_q4_grid(name: str, q8: tuple[str, ...], tmp_path: Path) -> None:
    options = Options(type="q4_0", q8=q8, tokenizer=False)
    kind, config = config_of(name)
    model = assert_same_logits(random_model(kind, config, options), tmp_path, options)
    assert model.tensors["layers.0.w1"].kind == Q4_0


VISION = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2}


@pytest.mark.parametrize("name", ["gemma3", "qwen3.5"])
def test_nested_configuration(name: str, tmp_path: Path) -> None:
    kind, text = config_of(name)
    if kind == "Gemma3":
        vision = {
            **VISION,
            "num_hidden_layers": 1,
            "image_size": 28,
            "patch_size": 14,
            "model_type": "siglip_vision_model",
        }
        config = transformers.Gemma3Config(
            text_config=text.to_dict(), vision_config=vision, mm_tokens_per_image=4
        )
    else:
        vision = {**VISION, "depth": 1, "num_heads": 2, "out_hidden_size": 64, "num_position_embeddings": 16}
        vision.pop("num_attention_heads")
        config = transformers.Qwen3_5Config(text_config=text.to_dict(), vision_config=vision)
    net = random_model(kind, config, suffix="ConditionalGeneration")
    net.config.tie_word_embeddings = kind == "Gemma3"
    assert_same_logits(net, tmp_path)


def test_shards_and_other_types(tmp_path: Path) -> None:
    net = random_model("Llama", transformers.LlamaConfig(**SMALL)).to(torch.bfloat16)
    net.save_pretrained(tmp_path / "hf", max_shard_size="100KB")
    assert len(list((tmp_path / "hf").glob("*.safetensors"))) > 1
    convert(tmp_path / "hf", tmp_path / "m.mlb", Options(tokenizer=False))
    m = Model(tmp_path / "m.mlb")
    stored = net.model.layers[2].mlp.down_proj.weight.detach().float().numpy()
    assert np.abs(m.values("layers.2.w2") - stored).max() <= np.abs(stored).max() / 127 / 2 * 1.0001
