"""Measures how close the engine's logits are to float32 transformers, and writes docs/quality.md.

Needs the parity extra. For each GGUF file, the float model is transformers with the file's weights in float32;
beside the engine stands the same model with weights and activations quantized to Q8_0 inside it, which shows what
quantization alone costs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from krafla.tools.architectures_hf import HF
from krafla.tools.closeness import Array, figures
from krafla.tools.convert import Copy, Options, Plan, convert
from krafla.tools.errors import UsageError
from krafla.tools.mlb import LAYER_WINDOW, Header
from krafla.tools.quantize import dequantize, quantize_q8_0
from krafla.tools.sources import open_source

_FAMILIES = {"llama": ("llama", "Llama"), "gemma3": ("gemma3_text", "Gemma3")}


@dataclass
class Closeness:
    """Logits compared with those of the float model, over all positions."""

    agreement: float = 0.0  # positions at which both hold the same token the likeliest
    error: float = 0.0  # mean absolute difference
    spread: float = 0.0  # standard deviation of the float model's logits
    nats: float = 0.0  # mean negative log likelihood of the text's next token
    float_nats: float = 0.0

    @property
    def perplexity(self) -> float:
        """Of the text."""
        return float(np.exp(self.nats))


def float_model(path: Path) -> tuple[Any, Header]:
    """Transformers' model with a GGUF file's weights in float32, and the header of its conversion."""
    import torch
    import transformers

    source = open_source(path)
    if source.architecture not in _FAMILIES:
        raise UsageError(
            f"{path}: {source.architecture} is not among the families measured: {', '.join(_FAMILIES)}"
        )
    kind, name = _FAMILIES[source.architecture]
    plan = Plan.make(source, Options(tokenizer=False))
    h = plan.header
    config = getattr(transformers, f"{name}TextConfig" if kind.endswith("_text") else f"{name}Config")
    net = getattr(transformers, f"{name}ForCausalLM")(config(**_config(h, plan.layer_flags))).eval()
    state = {theirs: torch.from_numpy(values) for theirs, values in _theirs(plan, kind)}
    if h.shared_classifier:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    net.load_state_dict(state)
    return net, h


def _config(h: Header, flags: bytes) -> dict[str, Any]:
    config: dict[str, Any] = {
        "hidden_size": h.dim,
        "intermediate_size": h.hidden_dim,
        "num_hidden_layers": h.n_layers,
        "num_attention_heads": h.n_heads,
        "num_key_value_heads": h.n_kv_heads,
        "head_dim": h.head_size,
        "vocab_size": h.vocab,
        "max_position_embeddings": h.max_seq,
        "rms_norm_eps": h.norm_eps,
        "tie_word_embeddings": bool(h.shared_classifier),
        "attn_implementation": "eager",
        "rope_parameters": {"rope_type": "default", "rope_theta": h.rope_theta},
    }
    if flags:
        local = {"rope_type": "default", "rope_theta": h.rope_local_theta}
        config |= {
            "sliding_window": h.sliding_window,
            "query_pre_attn_scalar": round(h.attn_scale**-2),
            "layer_types": ["sliding_attention" if f & LAYER_WINDOW else "full_attention" for f in flags],
            "rope_parameters": {"full_attention": config["rope_parameters"], "sliding_attention": local},
        }
    return config


def _theirs(plan: Plan, kind: str) -> Iterator[tuple[str, Array]]:
    """The weights under Hugging Face's names, in its order."""
    architecture = HF[kind]
    for tensor, origin in plan.pairs():
        layer, _, short = tensor.name.rpartition(".")
        theirs = architecture.names[f"layers.{{i}}.{short}" if layer else short].format(
            i=layer.split(".")[-1]
        )
        ours: Array = Copy.make(tensor, origin, plan).values(0, tensor.rows)
        values = ours if tensor.rows > 1 else ours[0]
        if order := architecture.order(short, plan.header):
            index = order(plan.header, len(values))
            values, ours = np.empty_like(values), values
            values[index] = ours
        yield theirs, np.ascontiguousarray(values - 1 if short in architecture.values else values)


