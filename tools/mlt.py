"""The .mlt tokenizer file: reference reader and writer."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from krafla.tools.errors import FormatError, access

MAGIC = b"MLT1"
VERSION = 1
SENTENCEPIECE, BYTE_LEVEL = 1, 2
NORMAL, ADDED, BYTE = 0, 1, 2
# Flags: the first two are for both kinds, those about prefixes for SentencePiece, the others for byte-level
# tokenizers.
BOS, IGNORE_MERGES, PREFIX_ONCE, NFC, ONE_NUMBER, GPT2, SPLIT_DIGITS, NO_PREFIX = 1, 2, 4, 8, 16, 32, 64, 128
MARKS = 256
FLAGS_OF_KIND = {
    SENTENCEPIECE: BOS | IGNORE_MERGES | PREFIX_ONCE | NO_PREFIX,
    BYTE_LEVEL: BOS | IGNORE_MERGES | NFC | ONE_NUMBER | GPT2 | SPLIT_DIGITS | MARKS,
}
# Pairs of which a tokenizer has one at most.
_EXCLUSIVE = (ONE_NUMBER | GPT2, MARKS | GPT2, PREFIX_ONCE | NO_PREFIX)
MAX_VOCAB = 1 << 24
MAX_EOS = 4096
SPACE = "▁"

_HEADER = struct.Struct("<4sIIIIiiI")
_TOKEN = struct.Struct("<BI")
_TRAILER = b"EOTS"

Merges: TypeAlias = npt.NDArray[np.uint32]


def allowed(kind: int, flags: int) -> bool:
    """Whether tokenizers of a kind can have these flags together."""
    return not flags & ~FLAGS_OF_KIND[kind] and not any(flags & pair == pair for pair in _EXCLUSIVE)


@dataclass(frozen=True)
class Token:
    """One token: the bytes it stands for, and what it is."""

    data: bytes
    attr: int = NORMAL


@dataclass
class Mlt:
    """A tokenizer as the file holds it. `eos_ids` begins with the header's eos; none means -1."""

    kind: int
    tokens: list[Token]
    merges: Merges  # rows of left, right, merged in the order of their ranks
    bos: int = -1
    eos_ids: tuple[int, ...] = ()
    flags: int = 0

    def special_texts(self) -> tuple[str, str]:
        """The texts of the beginning-of-text and the first end-of-text token, or empty ones."""
        ids = (self.bos, next(iter(self.eos_ids), -1))
        bos, eos = (self.tokens[i].data.decode("utf-8", "replace") if i >= 0 else "" for i in ids)
        return bos, eos

    def pack(self) -> bytes:
        """The bytes of the file; the trailer is there if the header cannot hold all end-of-text ids."""
        eos = self.eos_ids[0] if self.eos_ids else -1
        counts = (len(self.tokens), len(self.merges))
        parts = [_HEADER.pack(MAGIC, VERSION, self.kind, *counts, self.bos, eos, self.flags)]
        for token in self.tokens:
            parts += [_TOKEN.pack(token.attr, len(token.data)), token.data]
        parts.append(np.ascontiguousarray(self.merges, "<u4").tobytes())
        if len(self.eos_ids) > 1:
            parts.append(struct.pack(f"<4sI{len(self.eos_ids)}i", _TRAILER, len(self.eos_ids), *self.eos_ids))
        return b"".join(parts)

    def validate(self, where: str) -> None:
        """Raise FormatError with one sentence if the engine would refuse this tokenizer."""
        count = len(self.tokens)
        if self.kind not in FLAGS_OF_KIND:
            raise FormatError(f"{where}: kind is {self.kind}, must be 1 or 2")
        if not 1 <= count <= MAX_VOCAB:
            raise FormatError(f"{where}: n_vocab is {count}, must be from 1 to {MAX_VOCAB}")
        if not allowed(self.kind, self.flags):
            raise FormatError(f"{where}: flags are {self.flags:#x}, which kind {self.kind} does not allow")
        if not -1 <= self.bos < count or (self.flags & BOS and self.bos < 0):
            raise FormatError(f"{where}: bos is {self.bos}, must be a token below {count}")
        if bad := [i for i in self.eos_ids if not 0 <= i < count]:
            raise FormatError(f"{where}: end-of-text id {bad[0]} is not below {count}")
        if len(self.eos_ids) > MAX_EOS:
            raise FormatError(f"{where}: {len(self.eos_ids)} end-of-text ids are more than {MAX_EOS}")
        self._validate_tokens(where)
        self._validate_merges(where)

    def _validate_tokens(self, where: str) -> None:
        for i, token in enumerate(self.tokens):
            if token.attr not in (NORMAL, ADDED, BYTE) or (token.attr == BYTE and self.kind == BYTE_LEVEL):
                raise FormatError(f"{where}: attr of token {i} is {token.attr}")
            if (token.attr == BYTE and len(token.data) != 1) or (token.attr == ADDED and not token.data):
                raise FormatError(f"{where}: len of token {i} is {len(token.data)}")
            if token.attr == ADDED or (token.attr == NORMAL and self.kind == SENTENCEPIECE):
                try:
                    token.data.decode()
                except UnicodeDecodeError as error:
                    raise FormatError(f"{where}: token {i} is not valid UTF-8") from error
        found = [token.data[0] for token in self.tokens if token.attr == BYTE]
        if self.kind == SENTENCEPIECE and sorted(found) != list(range(256)):
            byte = next(b for b in range(256) if found.count(b) != 1)
            raise FormatError(f"{where}: {found.count(byte)} tokens stand for byte {byte:#04x}, must be one")

    def _validate_merges(self, where: str) -> None:
        seen: dict[tuple[int, int], int] = {}
        for i, (left, right, merged) in enumerate(self.merges.tolist()):
            if max(left, right, merged) >= len(self.tokens):
                raise FormatError(f"{where}: merge {i} names a token that is not below {len(self.tokens)}")
            if self.tokens[left].data + self.tokens[right].data != self.tokens[merged].data:
                raise FormatError(f"{where}: merge {i}: {left} and {right} do not make {merged}")
            if (first := seen.setdefault((left, right), i)) != i:
                raise FormatError(f"{where}: merge {i} repeats the pair of merge {first}")


