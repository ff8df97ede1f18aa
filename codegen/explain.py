"""What `krafla-gen --list` and `--explain` print."""

from __future__ import annotations

from collections.abc import Mapping

from krafla.codegen.isa import FACETS, Isa, Machine
from krafla.codegen.ops import BY_NAME, OPS, Op
from krafla.codegen.registry import bind, emits, resolve


class UnknownNameError(ValueError):
    """Neither an ISA nor an op has this name."""


def list_isas(isas: Mapping[str, Isa]) -> str:
    """One line per ISA: parent, class, facets it defines, and how many kernels it has of its own."""
    lines = []
    for isa in isas.values():
        machine = resolve(isa, isas)
        kernels = sum(emits(op, machine) for op in OPS)
        facets = ", ".join(isa.own_facets)
        lines.append(
            f"{isa.name:<12} -> {isa.parent or '-':<8} {_class_of(machine):<8} {kernels:>2} kernels  {facets}"
        )
    return "\n".join(lines)


def explain(name: str, isas: Mapping[str, Isa]) -> str:
    """Everything about one ISA, or one op across all ISAs."""
    if name in isas:
        return _explain_isa(resolve(isas[name], isas), isas)
    if name in BY_NAME:
        return _explain_op(BY_NAME[name], isas)
    raise UnknownNameError(
        f"--explain {name}: neither an ISA ({', '.join(isas)}) nor an op ({', '.join(BY_NAME)})"
    )


def _class_of(machine: Machine) -> str:
    return {True: "fused", False: "unfused", None: "either"}[machine.fused]


def _explain_isa(machine: Machine, isas: Mapping[str, Isa]) -> str:
    isa = machine.isa
    lines = [
        f"{isa.name}: {isa.doc}",
        f"  chain     {' -> '.join(link.name for link in machine.chain)}",
        f"  class     {_class_of(machine)}",
        f"  features  {', '.join(machine.features) or 'none'}",
    ]
    lines += [f"  target    {target.triple}, -mcpu={target.mcpu}" for target in isa.targets]
    for facet in FACETS:
        if getattr(machine, facet) is not None:
            owner = machine.owner(facet)
            lines.append(f"  {facet:<9} {'its own' if owner is isa else 'from ' + owner.name}")
    if machine.pack is not None:
        dot = machine.pack.dot
        lines.append(
            f"  layout    {dot.group} rows a group, Q8 offset {dot.q8_offset}, Q4 xor {dot.q4_xor:#04x}"
        )
        lines.append(f"  why       {dot.note}")
    lines.append(f"  row-major {machine.rowdot.note}")
    lines.append("  kernels")
    for op in OPS:
        owner_isa = bind(op, machine, isas)
        lines.append(f"    {op.name:<18} {op.symbol(owner_isa.name) if owner_isa else 'absent'}")
    return "\n".join(lines)


def _explain_op(op: Op, isas: Mapping[str, Isa]) -> str:
    lines = [
        f"{op.name}: {op.doc}",
        f"  template  templates/{op.template}",
        f"  needs     {', '.join(sorted(op.needs))}",
        *([f"  uses      {', '.join(sorted(op.prefers))} where there is one"] if op.prefers else []),
        "  arguments",
    ]
    lines += [
        f"    {arg.declaration:<22} {arg.role:<6} {arg.shape:<12} {arg.doc}".rstrip() for arg in op.args
    ]
    lines.append("  provided by")
    for isa in isas.values():
        owner = bind(op, resolve(isa, isas), isas)
        lines.append(f"    {isa.name:<12} {owner.name if owner else 'absent'}")
    return "\n".join(lines)
