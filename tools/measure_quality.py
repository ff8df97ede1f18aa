"""Measures how close the engine's logits are to float32 transformers, and writes docs/quality.md.

Needs the parity extra. For each GGUF file, the float model is transformers with the file's weights in float32;
beside the engine stands the same model with weights and activations quantized to Q8_0 inside it, which shows what
quantization alone costs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from krafla.tools import exact_ops
from krafla.tools.architectures_hf import HF
from krafla.tools.closeness import Array, divergences, figures, log_softmax
from krafla.tools.convert import Copy, Options, Plan, convert
from krafla.tools.errors import UsageError
from krafla.tools.mlb import LAYER_WINDOW, Header, Model
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


def mean_divergences(parts: Iterable[Array], *references: Array) -> list[float]:
    """Of logits, given in parts, from each of the references."""
    sums, start = np.zeros(len(references)), 0
    for part in (piece for whole in parts for piece in np.array_split(whole, -(-len(whole) // 128))):
        rows = slice(start, start := start + len(part))
        for i, reference in enumerate(references):
            log_p, log_q = (log_softmax(x.astype(np.float64)) for x in (reference[rows], part))
            sums[i] += divergences(log_p, log_q).sum()
    return [float(total) / start for total in sums]


def stored(x: Array, kv: str) -> Array:
    """Heads, keys or values alike, as a cache of that type holds them."""
    if kv == "f16":
        return x.astype(np.float16).astype(np.float32)
    quants, scale = exact_ops.quantize(np.ascontiguousarray(x), x.shape[-1])
    return quants.astype(np.float32) * scale


def round_cache(net: Any, kv: str) -> None:
    """Make the float model round its keys and values as the cache does, and for Q8 its queries."""
    import torch
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    plain = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def attention(module: Any, q: Any, k: Any, v: Any, *rest: Any, **more: Any) -> Any:
        if kv == "q8":
            queries, keys = turned(q) / (q.shape[-1] & -q.shape[-1]), turned(k)
        else:
            queries, keys = q, torch.from_numpy(stored(k.numpy(), kv))
        return plain(module, queries, keys, torch.from_numpy(stored(v.numpy(), kv)), *rest, **more)

    def turned(x: Any) -> Any:
        pairs = x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)  # as ours lie
        return torch.from_numpy(stored(exact_ops.rotate_heads(pairs.contiguous().numpy()), kv))

    ALL_ATTENTION_FUNCTIONS.register("krafla", attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register("krafla", ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    net.set_attn_implementation("krafla")


def nudged(mlb: Path) -> Path:
    """A copy of a model in which the first norm's weights are the next larger floats."""
    copy = mlb.with_name(f"nudged-{mlb.name}")
    shutil.copyfile(mlb, copy)
    tensor = Model(mlb).tensors["layers.0.attn_norm"]
    weights = np.memmap(copy, np.float32, "r+", tensor.offset, (tensor.cols,))
    weights[:] = np.nextafter(weights, np.float32(np.inf))
    return copy


_MEMORY = """
import json, re, sys
from krafla import Model
from krafla.runtime.engine import engine

def kilobytes(name):
    return int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1])

path, kv, ids = sys.argv[1], sys.argv[2], json.loads(sys.stdin.read())
engine(None)
before = kilobytes("VmRSS")
with Model.load(path, ctx=len(ids), kv=kv) as model:
    model.prefill(ids)
    print(json.dumps([model.config.peak_bytes, 1024 * (kilobytes("VmHWM") - before)]))
"""


def memory(mlb: Path, ids: list[int], kv: str, folder: Path) -> tuple[float, float]:
    """By how many megabytes loading and reading `ids` grows a process at most: as predicted, and as measured."""
    bare = folder / "bare.mlb"  # without the tokenizer, which is not part of the prediction
    bare.symlink_to(mlb.resolve())
    command = [sys.executable, "-c", _MEMORY, str(bare), kv]
    done = subprocess.run(command, input=json.dumps(ids), capture_output=True, text=True, check=True)
    bare.unlink()
    predicted, measured = json.loads(done.stdout)
    return predicted / 1e6, measured / 1e6


