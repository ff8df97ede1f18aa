"""`krafla convert`: a model of another format as an .mlb file, by tools/convert."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from krafla.runtime import options, progress
from krafla.tools import convert as tool


@options.quiet_option
def _convert(source: Path, destination: Path | None, quiet: bool, **given: Any) -> None:
    target = destination or Path(source.resolve().name).with_suffix(".mlb")
    classes = tuple(part for part in given["q8"].split(",") if part)
    names = ("f16_scales", "q4_rule", "imatrix", "max_seq")
    same = {name: given[name] for name in names}
    chosen = tool.Options(type=given["kind"], q8=classes, tokenizer=not given["no_tokenizer"], **same)
    with progress.console(quiet) as report:
        tool.convert(source, target, chosen, lambda _, *done: report(f"converting {source.name}", *done))
    click.echo(target)


EXAMPLES = options.examples(
    "krafla convert model.gguf",
    "krafla convert folder/ small.mlb --type q4_0 --q8 wcls,wv --imatrix model.imatrix",
)

command = click.command("convert", help=tool.main.help, epilog=EXAMPLES)(_convert)
command.params = [*tool.main.params, *command.params]
