"""Renders kernels: descriptors and strategies meet the templates here, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import jinja2

import krafla.templates
from krafla.codegen import registry
from krafla.codegen.config import config_header, kernel_header
from krafla.codegen.isa import Isa, Machine
from krafla.codegen.lanes import F16, F32, Lanes, Loops
from krafla.codegen.op_table import op_sizes, op_table
from krafla.codegen.ops import OPS, PAGE, Op
from krafla.codegen.page import kernel_page
from krafla.codegen.reduce import Reductions
from krafla.codegen.scan import unused_parameters

Numerics = Literal["fused", "unfused"]

_TEMPLATES = Path(str(krafla.templates.__path__[0]))


@dataclass(frozen=True)
class Renderer:
    """Renders one set of descriptors. `numerics="unfused"` puts every ISA into class U."""

    isas: dict[str, Isa] = field(default_factory=registry.load_isas)
    numerics: Numerics = "fused"

    def machine(self, name: str) -> Machine:
        """An ISA with its inheritance resolved."""
        return registry.resolve(self.isas[name], self.isas)

    def kernel(self, op: Op, name: str) -> str:
        """The C file of one op for one ISA, unformatted."""
        machine = self.machine(name)
        text = _environment().get_template(op.template).render(self._context(machine, op))
        return unused_parameters(text, [arg.name for arg in op.args])

    def math_header(self, name: str) -> str:
        """exp over one machine's lanes, as inline functions."""
        machine = self.machine(name)
        return _environment().get_template("simd_math.h.j2").render(self._context(machine, None))

    def files(self, names: Sequence[str]) -> dict[str, str]:
        """Everything the generator writes for these ISAs: relative path -> unformatted text."""
        written = {"ml_config.h": config_header(self.isas, self.numerics)}
        written |= {"ml_op_sizes.h": op_sizes(), "ml_ops.c": op_table()}
        written["kernels.md"] = kernel_page(self.isas)
        for name in names:
            machine = self.machine(name)
            ops = [op for op in OPS if registry.emits(op, machine)]
            written[f"{name}/k_{name}.h"] = kernel_header(machine, ops)
            if "f32" in machine.isa.own_facets:
                written[f"{name}/math_{name}.h"] = self.math_header(name)
            for op in ops:
                written[f"{name}/{op.name}.c"] = self.kernel(op, name)
        return written

    def _fused(self, machine: Machine) -> bool | None:
        fused = machine.fused
        return False if fused and self.numerics == "unfused" else fused

    def _context(self, machine: Machine, op: Op | None) -> dict[str, Any]:
        scalar = self.isas["scalar"]
        assert scalar.f32 is not None
        tail = Lanes(scalar.f32, scalar.f16, "scalar", fused=None)
        lanes = self._lanes(machine, machine.f32, machine.f16)
        context: dict[str, Any] = {
            "isa": machine.isa,
            "machine": machine,
            "op": op,
            "f32": Loops(lanes, tail),
            "reduce": Reductions(machine.reduce, lanes, tail),
            "rowdot": machine.rowdot,
            "math_headers": sorted({machine.owner("f32").name, "scalar"}),
            **(op.params if op else {}),
        }
        if machine.pack is not None:
            context["dot"] = machine.pack.dot
            context["lanes"] = self._lanes(machine, machine.pack.lanes, machine.pack.f16)
            context["tile"] = machine.tile
            context["score_tiles"] = machine.pack.score_tiles(PAGE)
        return context

    def _lanes(self, machine: Machine, words: F32, f16: F16 | None) -> Lanes:
        return Lanes(words, f16, machine.owner("f32").name, self._fused(machine))


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["comment"] = _comment
    return environment


def _comment(text: str, width: int = 104) -> str:
    """Lines of a block comment, wrapped."""
    words, lines, line = text.split(), [], ""
    for word in words:
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join(f" * {part}" for part in [*lines, line])
