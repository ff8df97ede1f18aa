"""Random transformers models, converted and run by the reference forward pass: the same logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from krafla.tools.convert import Options, convert
from krafla.tools.gen_random import random_grid
from krafla.tools.mlb import LAYER_LOCAL_ROPE, LAYER_WINDOW, Q8_0, Header, Model, Writer
from krafla.tools.ref_forward import forward

torch = pytest.importorskip("torch", reason="the parity extra is not installed")
transformers = pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

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
}


def random_model(kind: str, config: Any) -> Any:
    """A model whose matrices lie on the Q8_0 grid, and whose vectors are not trivial."""
    rng = np.random.default_rng(7)
    net = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if weight.ndim == 2 and weight.shape[1] % 32 == 0:
                spread = 1.0 if "embed" in name else 1.5 / weight.shape[1] ** 0.5
                values = random_grid(rng, weight.shape[0], weight.shape[1], spread, Q8_0)
            elif weight.ndim == 2:  # padded when it is converted: the last block is partly zeros
                width = -(-weight.shape[1] // 32) * 32
                full = random_grid(rng, weight.shape[0], width, 0.15, Q8_0)
                # The element that fixes the scale must survive the cut.
                full[:, -32] = np.abs(full[:, -32:]).max(axis=1)
                values = full[:, : weight.shape[1]]
            else:
                values = rng.standard_normal(weight.shape).astype(np.float32) * 0.1
                values += 1 if "norm" in name and "Gemma" not in kind else 0
            weight.copy_(torch.from_numpy(np.ascontiguousarray(values)))
    return net


def logits_of(net: Any, ids: list[int]) -> npt.NDArray[np.float32]:
    with torch.no_grad():
        out: npt.NDArray[np.float32] = net(torch.tensor([ids])).logits[0].numpy()
    return out


def token_ids() -> list[int]:
    return [int(i) for i in np.random.default_rng(8).integers(0, 300, 40)]


@pytest.mark.parametrize("name", CASES)
def test_converted_model_equals_transformers(name: str, tmp_path: Path) -> None:
    kind, changes = CASES[name]
    config = getattr(transformers, f"{kind}Config")(**{**SMALL, **changes})
    net = random_model(kind, config)
    net.save_pretrained(tmp_path / "hf")
    convert(tmp_path / "hf", tmp_path / "m.mlb", Options(tokenizer=False))
    ids = token_ids()
    expected = logits_of(net, ids)
    logits = forward(Model(tmp_path / "m.mlb"), ids)
    assert np.abs(logits - expected).max() <= 1e-4 * np.abs(expected).max()


def test_shards_and_other_types(tmp_path: Path) -> None:
    net = random_model("Llama", transformers.LlamaConfig(**SMALL)).to(torch.bfloat16)
    net.save_pretrained(tmp_path / "hf", max_shard_size="100KB")
    assert len(list((tmp_path / "hf").glob("*.safetensors"))) > 1
    convert(tmp_path / "hf", tmp_path / "m.mlb", Options(tokenizer=False))
    m = Model(tmp_path / "m.mlb")
    stored = net.model.layers[2].mlp.down_proj.weight.detach().float().numpy()
    assert np.abs(m.values("layers.2.w2") - stored).max() <= np.abs(stored).max() / 127 / 2 * 1.0001


# --- Gemma: not yet converted, but the format and the reference forward pass know its features


def write_gemma(net: Any, path: Path, header: Header, flags: bytes, qk_norm: bool) -> None:
    state = {name: weight.detach().numpy() for name, weight in net.state_dict().items()}
    names = {
        "attn_norm": "input_layernorm",
        "wq": "self_attn.q_proj",
        "wk": "self_attn.k_proj",
        "wv": "self_attn.v_proj",
        "wo": "self_attn.o_proj",
        "ffn_norm": "pre_feedforward_layernorm",
        "w1": "mlp.gate_proj",
        "w2": "mlp.down_proj",
        "w3": "mlp.up_proj",
        "post_attn_norm": "post_attention_layernorm",
        "post_ffn_norm": "post_feedforward_layernorm",
    }
    if qk_norm:
        names |= {"q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm"}
    order = np.arange(header.head_size).reshape(2, -1).T.ravel()  # halves to pairs
    with Writer(path, header, flags) as writer:
        writer.write("tok_emb", state["model.embed_tokens.weight"])
        writer.write("final_norm", 1 + state["model.norm.weight"])
        for i in range(header.n_layers):
            for ours, theirs in names.items():
                values = state[f"model.layers.{i}.{theirs}.weight"]
                if "norm" in ours:
                    values = 1 + values
                if ours in ("wq", "wk", "q_norm", "k_norm"):
                    shape = values.shape
                    heads = values.reshape(-1, header.head_size, *shape[1:])
                    values = heads[:, order].reshape(shape)
                writer.write(f"layers.{i}.{ours}", values)


def gemma_header(config: Any, **more: Any) -> Header:
    return Header(
        dim=config.hidden_size,
        n_layers=config.num_hidden_layers,
        n_heads=config.num_attention_heads,
        n_kv_heads=config.num_key_value_heads,
        hidden_dim=config.intermediate_size,
        vocab=config.vocab_size,
        max_seq=config.max_position_embeddings,
        head_dim=config.head_dim,
        norm_eps=config.rms_norm_eps,
        shared_classifier=1,
        act=1,
        post_norms=1,
        embed_scale=config.hidden_size**0.5,
        attn_scale=config.query_pre_attn_scalar**-0.5,
        sliding_window=config.sliding_window,
        **more,
    )


def test_gemma2(tmp_path: Path) -> None:
    config = transformers.Gemma2Config(
        **{**SMALL, "head_dim": 32, "query_pre_attn_scalar": 24, "sliding_window": 8},
        attn_logit_softcapping=4.0,
        final_logit_softcapping=6.0,
    )
    net = random_model("Gemma2", config)
    header = gemma_header(config, attn_softcap=4.0, final_softcap=6.0)
    flags = bytes(LAYER_WINDOW if t == "sliding_attention" else 0 for t in config.layer_types)
    assert sorted(set(flags)) == [0, 1]
    write_gemma(net, tmp_path / "m.mlb", header, flags, qk_norm=False)
    ids = token_ids()
    expected = logits_of(net, ids)
    assert np.abs(forward(Model(tmp_path / "m.mlb"), ids) - expected).max() <= 1e-4 * np.abs(expected).max()


def test_gemma3(tmp_path: Path) -> None:
    config = transformers.Gemma3TextConfig(
        **{**SMALL, "head_dim": 32, "query_pre_attn_scalar": 24, "sliding_window": 8},
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 5e3},
            "full_attention": {"rope_type": "linear", "rope_theta": 2e5, "factor": 8.0},
        },
    )
    net = random_model("Gemma3", config)
    header = gemma_header(
        config, qk_norm=1, rope_theta=2e5, rope_local_theta=5e3, rope_type=2, rope_factor=8.0
    )
    flags = bytes(
        LAYER_WINDOW | LAYER_LOCAL_ROPE if t == "sliding_attention" else 0 for t in config.layer_types
    )
    write_gemma(net, tmp_path / "m.mlb", header, flags, qk_norm=True)
    ids = token_ids()
    expected = logits_of(net, ids)
    assert np.abs(forward(Model(tmp_path / "m.mlb"), ids) - expected).max() <= 1e-4 * np.abs(expected).max()
