"""Converts tokenizers to .mlt: tokenizer.json, Hugging Face folders, the vocabulary of a GGUF file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import click

from krafla.tools import mlt as mlt_file
from krafla.tools.chat_template import ChatTemplate
from krafla.tools.errors import FormatError, KraflaError, ShapeError, access
from krafla.tools.gguf_tokenizer import from_gguf, open_gguf
from krafla.tools.hf_tokenizer import from_json, load_json
from krafla.tools.mlt import Mlt


def convert_tokenizer(
    source: str | PathLike[str],
    destination: str | PathLike[str],
    eos_ids: Sequence[int] = (),
    vocab: int | None = None,
) -> Mlt:
    """Write the .mlt file DESTINATION, and the chat template beside it as .jinja if there is one.

    SOURCE is a .gguf, a tokenizer.json or a folder with one; `eos_ids` replace the ids found there;
    `vocab` is the model's vocabulary, which the tokenizer must fit.
    """
    target = Path(destination)
    mlt, template = read_tokenizer(Path(source))
    if eos_ids:
        mlt = replace(mlt, eos_ids=tuple(dict.fromkeys(eos_ids)))
    if vocab is not None and len(mlt.tokens) > vocab:
        raise ShapeError(
            f"{source}: the tokenizer has {len(mlt.tokens)} tokens, the model's vocabulary only {vocab}"
        )
    if template:
        mlt.validate(str(target))
        ChatTemplate(template, *mlt.special_texts(), str(source)).check()
    mlt_file.write(target, mlt)
    if template:
        write_template(target.with_suffix(".jinja"), template)
    return mlt


def read_tokenizer(source: Path) -> tuple[Mlt, str | None]:
    """The tokenizer and the chat template of a source."""
    if source.is_dir():
        return _read_folder(source)
    with access(source, "read"), source.open("rb") as file:
        magic = file.read(4)
    if magic == b"GGUF":
        values = open_gguf(source)
        return from_gguf(values, str(source)), values.get("chat_template")
    return from_json(load_json(source), str(source)), None


def _read_folder(folder: Path) -> tuple[Mlt, str | None]:
    path = folder / "tokenizer.json"
    if not path.is_file():
        hint = " (tokenizer.model is not read)" if (folder / "tokenizer.model").is_file() else ""
        raise FormatError(f"{folder}: there is no tokenizer.json{hint}")
    data = load_json(path)
    mlt = from_json(data, str(path))
    names = dict(data["model"]["vocab"]) | {t["content"]: t["id"] for t in data.get("added_tokens") or []}
    configs = {name: _optional(folder / f"{name}.json") for name in _CONFIGS}
    if mlt.bos < 0:
        mlt.bos = next(_ids("bos", configs, names), -1)
    mlt.eos_ids = tuple(dict.fromkeys(_ids("eos", configs, names)))
    return mlt, _template(folder, configs["tokenizer_config"])


_CONFIGS = ("tokenizer_config", "generation_config", "config")


def _optional(path: Path) -> dict[str, Any]:
    return load_json(path) if path.is_file() else {}


def _ids(which: str, configs: dict[str, dict[str, Any]], names: dict[str, int]) -> Iterator[int]:
    """The tokenizer's own token, then generation_config.json's; config.json's if neither has one."""
    token = configs["tokenizer_config"].get(f"{which}_token")
    text = token.get("content") if isinstance(token, dict) else token
    if text in names:
        yield names[text]
    config = configs["config"]
    listed = configs["generation_config"].get(f"{which}_token_id")
    if listed is None and text not in names:
        listed = config.get(f"{which}_token_id", config.get("text_config", {}).get(f"{which}_token_id"))
    if listed is not None:
        yield from listed if isinstance(listed, list) else [listed]


def _template(folder: Path, tokenizer_config: dict[str, Any]) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        with access(path, "read"):
            data = path.read_bytes()
        try:
            return data.decode()  # line ends stay as they are
        except UnicodeDecodeError as error:
            raise FormatError(f"{path}: is not valid UTF-8") from error
    template = tokenizer_config.get("chat_template")
    if template is None:
        template = _optional(folder / "chat_template.json").get("chat_template")
    if isinstance(template, list):  # several, by name
        template = {entry["name"]: entry["template"] for entry in template}.get("default")
    return template if isinstance(template, str) else None


def write_template(path: Path, template: str) -> None:
    """Write the chat template through a temporary file, byte for byte."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with access(path, "write"):
        try:
            temporary.write_bytes(template.encode())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("destination", type=click.Path(path_type=Path))
@click.option("--eos", "eos_ids", type=int, multiple=True, help="An end-of-text id; instead of those found.")
def main(source: Path, destination: Path, eos_ids: tuple[int, ...]) -> None:
    """Convert SOURCE (a .gguf, a tokenizer.json, a Hugging Face folder) to the .mlt file DESTINATION."""
    try:
        mlt = convert_tokenizer(source, destination, eos_ids)
    except KraflaError as error:
        print(f"convert_tokenizer: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print(f"{destination}: {len(mlt.tokens)} tokens, {len(mlt.merges)} merges, ends at {list(mlt.eos_ids)}")


if __name__ == "__main__":
    main()
