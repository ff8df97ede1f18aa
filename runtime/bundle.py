"""One file that is a model: an executable with the model, its tokenizer and its chat text behind it.

The layout is described in runtime/csrc/core/bundle.h.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from krafla.runtime import cache
from krafla.runtime.resolve import ModelFiles
from krafla.tools import mlt
from krafla.tools.chat_template import ChatTemplate
from krafla.tools.errors import FormatError, UsageError, access

_MAGIC = b"KRAFLAB1"
_PAGE = 1 << 16  # no system maps files in larger steps
_CHUNK = 1 << 20
#: Stands for the user's message; nothing a template changes (it may strip white space or escape markup).
_MARK = "PROMPT-9f2c41d7"


@dataclass(frozen=True)
class Member:
    """A file to put in: its name inside, and its bytes or where they are."""

    name: str
    content: bytes | Path


def append(program: Path, members: Sequence[Member], output: Path) -> None:
    """Write OUTPUT: the program, then the members, then their directory."""
    with access(output, "write it"), cache.replacing(output) as temporary, temporary.open("wb") as stream:
        stream.write(program.read_bytes())
        directory = b"".join(_write(stream, member) for member in members)
        stream.write(directory + struct.pack("<II8s", len(members), zlib.crc32(directory), _MAGIC))
    output.chmod(0o755)


def _write(stream: BinaryIO, member: Member) -> bytes:
    """One member at the next page; its entry of the directory."""
    stream.write(b"\0" * (-stream.tell() % _PAGE))
    start, checksum = stream.tell(), 0
    if isinstance(member.content, bytes):
        checksum = zlib.crc32(member.content)
        stream.write(member.content)
    else:
        with member.content.open("rb") as source:
            while data := source.read(_CHUNK):
                checksum = zlib.crc32(data, checksum)
                stream.write(data)
    return struct.pack("<32sQQII", member.name.encode(), start, stream.tell() - start, checksum, 0)


def members(files: ModelFiles) -> list[Member]:
    """What an executable needs to answer by itself."""
    if files.tokenizer is None:
        raise UsageError(f"--model {files.mlb}: there is no tokenizer beside it")
    found = [Member("model.mlb", files.mlb), Member("model.mlt", files.tokenizer)]
    if files.template is not None:
        bos, eos = special_texts(files.tokenizer)
        text = chat_text(files.template.read_text(encoding="utf-8"), bos, eos)
        found.append(Member("model.chat", text.encode()))
    return found


def special_texts(tokenizer: Path) -> tuple[str, str]:
    """The texts of the tokenizer's beginning-of-text and end-of-text tokens, or empty ones."""
    return mlt.read(tokenizer).special_texts() if tokenizer.suffix == ".mlt" else ("", "")


def chat_text(template: str, bos: str, eos: str) -> str:
    """The text around a user's message, which takes the place of {prompt}: a chat template for programs in C."""
    day = datetime(2025, 1, 1)  # one for all builds: the same inputs give the same bytes
    messages = [{"role": "user", "content": _MARK}]
    text = ChatTemplate(template, bos, eos).render(messages, strftime_now=day.strftime)
    if text.count(_MARK) != 1:
        raise FormatError(f"the chat template shows a message {text.count(_MARK)} times, must be once")
    return text.replace(_MARK, "{prompt}")