def quantize_inside(net: Any) -> None:
    """Round all matrices, and what goes into products, to Q8_0."""
    import torch

    def rounded(values: Any) -> Any:
        rows = np.ascontiguousarray(values.detach().reshape(-1, values.shape[-1]).numpy())
        return torch.from_numpy(dequantize(*quantize_q8_0(rows))).reshape(values.shape)

    def round_input(module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (rounded(inputs[0]), *inputs[1:])

    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.ndim == 2:
                parameter.copy_(rounded(parameter))
    for module in net.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(round_input)


def logits_of(net: Any, ids: list[int]) -> Array:
    """All logits, the classifier in pieces so that it does not need the memory of two copies."""
    import torch

    with torch.inference_mode():
        out: Array = net(torch.tensor([ids])).logits[0].numpy()
    return out


def compare(logits: Array, reference: Array, ids: list[int]) -> Closeness:
    """How close logits are to the reference's."""
    found = figures(logits, ids[1:], reference)
    return Closeness(
        agreement=float(found["agreement"].mean()),
        error=float(found["error"].mean()),
        spread=float(found["spread"].mean()),
        nats=float(found["nats"][:-1].mean()),
        float_nats=float(found["reference_nats"][:-1].mean()),
    )


def kv_divergence(mlb: Path, ids: list[int], kv: str) -> tuple[float, float]:
    """Mean divergence from the f32 cache over all positions, and over the last eighth of them."""
    from krafla import Model

    with Model.load(mlb, ctx=len(ids)) as plain, Model.load(mlb, ctx=len(ids), kv=kv) as other:
        parts = zip(plain.logits_in_parts(ids), other.logits_in_parts(ids), strict=True)
        found = np.concatenate([figures(q, (), p)["divergence"] for p, q in parts])
    return float(found.mean()), float(found[-(len(ids) // 8) :].mean())


_MEMORY = """
import ctypes, json, re, sys
from krafla import Model
from krafla.runtime.engine import engine

def kilobytes(name):
    return int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1])

path, kv, ids = sys.argv[1], sys.argv[2], json.loads(sys.stdin.read())
engine(None)
import numpy
told = []
before = kilobytes("VmRSS")
model = Model.load(path, ctx=len(ids), kv=kv, announce=told.append)
for part in model.logits_in_parts(ids, 8): pass
print(json.dumps([kilobytes("VmHWM") - before, told[0]]))
"""


def memory(mlb: Path, ids: list[int], kv: str) -> tuple[float, float]:
    """Megabytes at the peak as predicted before loading, and as measured."""
    bare = mlb.with_name(f"bare-{mlb.name}")  # without the tokenizer, which is not part of the prediction
    bare.hardlink_to(mlb)
    command = [sys.executable, "-c", _MEMORY, str(bare), kv]
    done = subprocess.run(command, input=json.dumps(ids), capture_output=True, text=True, check=True)
    bare.unlink()
    peak, told = json.loads(done.stdout)
    return float(told.split(" at most ")[1].split(" ")[0]), peak * 1024 / 1e6


def measure_caches(name: str, mlb: Path, count: int, text: str, say: Callable[[str], None]) -> list[str]:
    """A row for each type of cache."""
    from krafla import Model

    with Model.load(mlb, ctx=64) as model:
        ids = model.encode(text)[:count]
    rows = []
    for kv in ("f32", "f16", "q8"):
        say(f"{name}: {kv} cache")
        mean, late = kv_divergence(mlb, ids, kv) if kv != "f32" else (0.0, 0.0)
        predicted, measured = memory(mlb, ids, kv)
        rows.append(
            f"| {kv} | {len(ids)} | {mean:.2e} | {late:.2e} | {predicted:.0f} MB | {measured:.0f} MB |"
        )
    return rows


def measure(name: str, path: Path, mlb: Path, count: int, text: str, say: Callable[[str], None]) -> list[str]:
    """One model's rows."""
    from krafla import Model

    with Model.load(mlb, ctx=count) as model:
        ids = model.encode(text)[:count]
        if len(ids) < count:
            raise UsageError(f"the text has {len(ids)} tokens, {count} are needed")
        engine = model.logits(ids)
    say(f"{name}: transformers in float32")
    net, _ = float_model(path)
    reference = logits_of(net, ids)
    krafla = compare(engine, reference, ids)
    del engine
    say(f"{name}: transformers, quantized inside")
    quantize_inside(net)
    inside = compare(logits_of(net, ids), reference, ids)
    float_perplexity = float(np.exp(krafla.float_nats))
    rows = [
        f"| {name} | transformers, float32 | {count} | 100 % | 0 | {float_perplexity:.3f} |",
    ]
    for who, c in (("transformers, Q8_0 inside", inside), ("krafla, Q8_0", krafla)):
        rows.append(
            f"| | {who} | {count} | {c.agreement:.2%} | {c.error:.4f} ({c.error / c.spread:.2%} of their spread) "
            f"| {c.perplexity:.3f} ({c.perplexity / float_perplexity - 1:+.2%}) |"
        )
    return rows


_PAGE = """# Quality

Written by `python -m krafla.tools.measure_quality`; the text is `{text}`.

## Logits against float32

The float model is transformers in float32 with the weights of the GGUF file. The same model with its weights and what
goes into its products rounded to Q8_0 shows what this quantization costs in itself; the engine should cost no more.
Agreement is how often the likeliest token is the same, the error is the mean absolute difference of logits, and
perplexity is that of the text.

| model | logits of | positions | agreement | error | perplexity |
|---|---|---|---|---|---|
{logits}

## Types of cache

{first}, all positions of one sequence: mean Kullback-Leibler divergence of the next token's distribution from that
with an f32 cache, over all positions and over the last eighth; the peak of memory (without Python's own) as predicted
before loading, and as measured (with up to 3 MB of logits). Activations are rounded to 8 bits everywhere, so any
change, however small, moves some of them to the next step: the f16 row shows what that alone amounts to.

| cache | positions | divergence | at the end | predicted | measured |
|---|---|---|---|---|---|
{caches}
"""


@click.command()
@click.option("--model", "models", multiple=True, required=True, metavar="NAME=FILE.gguf:POSITIONS")
@click.option("--text", type=click.Path(path_type=Path), required=True, help="The text to measure on.")
@click.option("--cache-positions", default=4096, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The page to write.")
def main(models: tuple[str, ...], text: Path, cache_positions: int, out: Path) -> None:
    """Measure models and write the page. The first one's caches are measured, too."""
    content = text.read_text(encoding="utf-8")

    def say(what: str) -> None:
        print(what, file=sys.stderr, flush=True)

    logits: list[str] = []
    caches: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for i, entry in enumerate(models):
            name, _, rest = entry.partition("=")
            path, _, count = rest.rpartition(":")
            mlb = Path(folder) / f"{i}.mlb"
            say(f"{name}: converting")
            convert(path, mlb)
            logits += measure(name, Path(path), mlb, int(count), content, say)
            if i == 0:
                caches = measure_caches(name, mlb, cache_positions, content, say)
            mlb.unlink()
    first = models[0].partition("=")[0]
    parts = {
        "text": text.as_posix(),
        "logits": "\n".join(logits),
        "first": first,
        "caches": "\n".join(caches),
    }
    out.write_text(_PAGE.format(**parts), encoding="utf-8")


if __name__ == "__main__":
    main()
