"""`krafla show`: what a model is, and what memory it takes."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import click

from krafla.runtime import options

if TYPE_CHECKING:
    from krafla.runtime.describe import Memory, Tensors

EXAMPLES = options.examples(
    "krafla show", "krafla show model.gguf", "krafla show --json hf:Qwen/Qwen3-0.6B > qwen.json"
)


@click.command("show", epilog=EXAMPLES)
@click.argument("model", required=False, shell_complete=options.complete_model)
@options.quiet_option
@options.json_option
def command(model: str | None, quiet: bool, as_json: bool) -> None:
    """Show MODEL (as -m takes it; downloaded or converted now if need be): family, sizes, header and tensors.

    The memory is predicted from the header, for each context length and type of KV memory: weights, KV memory and
    all else together, while the model loads and runs.
    """
    from krafla.runtime import progress
    from krafla.runtime.engine import engine
    from krafla.runtime.resolve import resolve

    with progress.console(quiet) as report:
        files = resolve(model, report)
        api, _ = engine(None, report)

    from krafla.runtime import describe
    from krafla.tools.mlb import Model

    opened = Model(files.mlb)
    facts: dict[str, Any] = {
        "model": str(files.mlb),
        "family": describe.family(opened.header, opened.layer_flags),
        "parameters": describe.parameters(opened),
        "file_bytes": files.mlb.stat().st_size,
        "tokenizer": str(files.tokenizer) if files.tokenizer else None,
        "template": str(files.template) if files.template else None,
        "header": {field.name: getattr(opened.header, field.name) for field in fields(opened.header)},
    }
    tensors = describe.tensors(opened)
    memory = describe.memory(api, files.mlb, opened.header.max_seq)
    if as_json:
        rows = {"tensors": [asdict(row) for row in tensors], "memory": [asdict(row) for row in memory]}
        click.echo(json.dumps({**facts, **rows}))
        return
    click.echo("\n".join([*_facts(facts), "", *_tensors(tensors), "", *_memory(memory)]))


def _facts(facts: dict[str, Any]) -> list[str]:
    from krafla.runtime.describe import KINDS, count
    from krafla.runtime.text import megabytes

    h = facts["header"]
    head = h["head_dim"] or h["dim"] // h["n_heads"]
    kind = f"{KINDS[h['wtype']]}, {'f16' if h['scale_f16'] else 'f32'} scales"
    lines = {
        "model": facts["model"],
        "family": f"{facts['family']}, {count(facts['parameters'])} parameters",
        "file": f"{megabytes(facts['file_bytes'])}, {kind}",
        "shape": f"{h['n_layers']} layers, width {h['dim']}, FFN {h['hidden_dim']}, vocabulary {h['vocab']}",
        "attention": f"{h['n_heads']} heads of {head}, {h['n_kv_heads']} for keys and values",
        "context": f"at most {h['max_seq']} positions",
        "tokenizer": facts["tokenizer"] or "none",
        "template": facts["template"] or "none: it continues text and does not chat",
    }
    special = [f"{name} {value:g}" for name, value in h.items() if value and name not in _USUAL]
    lines["also"] = ", ".join(special)
    return [f"{name:<11}{value}" for name, value in lines.items() if value]


#: Fields of the header that the lines above say.
_USUAL = {
    "version", "dim", "n_layers", "n_heads", "n_kv_heads", "hidden_dim", "vocab", "max_seq", "wtype", "head_dim",
    "scale_f16",
}  # fmt: skip


def _tensors(rows: list[Tensors]) -> list[str]:
    from krafla.runtime.text import megabytes

    width = max(len(row.name) for row in rows)
    return [f"{'tensor':<{width}}  count            shape  type       size"] + [
        f"{r.name:<{width}}  {r.count:>5}  {f'{r.rows} x {r.cols}':>15}  {r.kind:<4}  {megabytes(r.bytes):>9}"
        for r in rows
    ]


def _memory(rows: list[Memory]) -> list[str]:
    from krafla.runtime.text import megabytes

    kinds = list(dict.fromkeys(row.kv for row in rows))
    lines = ["memory at most, by context and --kv:", "context" + "".join(f"{kind:>10}" for kind in kinds)]
    for context in dict.fromkeys(row.context for row in rows):
        sizes = [megabytes(row.peak_bytes) for row in rows if row.context == context]
        lines.append(f"{context:>7}" + "".join(f"{size:>10}" for size in sizes))
    return lines