def write(path: str | PathLike[str], mlt: Mlt) -> None:
    """Validate and write through a temporary file and a rename."""
    target = Path(path)
    mlt.validate(str(target))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    with access(target, "write"):
        try:
            temporary.write_bytes(mlt.pack())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def read(path: str | PathLike[str]) -> Mlt:
    """Read and validate a file."""
    with access(path, "read"):
        data = Path(path).read_bytes()
    try:
        mlt = unpack(data)
    except (struct.error, ValueError) as error:
        raise FormatError(f"{Path(path)}: {error}") from error
    mlt.validate(str(Path(path)))
    return mlt


def unpack(data: bytes) -> Mlt:
    """Take the bytes of a file apart; raises ValueError or struct.error if they are not one."""
    magic, version, kind, n_vocab, n_merges, bos, eos, flags = _HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise ValueError(f"magic and version are {magic!r} and {version}, must be {MAGIC!r} and {VERSION}")
    at = _HEADER.size
    tokens: list[Token] = []
    for _ in range(n_vocab):
        attr, length = _TOKEN.unpack_from(data, at)
        at += _TOKEN.size
        if length > len(data) - at:
            raise ValueError(f"token {len(tokens)} ends after the file")
        tokens.append(Token(data[at : at + length], attr))
        at += length
    merges = np.frombuffer(data, "<u4", 3 * n_merges, at).astype(np.uint32).reshape(-1, 3)
    at += merges.nbytes
    eos_ids: tuple[int, ...] = (eos,) if eos != -1 else ()
    if at < len(data):
        mark, count = struct.unpack_from("<4sI", data, at)
        if mark != _TRAILER or not 1 <= count <= MAX_EOS or len(data) != at + 8 + 4 * count:
            raise ValueError("what follows the merges is no EOTS trailer")
        listed: tuple[int, ...] = struct.unpack_from(f"<{count}i", data, at + 8)
        if eos not in listed:
            raise ValueError(f"eos is {eos}, which is not in the EOTS trailer")
        eos_ids = (eos, *(i for i in listed if i != eos))
    return Mlt(kind, tokens, merges, bos, eos_ids, flags)
