"""python -m tests.guard_pages ISA: runs an ISA's kernels on buffers that end at an inaccessible page."""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Any

import numpy as np

from tests import kernels
from tests.kernels import Array

_PROT_NONE = 0


class GuardPages:
    """Arrays that end at the end of a page which an inaccessible one follows."""

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []  # never unmapped: the process is short
        self._mprotect = ctypes.CDLL(None, use_errno=True).mprotect
        self._mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

    def array(self, content: Array) -> Array:
        pages = -(-content.nbytes // mmap.PAGESIZE)
        region = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
        self._maps.append(region)
        whole = np.frombuffer(region, np.uint8)
        end = pages * mmap.PAGESIZE
        if self._mprotect(whole.ctypes.data + end, mmap.PAGESIZE, _PROT_NONE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
        placed = whole[end - content.nbytes : end].view(content.dtype)
        placed[:] = content.reshape(-1)
        return placed


def main(isa: str) -> None:
    assert not kernels.missing_feature(isa)  # the check also asks the system for what must be asked for
    assert not kernels.missing_feature(isa)  # asking also gets the system's leave, where it is needed
    loaded = kernels.load(isa)
    guard = GuardPages()
    for op in kernels.OPS:
        if not loaded.binds(op):
            continue
        print(op.name, flush=True)
        for _, given in kernels.cases(op, ["plain"]):
            arguments: dict[str, Any] = {}
            for name, value in kernels.c_arguments(loaded, op, given).items():
                arguments[name] = guard.array(value) if isinstance(value, np.ndarray) else value
            loaded.call(op, arguments)


if __name__ == "__main__":
    main(sys.argv[1])
