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
@click.option("--plain", is_flag=True, help="Ids only, also on a terminal.")
@options.quiet_option
@options.json_option
def encode(
    text: str | None,
    model: str | None,
    bos: bool | None,
    no_added: bool,
    plain: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Print the token ids of TEXT, or of standard input.

    On a terminal, each token's piece of text stands above its id: a space is shown as ·, a line end as ⏎, bytes that
    are no character of their own in hexadecimal. In a pipe, or with --plain, the ids are separated by spaces.
    """
    with _open(model, quiet) as tokenizer:
        data = sys.stdin.buffer.read().decode("utf-8", "replace") if text is None else text
        ids = tokenizer.encode(data, bos, not no_added)
        pieces = [tokenizer.piece(previous, token) for previous, token in zip([-1, *ids], ids, strict=False)]
        added = [tokenizer.is_added(token) for token in ids]
        if as_json:
            shown = [piece.decode("utf-8", "replace") for piece in pieces]
            click.echo(json.dumps({"ids": ids, "pieces": shown, "added": added}, ensure_ascii=False))
        elif sys.stdout.isatty() and not plain:
            _show(ids, pieces, added)
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


def _show(ids: list[int], pieces: list[bytes], added: list[bool]) -> None:
    """Pieces above ids, in columns, as many as a line holds; colours tell neighbours apart, bold the added ones."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    above, below = Text(), Text()
    for index, (token, piece, is_added) in enumerate(zip(ids, pieces, added, strict=True)):
        text = _visible(piece, console.encoding)
        width = max(cell_len(text), len(str(token)))
        if above.cell_len + width + 1 > console.width and above.cell_len:
            console.print(above, below, "", sep="\n")
            above, below = Text(), Text()
        colour = COLOURS[index % len(COLOURS)]
        above.append(text, f"{'bold ' if is_added else ''}{colour}").append(
            " " * (width + 1 - cell_len(text))
        )
        below.append(str(token), "dim").append(" " * (width + 1 - len(str(token))))
    if above.cell_len:
        console.print(above, below, sep="\n")
    console.print(f"{len(ids)} tokens", style="dim")


#: Of neighbouring tokens; none of them is hard to read on black or on white.
COLOURS = ("cyan", "magenta", "green", "blue")


def _visible(piece: bytes, encoding: str) -> str:
    """A piece as one can see it: marks for white space, bytes in hexadecimal where they are no text."""
    marks = {" ": "·", "\n": "⏎", "\t": "→"}
    if not encoding.lower().startswith("utf"):
        marks = {" ": "_", "\n": "\\n", "\t": "\\t"}
    text = piece.decode("utf-8", "surrogateescape")
    return "".join(marks.get(c) or (c if c.isprintable() else _hexadecimal(c)) for c in text)


def _hexadecimal(character: str) -> str:
    """The bytes of what has no shape; a lone byte comes as a surrogate."""
    return "".join(f"<{byte:02X}>" for byte in character.encode("utf-8", "surrogateescape"))


def _open(model: str | None, quiet: bool):  # type: ignore[no-untyped-def]
    from contextlib import closing

    from krafla.runtime import progress
    from krafla.runtime.engine import open_tokenizer

    with progress.console(quiet) as report:
        return closing(open_tokenizer(model, report))
