"""One file that is a model: an executable with the model, its tokenizer and its chat text behind it.

The layout is described in runtime/csrc/core/bundle.h.
"""

from __future__ import annotations

import contextlib
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
#: Stand for messages; nothing a template changes (it may strip white space or escape markup).
_MARKS = {"user": ("PROMPT-9f2c41d7", "{prompt}"), "system": ("SYSTEM-9f2c41d7", "{system}")}


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
        template = files.template.read_text(encoding="utf-8")
        found.append(Member("model.chat", chat_text(template, bos, eos).encode()))
        with contextlib.suppress(FormatError):  # many models know no system message
            found.append(
                Member("model.system.chat", chat_text(template, bos, eos, ("system", "user")).encode())
            )
    return found


def special_texts(tokenizer: Path) -> tuple[str, str]:
    """The texts of the tokenizer's beginning-of-text and end-of-text tokens, or empty ones."""
    return mlt.read(tokenizer).special_texts() if tokenizer.suffix == ".mlt" else ("", "")


def chat_text(template: str, bos: str, eos: str, roles: Sequence[str] = ("user",)) -> str:
    """The text around a user's message, {prompt}, and a system message, {system}: a chat template for C programs."""
    day = datetime(2025, 1, 1)  # one for all builds: the same inputs give the same bytes
    messages = [{"role": role, "content": _MARKS[role][0]} for role in roles]
    text = ChatTemplate(template, bos, eos).render(messages, strftime_now=day.strftime)
    for role in roles:
        mark, place = _MARKS[role]
        if text.count(mark) != 1:
            raise FormatError(
                f"the chat template shows the {role} message {text.count(mark)} times, must be once"
            )
        text = text.replace(mark, place)
    return text
