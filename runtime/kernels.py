"""The kernels of one ISA as Python functions over NumPy arrays, bound from the op registry."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from krafla.codegen.ops import OPS, Arg
from krafla.codegen.registry import bind, load_isas, machines
from krafla.runtime import compile as compiler
from krafla.runtime import host, progress
from krafla.runtime.bind import SCALARS
from krafla.runtime.paths import GENERATED


class Kernels:
    """`Kernels("avx2").softmax(x, len(x))`: every op that the ISA has, with the C arguments of its declaration.

    An array of another type, or one that is not contiguous, is refused; its length is the caller's to get right.
    """

    def __init__(self, isa: str | None = None, report: progress.Report = progress.silent) -> None:
        facts = host.choose(isa)
        plan = compiler.engine_plan(facts, GENERATED)
        units = tuple(unit for unit in plan.units if GENERATED in unit.source.parents)
        flags = tuple(flag for flag in plan.flags if flag != "-fvisibility=hidden")
        path = compiler.build(replace(plan, name=f"{facts.name}-kernels", units=units, flags=flags), report)
        library, machine = ctypes.CDLL(str(path)), machines()[facts.name]
        self.machine = machine
        self._functions: dict[str, Callable[..., Any]] = {}
        for op in OPS:
            if owner := bind(op, machine, load_isas()):
                function = library[op.symbol(owner.name)]
                function.argtypes = [_argument(arg) for arg in op.args]
                function.restype = SCALARS[op.returns]
                self._functions[op.name] = function

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The kernel of that name."""
        try:
            return self._functions[name]
        except KeyError:
            raise AttributeError(f"{self.machine.name} has no kernel {name}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]


def _argument(arg: Arg) -> Any:
    base = arg.type.removeprefix("const ").rstrip(" *")
    if not arg.type.endswith("*"):
        return SCALARS[base]
    element = np.dtype(SCALARS[base])
    if arg.role == "in":
        return np.ctypeslib.ndpointer(element, flags="C_CONTIGUOUS")
    return np.ctypeslib.ndpointer(element, flags=("C_CONTIGUOUS", "WRITEABLE"))
