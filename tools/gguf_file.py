"""Reads GGUF files: metadata and where the tensors lie. The gguf library then knows how to dequantize them.

The library's own reader makes several NumPy arrays per token of the vocabulary, which takes ten seconds and more.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from krafla.tools.errors import FormatError, access

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
_MAX_DIMENSIONS = 4


@dataclass(frozen=True)
class GgufTensor:
    """One tensor: its shape with rows first, and its bytes by rows."""

    name: str
    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    data: npt.NDArray[np.uint8]


@dataclass
class GgufFile:
    """A GGUF file's metadata by key, and its tensors by name."""

    path: Path
    values: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, GgufTensor] = field(default_factory=dict)

    def number(self, key: str, default: int) -> int:
        """A positive whole number, or the default where the key is absent."""
        value = self.values.get(key, default)
        if not isinstance(value, int) or value <= 0:
            raise FormatError(f"{self.path}: {key} is {value!r}, must be a positive number")
        return value


def read_gguf(path: str | PathLike[str]) -> GgufFile:
    """Read a GGUF file; raises AccessError, or FormatError with a sentence."""
    path = Path(path)
    with access(path, "read"):
        data = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
    return _Parser(path, data.view(np.ndarray)).parse()


class _Parser:
    def __init__(self, path: Path, data: npt.NDArray[np.uint8]) -> None:
        self.path = path
        self.array = data
        self.data = data.data
        self.at = 0

    def parse(self) -> GgufFile:
        if bytes(self.data[:4]) != MAGIC:
            raise FormatError(f"{self.path}: not a GGUF file: it starts with {bytes(self.data[:4])!r}")
        self.at = 4
        version = self.scalar("<I", "version")
        if version not in _VERSIONS:
            hint = " (a file for big-endian machines?)" if version & 0xFFFF == 0 else ""
            raise FormatError(f"{self.path}: GGUF version {version} is not supported{hint}")
        n_tensors, n_values = self.scalar("<Q", "header"), self.scalar("<Q", "header")
        file = GgufFile(self.path)
        for _ in range(n_values):
            key = self.string("a key")
            file.values[key] = self.value(self.scalar("<I", key), key)
        entries = [self.tensor_entry() for _ in range(n_tensors)]
        alignment = file.number("general.alignment", 32)
        start = -(-self.at // alignment) * alignment
        for name, shape, kind, offset in entries:
            if name in file.tensors:
                raise FormatError(f"{self.path}: {name} is there twice")
            file.tensors[name] = self.tensor(name, shape, kind, start + offset)
        return file

    def take(self, size: int, what: str) -> int:
        """The position of the next `size` bytes, and past them."""
        at = self.at
        if size > len(self.data) - at:
            raise FormatError(f"{self.path}: not a GGUF file that can be read: truncated within {what}")
        self.at = at + size
        return at

    def scalar(self, code: str, what: str) -> Any:
        return struct.unpack_from(code, self.data, self.take(struct.calcsize(code), what))[0]

    def string(self, what: str) -> str:
        size = self.scalar("<Q", what)
        at = self.take(size, what)
        try:
            return str(self.data[at : at + size], "utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"{self.path}: {what} is not valid UTF-8") from error

    def value(self, kind: int, key: str) -> Any:
        if kind == _STRING:
            return self.string(key)
        if kind != _ARRAY:
            return self.scalar(self.code(kind, key), key)
        kind, count = self.scalar("<I", key), self.scalar("<Q", key)
        if kind == _STRING:
            return [self.string(key) for _ in range(count)]
        dtype = np.dtype(self.code(kind, key))
        at = self.take(count * dtype.itemsize, key)
        return self.array[at : self.at].view(dtype).tolist()

    def code(self, kind: int, key: str) -> str:
        if kind not in _SCALARS:
            raise FormatError(f"{self.path}: {key} has the value type {kind}, which GGUF does not know")
        return _SCALARS[kind]

    def tensor_entry(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self.string("a tensor's name")
        count = self.scalar("<I", name)
        if not 1 <= count <= _MAX_DIMENSIONS:
            raise FormatError(f"{self.path}: {name} has {count} dimensions, must have 1 to {_MAX_DIMENSIONS}")
        dimensions = [self.scalar("<Q", name) for _ in range(count)]
        return name, tuple(reversed(dimensions)), self.scalar("<I", name), self.scalar("<Q", name)

    def tensor(self, name: str, shape: tuple[int, ...], kind: int, offset: int) -> GgufTensor:
        try:
            known = GGMLQuantizationType(kind)
        except ValueError as error:
            raise FormatError(f"{self.path}: {name} has the type {kind}, which gguf does not know") from error
        block, size = GGML_QUANT_SIZES[known]
        if shape[-1] % block or not all(shape):
            raise FormatError(
                f"{self.path}: {name} has the shape {list(shape)}, not whole blocks of {block} ({known.name})"
            )
        rows, row_bytes = math.prod(shape[:-1]), shape[-1] // block * size
        self.at = min(offset, len(self.data))
        at = self.take(rows * row_bytes, name)
        return GgufTensor(name, shape, known, self.array[at : self.at].reshape(rows, row_bytes))