def measure_caches(
    name: str, mlb: Path, net: Any, reference: Array, ids: list[int], say: Callable[[str], None]
) -> list[str]:
    """A row for each type of cache; `net` is the float model, `reference` its logits of `ids`."""
    from krafla import Model as Engine

    with Engine.load(mlb, ctx=len(ids)) as engine:
        plain = engine.logits(ids)
    other = nudged(mlb)
    cases = [("f32", mlb, ""), ("f32", other, ", weights moved"), ("f16", mlb, ""), ("q8", mlb, "")]
    rows = []
    for kv, path, note in cases:
        say(f"{name}: {kv} cache{note}")
        with Engine.load(path, ctx=len(ids), kv=kv) as engine:
            own, far = mean_divergences(engine.logits_in_parts(ids), plain, reference)
        alone = told = ""
        if kv != "f32":
            round_cache(net, kv)
            alone = f"{mean_divergences([logits_of(net, ids)], reference)[0]:.1e}"
        if path == mlb:
            predicted, measured = memory(mlb, ids, kv, mlb.parent)
            told = f"{predicted:.1f} MB | {measured:.1f} MB ({measured / predicted - 1:+.1%})"
        rows.append(f"| {kv}{note} | {alone} | {own:.1e} | {far:.2e} | {told or '|'} |")
    other.unlink()
    return rows


def measure(
    name: str, path: Path, mlb: Path, count: int, text: str, caches: bool, say: Callable[[str], None]
) -> tuple[list[str], list[str]]:
    """One model's rows, and those of its types of cache if asked for."""
    from krafla import Model as Engine

    with Engine.load(mlb, ctx=count) as model:
        ids = model.encode(text)[:count]
        if len(ids) < count:
            raise UsageError(f"the text has {len(ids)} tokens, {count} are needed")
        engine = model.logits(ids)
    say(f"{name}: transformers in float32")
    net, _ = float_model(path)
    reference = logits_of(net, ids)
    krafla = compare(engine, reference, ids)
    del engine
    cache_rows = measure_caches(name, mlb, net, reference, ids, say) if caches else []
    net.set_attn_implementation("eager")
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
    return rows, cache_rows


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

{first}, {positions} positions of one sequence: mean Kullback-Leibler divergences of the next token's distribution.

- *Alone*: transformers in float32, its keys and values (for q8 also the queries) rounded as this cache rounds them,
  against itself without. It is what the cache costs.
- *In the engine*: against the engine with an f32 cache. Activations are rounded to 8 bits everywhere, so any change,
  however small, moves some of them to the next step, and from there on the two runs have different rounding errors. The
  row with *weights moved* shows how much that alone is: an f32 cache, but the weights of the first norm are the next
  larger floats. No cache that is not exact can come below it.
- *From float32*: the engine against transformers in float32. Here the rounding of activations is in every row; what the
  cache adds is the difference between rows.

Memory is by how much loading the model and reading all positions grows the process at most, as predicted before loading
and as measured. The tokenizer (some megabytes) is not counted.

| cache | alone | in the engine | from float32 | predicted | measured |
|---|---|---|---|---|---|
{caches}
"""


@click.command()
@click.option("--model", "models", multiple=True, required=True, metavar="NAME=FILE.gguf:POSITIONS")
@click.option("--text", type=click.Path(path_type=Path), required=True, help="The text to measure on.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The page to write.")
def main(models: tuple[str, ...], text: Path, out: Path) -> None:
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
            rows, more = measure(name, Path(path), mlb, int(count), content, i == 0, say)
            logits += rows
            caches += more
            mlb.unlink()
    first, _, rest = models[0].partition("=")
    parts = {
        "text": text.as_posix(),
        "logits": "\n".join(logits),
        "first": first,
        "positions": rest.rpartition(":")[2],
        "caches": "\n".join(caches),
    }
    out.write_text(_PAGE.format(**parts), encoding="utf-8")


if __name__ == "__main__":
    main()
