"""Opens the engine for tests: an `Engine` per ISA and set of options, sequences and logits as arrays."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from krafla.runtime import host
from krafla.runtime.bind import Api
from krafla.runtime.engine import engine as load

Logits = npt.NDArray[np.float32]
KV_TYPES = ("f32", "f16", "q8")
Row = tuple[int, int, int, bool]  # sequence, position, token, wants logits


def usable_isas() -> list[str]:
    """The generated ISAs that this CPU runs."""
    return [entry.facts.name for entry in host.survey() if entry.usable]


def is_fused(isa: str) -> bool:
    """Whether an ISA's multiply-adds round once on this machine, as its descriptor says."""
    targets = import_module(f"krafla.isa_specs.{isa}").ISA.targets
    return any(target.fused for target in targets if target.triple.startswith(platform.machine()))


class Engine:
    """An open engine; `with Engine(path, threads=2) as e: e.logits([1, 2, 3])`."""

    def __init__(self, path: Path, isa: str = "scalar", kv: str = "f32", **options: Any) -> None:
        self.api: Api = load(isa)[0]
        settings = {"threads": 1, "pack": 1, **options}
        self.options = self.api.types.ml_options(kv_type=KV_TYPES.index(kv), **settings)
        self.handle = ctypes.c_void_p()
        self.api.fn.ml_engine_open(ctypes.byref(self.handle), bytes(path), ctypes.byref(self.options))
        self.info = self.api.types.ml_info()
        self.api.fn.ml_engine_info(self.handle, ctypes.byref(self.info))

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.api.fn.ml_engine_close(self.handle)

    def open(self) -> int:
        sequence = ctypes.c_int32()
        self.api.fn.ml_sequence_open(self.handle, ctypes.byref(sequence))
        return sequence.value

    def fork(self, source: int, length: int) -> int:
        sequence = ctypes.c_int32()
        self.api.fn.ml_sequence_fork(self.handle, source, length, ctypes.byref(sequence))
        return sequence.value

    def truncate(self, sequence: int, length: int) -> None:
        self.api.fn.ml_sequence_truncate(self.handle, sequence, length)

    def close(self, sequence: int) -> None:
        self.api.fn.ml_sequence_close(self.handle, sequence)

    def length(self, sequence: int) -> int:
        return int(self.api.fn.ml_sequence_length(self.handle, sequence))

    def forward(self, rows: Iterable[Row]) -> Logits:
        """Logits of the rows that want them."""
        listed = list(rows)
        array = (self.api.types.ml_row * max(len(listed), 1))(*listed)
        out = np.full((sum(bool(row[3]) for row in listed), self.info.vocab), np.nan, np.float32)
        pointer = out.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        self.api.fn.ml_forward(self.handle, array, len(listed), pointer)
        return out

    def extend(self, sequence: int, tokens: Sequence[int], wants: bool = True) -> Logits:
        """Appends tokens to a sequence."""
        start = self.length(sequence)
        return self.forward((sequence, start + i, token, wants) for i, token in enumerate(tokens))

    def logits(self, tokens: Sequence[int]) -> Logits:
        """Logits at every position of a sequence of its own."""
        sequence = self.open()
        out = self.extend(sequence, tokens)
        self.close(sequence)
        return out
