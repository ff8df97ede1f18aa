"""`krafla rm`: remove downloads and conversions."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from krafla.runtime import options
from krafla.tools.errors import AccessError, UsageError

if TYPE_CHECKING:
    from krafla.runtime.shelf import Entry

EXAMPLES = options.examples(
    "krafla rm SmolLM2-135M-Instruct", "krafla rm --yes hf:Qwen/Qwen3-0.6B model.gguf"
)


@click.command("rm", epilog=EXAMPLES)
@click.argument("models", metavar="MODEL...", nargs=-1, required=True, shell_complete=options.complete_model)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@options.json_option
def command(models: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Remove what the cache holds of MODEL: the download and the conversion.

    MODEL is a name that `krafla list` gives. For a file or folder of your own, its conversion is removed; the file
    itself never is.
    """
    from krafla.runtime import shelf
    from krafla.runtime.text import megabytes

    found = list(dict.fromkeys(entry for model in models for entry in _find(model)))
    sizes = [f"{e.name} ({megabytes(e.download_bytes + e.conversion_bytes)})" for e in found]
    if not yes and not _agreed(sizes):
        click.echo("nothing is removed", err=True)
        return
    rows = []
    for entry in found:
        rows.append({"name": entry.name, "bytes": entry.download_bytes + entry.conversion_bytes})
        shelf.remove(entry)
        if not as_json:
            click.echo(f"removed {entry.name} ({megabytes(int(str(rows[-1]['bytes'])))})")
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))


def _find(model: str) -> list[Entry]:
    from krafla.runtime import shelf

    if found := shelf.find(model):
        return found
    if Path(model).exists():
        raise UsageError(f"{model}: is your own, and the cache has no conversion of it; nothing is removed")
    raise AccessError(f"{model}: no such model is here (`krafla list` names them)")


def _agreed(what: list[str]) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("--yes is missing: there is no terminal to ask on")
    return click.confirm(f"Remove {', '.join(what)}?", err=True)
