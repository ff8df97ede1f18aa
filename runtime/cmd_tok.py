"""`krafla tok`: text to token ids and back."""

from __future__ import annotations

import json
import sys

import click

from krafla.runtime import options
from krafla.tools.errors import UsageError


@click.group("tok")
def command() -> None:
    """Turn text into token ids and back."""


ENCODE_EXAMPLES = options.examples(
    'krafla tok encode "Why is the sky blue?"', "krafla tok encode --json -m model.gguf < text.txt"
)
DECODE_EXAMPLES = options.examples(
    "krafla tok decode 9576 260 6376", 'krafla tok encode "Hello" | krafla tok decode'
)


@command.command("encode", epilog=ENCODE_EXAMPLES)
@click.argument("text", required=False)
@options.model_option
@click.option("--bos/--no-bos", default=None, help="With a beginning-of-text token [default: as the model].")
@click.option("--no-added", is_flag=True, help="Take <s> and the like as plain text.")
@options.quiet_option
@options.json_option
def encode(
    text: str | None, model: str | None, bos: bool | None, no_added: bool, quiet: bool, as_json: bool
) -> None:
    """Print the token ids of TEXT, or of standard input."""
    with _open(model, quiet) as tokenizer:
        data = sys.stdin.buffer.read().decode("utf-8", "replace") if text is None else text
        ids = tokenizer.encode(data, bos, not no_added)
        if as_json:
            pieces = [tokenizer.piece(-1, token).decode("utf-8", "replace") for token in ids]
            click.echo(json.dumps({"ids": ids, "pieces": pieces}, ensure_ascii=False))
        else:
            click.echo(" ".join(map(str, ids)))


@command.command("decode", epilog=DECODE_EXAMPLES)
@click.argument("ids", nargs=-1)
@options.model_option
@options.quiet_option
@options.json_option
def decode(ids: tuple[str, ...], model: str | None, quiet: bool, as_json: bool) -> None:
    """Print the text of token IDS, or of those on standard input, separated by spaces or commas."""
    words = (" ".join(ids) if ids else sys.stdin.read()).replace(",", " ").split()
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        raise UsageError(f"IDS must be whole numbers, not {' '.join(words)[:60]!r}") from None
    with _open(model, quiet) as tokenizer:
        text = tokenizer.decode(numbers)
        click.echo(json.dumps({"text": text}, ensure_ascii=False) if as_json else text)


def _open(model: str | None, quiet: bool):  # type: ignore[no-untyped-def]
    from contextlib import closing

    from krafla.runtime import progress
    from krafla.runtime.engine import open_tokenizer

    with progress.console(quiet) as report:
        return closing(open_tokenizer(model, report))
