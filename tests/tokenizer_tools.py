"""What the tokenizer tests share: the C tokenizer, the SmolLM2 vocabulary, random strings."""

from __future__ import annotations

import ctypes
import gzip
import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from krafla.tools.gguf_tokenizer import from_gguf
from krafla.tools.mlt import Mlt
from tests.native import build_library

DATA = Path(__file__).resolve().parent / "data"
SOURCES = (
    *("core/error.c", "core/arena.c", "core/bundle.c", "core/file.c"),
    *(f"model/{n}.c" for n in ("tokenizer", "bpe", "mlt", "llama2_tokenizer", "unicode", "pretokenize")),
)
SANITIZE = ("-fsanitize=undefined", "-fsanitize-trap=undefined")
FORMAT, SHAPE, ARGUMENT = 2, 3, 7
WITH_BOS, NO_BOS, NO_ADDED = 1, 2, 4


class Error(ctypes.Structure):
    _fields_: ClassVar[list[Any]] = [("status", ctypes.c_int), ("message", ctypes.c_char * 1020)]


class TokenizerError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@cache
def library(sanitize: bool = True) -> ctypes.CDLL:
    built = build_library(SOURCES, extra=SANITIZE if sanitize else ())
    built.ml_tokenizer_close.argtypes = [ctypes.c_void_p]
    return built


class CTokenizer:
    """A tokenizer opened by the C code."""

    def __init__(self, path: Path, vocab: int = 0, sanitize: bool = True) -> None:
        self.library = library(sanitize)
        self.handle = ctypes.c_void_p()
        self._call("ml_tokenizer_open", ctypes.byref(self.handle), str(path).encode(), vocab)
        self.vocab: int = self.library.ml_tokenizer_vocab(self.handle)
        self.bos: int = self.library.ml_tokenizer_bos(self.handle)

    def __del__(self) -> None:
        self.library.ml_tokenizer_close(self.handle)

    def _call(self, name: str, *arguments: Any) -> None:
        error = Error()
        status = getattr(self.library, name)(*arguments, ctypes.byref(error))
        if status:
            assert status == error.status
            raise TokenizerError(status, error.message.decode())

    def encode(self, text: str | bytes, flags: int = 0, capacity: int | None = None) -> list[int]:
        """The ids; with a capacity, as many as fit, and a check that none is written beyond it."""
        data = text if isinstance(text, bytes) else text.encode()
        room = 4 * len(data) + 8 if capacity is None else capacity
        ids = (ctypes.c_int32 * (room + 1))()
        ids[room] = -7
        count = ctypes.c_size_t()
        length, size = ctypes.c_size_t(len(data)), ctypes.c_size_t(room)
        self._call("ml_tokenizer_encode", self.handle, data, length, flags, ids, size, ctypes.byref(count))
        assert ids[room] == -7
        self.count = count.value
        return list(ids[: min(room, count.value)])

    def piece(self, previous: int, token: int) -> bytes:
        data, length = ctypes.c_void_p(), ctypes.c_size_t()
        pointers = ctypes.byref(data), ctypes.byref(length)
        self._call("ml_tokenizer_decode", self.handle, previous, token, *pointers)
        return ctypes.string_at(data, length.value) if data.value else b""

    def decode(self, ids: Sequence[int]) -> str:
        pieces = [self.piece(before, token) for before, token in zip([-1, *ids], ids, strict=False)]
        return b"".join(pieces).decode("utf-8", "replace")

    def eos(self) -> list[int]:
        count = self.library.ml_tokenizer_eos(self.handle, None, 0)
        ids = (ctypes.c_int32 * (count + 1))(*[-7] * (count + 1))
        assert self.library.ml_tokenizer_eos(self.handle, ids, count) == count
        assert ids[count] == -7
        return list(ids[:count])

    def is_added(self, token: int) -> bool:
        return bool(self.library.ml_tokenizer_is_added(self.handle, token))


def load(name: str) -> Any:
    return json.loads(gzip.decompress((DATA / name).read_bytes()))


@cache
def smollm2_values() -> dict[str, Any]:
    """SmolLM2's vocabulary as its GGUF file holds it."""
    data = load("smollm2_tokenizer.json.gz")
    tokens = [*data["first"], *(rule.replace(" ", "") for rule in data["merges"])]
    return {
        "ggml.model": "gpt2",
        "ggml.pre": "smollm",
        "ggml.tokens": tokens,
        "ggml.token_type": [3] * data["added"] + [1] * (len(tokens) - data["added"]),
        "ggml.merges": data["merges"],
        "ggml.bos_token_id": 1,
        "ggml.eos_token_id": 2,
        "ggml.add_bos_token": False,
        "ggml.add_space_prefix": False,
    }


@cache
def smollm2() -> Mlt:
    return from_gguf(smollm2_values(), "smollm2")


def random_text(rng: random.Random, pieces: Sequence[str], most: int = 14) -> str:
    """Characters of all planes, digits, white space, contractions, marks to compose, and the given pieces."""

    def run(alphabet: Sequence[int], longest: int) -> str:
        return "".join(chr(rng.choice(alphabet)) for _ in range(rng.randint(1, longest)))

    parts: list[str] = []
    for _ in range(rng.randint(0, most)):
        match rng.randrange(8):
            case 0:
                code = rng.randrange(0x110000 - 0x800)
                parts.append(chr(code if code < 0xD800 else code + 0x800))
            case 1:
                parts.append(run(DIGITS, 7))
            case 2:
                parts.append(run(SPACES, 5))
            case 3:
                parts.append(rng.choice(["'s", "'RE", "'ll", "'ſ", "'T", "'d", "'", "’s"]))
            case 4:
                parts.append(run(COMPOSING, 6))
            case 5:
                parts.append(run(range(0x20, 0x7F), 6))
            case _:
                parts.append(rng.choice(pieces))
    return "".join(parts)


DIGITS = [*map(ord, "0123456789²½٣۴Ⅷ𝟘"), 0x11DE0]
SPACES = [*map(ord, "   \t\n\r\v\x85\xa0\u2003\u2028\u3000")]
COMPOSING = [
    *range(0x300, 0x370),
    *range(0x61, 0x7B),
    *range(0xC0, 0x250),
    *range(0x1100, 0x1200, 7),
    *range(0xAC00, 0xD7A4, 97),
    *(0x9C7, 0x9BE, 0x9D7, 0x1B35, 0x1B05, 0x11935, 0x11930, 0x2ADC, 0x338, 0x7FD),
]
