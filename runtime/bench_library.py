"""The measuring library of one ISA: its kernels, and probes of what the machine allows at most."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from krafla.codegen.isa import Machine
from krafla.codegen.ops import OPS, Op
from krafla.codegen.registry import bind, load_isas, machines
from krafla.runtime import cache, host, progress
from krafla.runtime import compile as compiler
from krafla.runtime.paths import CSRC, GENERATED

Array = npt.NDArray[Any]
SOURCES = ("app/measure.c", "model/profile.c")
MAX_ARGS = 16  # ML_MEASURED_ARGS
#: A probe runs for at least this long, and the best of so many tries counts.
PROBE_SECONDS, TRIES = 0.02, 5


class Call(ctypes.Structure):
    """ml_measured_call: one value per argument."""

    _fields_ = [
        ("arrays", ctypes.c_void_p * MAX_ARGS),
        ("values", ctypes.c_float * MAX_ARGS),
        ("sizes", ctypes.c_size_t * MAX_ARGS),
    ]

    def __init__(self, op: Op, given: Mapping[str, Any]) -> None:
        super().__init__()
        for index, arg in enumerate(op.args):
            if arg.role == "size":
                self.sizes[index] = given[arg.name]
            elif arg.role == "value":
                self.values[index] = given[arg.name]
            else:
                self.arrays[index] = given[arg.name].ctypes.data


def callers(isa: str, ops: Sequence[Op]) -> str:
    """A C file with one ml_measured function for every op that the ISA binds."""
    machine = machines()[isa]
    lines = ['#include "app/measure.h"', '#include "ml_config.h"']
    for op in ops:
        if (owner := bind(op, machine, load_isas())) is None:
            continue
        fields = {"size": "sizes", "value": "values"}
        values = [
            f"({arg.type})c->sizes[{i}]"
            if arg.role == "size"
            else f"c->{fields.get(arg.role, 'arrays')}[{i}]"
            for i, arg in enumerate(op.args)
        ]
        lines += [
            f"ML_API void ml_measured_{op.name}(const ml_measured_call *c);",
            f"void ml_measured_{op.name}(const ml_measured_call *c)",
            f"{{ {op.symbol(owner.name)}({', '.join(values)}); }}",
        ]
    return "\n".join(lines) + "\n"


@dataclass
class Library:
    """`Library("avx2")`: times its kernels; `generated` is the folder of the kernels' sources."""

    isa: str | None = None
    generated: Path = GENERATED
    ops: Sequence[Op] = OPS
    variant: Machine | None = (
        None  # what the kernels were rendered for, if not from the descriptors as they are
    )
    report: progress.Report = progress.silent
    _read: dict[tuple[int, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.facts = host.choose(self.isa)
        self.machine = self.variant or machines()[self.facts.name]
        self._c = ctypes.CDLL(str(compiler.build(self._plan(), self.report)))
        double, pointer = ctypes.c_double, ctypes.c_void_p
        for name, arguments in {
            "calls": [pointer, ctypes.POINTER(Call), ctypes.c_int, ctypes.c_int],
            "read": [pointer, ctypes.c_size_t, ctypes.c_int],
            "int8": [ctypes.c_int, ctypes.POINTER(double)],
            "float": [ctypes.c_int, ctypes.POINTER(double)],
        }.items():
            function = getattr(self._c, f"ml_measure_{name}")
            function.argtypes, function.restype = arguments, double

    def _plan(self) -> compiler.Plan:
        plan = compiler.engine_plan(self.facts, self.generated)
        wanted = {f"{op.name}.c" for op in self.ops}
        units = [u for u in plan.units if self.generated in u.source.parents and u.source.name in wanted]
        text = callers(self.facts.name, self.ops)
        source = cache.room("lib") / f"callers-{hashlib.sha256(text.encode()).hexdigest()[:20]}.c"
        if not source.is_file():
            with cache.replacing(source) as temporary:
                temporary.write_text(text, encoding="utf-8")
        mcpu = self.facts.mcpu or compiler.BASELINE
        units += [compiler.Unit(path, mcpu) for path in (source, *(CSRC / name for name in SOURCES))]
        return compiler.Plan(f"{plan.name}-measure", plan.triple, tuple(units), plan.flags, plan.includes)

    def binds(self, op: Op) -> str | None:
        """The ISA whose kernel serves an op, or None."""
        owner = bind(op, self.machine, load_isas())
        return owner.name if owner else None

    def time(self, op: Op, sets: Sequence[Mapping[str, Any]], repeats: int) -> float:
        """Seconds for so many calls, each with the next set of arrays, numbers and sizes."""
        calls = (Call * len(sets))(*(Call(op, given) for given in sets))
        kernel = getattr(self._c, f"ml_measured_{op.name}")
        return float(self._c.ml_measure_calls(kernel, calls, len(sets), repeats))

    @cached_property
    def limits(self) -> dict[str, Any]:
        """Operations per second of one thread, and the instructions that reach them."""
        limits: dict[str, Any] = {}
        for kind in ("int8", "float"):
            name = getattr(self._c, f"ml_measure_{kind}_name")
            name.restype = ctypes.c_char_p
            limits[kind] = {"instructions": name().decode(), "per_second": self.peak(kind)}
        return limits

    def peak(self, kind: str, threads: int = 1) -> float:
        """Operations per second: int8 inner products or float multiply-adds, all threads together."""
        probe = getattr(self._c, f"ml_measure_{kind}")

        def run(rounds: int) -> tuple[float, float]:
            operations = ctypes.c_double()
            return float(probe(rounds, ctypes.byref(operations))), operations.value

        rounds = 1
        while run(rounds)[0] < PROBE_SECONDS:
            rounds *= 2
        with ThreadPoolExecutor(threads) as pool:
            tries = [list(pool.map(run, [rounds] * threads)) for _ in range(TRIES)]
        return max(sum(done for _, done in rates) / max(s for s, _ in rates) for rates in tries)

    def read_bandwidth(self, working_set: int, threads: int = 1) -> float:
        """Bytes per second read from memory or cache by all threads, each on its part of the working set."""
        part = 1 << max(12, (max(working_set, 1) // threads - 1).bit_length())
        if (part, threads) not in self._read:
            self._read[part, threads] = self._measure_read(part, threads)
        return self._read[part, threads]

    def _measure_read(self, part: int, threads: int) -> float:
        data = huge(part * threads)
        data[:] = 1
        starts = [data.ctypes.data + part * i for i in range(threads)]

        def run(start: int, passes: int) -> float:
            return float(self._c.ml_measure_read(start, part, passes))

        passes = 1
        while run(starts[0], passes) < PROBE_SECONDS:
            passes *= 2
        with ThreadPoolExecutor(threads) as pool:
            tries = [max(pool.map(run, starts, [passes] * threads)) for _ in range(TRIES)]
        return part * threads * passes / min(tries)


def huge(size: int) -> npt.NDArray[np.uint8]:
    """Bytes in huge pages where the system gives them, as the engine keeps its weights."""
    pages = mmap.mmap(-1, size + (1 << 21) if size >= 1 << 21 else size + 64)
    if size >= 1 << 21 and hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    data = np.frombuffer(pages, np.uint8)
    boundary = 1 << 21 if size >= 1 << 21 else 64
    start = -data.ctypes.data % boundary
    return data[start : start + size]
