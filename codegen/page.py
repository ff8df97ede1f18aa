"""kernels.md: every ISA and every kernel on one page, from the descriptors and the op registry."""

from __future__ import annotations

from collections.abc import Mapping

from krafla.codegen.isa import Isa, Machine
from krafla.codegen.ops import OPS, Op
from krafla.codegen.registry import bind, resolve

_CLASS = {True: "fused", False: "unfused", None: "either"}


def kernel_page(isas: Mapping[str, Isa]) -> str:
    """Markdown: the ISAs, who supplies which kernel where, and each kernel's arguments."""
    machines = {name: resolve(isa, isas) for name, isa in isas.items()}
    lines = [
        "# Kernels",
        "",
        "Written by krafla-gen from `isa_specs/` and `codegen/ops.py`; do not edit.",
        "",
    ]
    lines += _isa_table(machines)
    lines += _binding_table(machines, isas)
    for op in OPS:
        lines += _op_section(op)
    return "\n".join(lines)


def _isa_table(machines: Mapping[str, Machine]) -> list[str]:
    lines = ["## Instruction sets", ""]
    lines += [
        "| ISA | inherits from | multiply-add | own facets | CPU features | where |",
        "|---|---|---|---|---|---|",
    ]
    for name, machine in machines.items():
        isa = machine.isa
        lines.append(
            f"| {name} | {isa.parent or ''} | {_CLASS[machine.fused]} | {', '.join(isa.own_facets)} |"
            f" {', '.join(isa.features)} | {isa.doc} |"
        )
    lines += ["", "How packed weights are multiplied, and why:", ""]
    for name, machine in machines.items():
        if machine.isa.pack is not None:
            dot = machine.isa.pack.dot
            lines.append(
                f"- **{name}**: {dot.group} rows a group, Q8 stored with +{dot.q8_offset}, Q4 XOR"
                f" {dot.q4_xor:#04x}. {dot.note}"
            )
        tile = machine.isa.tile
        if tile is not None and tile.matrix is not None:
            lines.append(f"- **{name}**, matrix tiles: {tile.matrix.note}")
        if tile is not None and tile.pairs is not None:
            lines.append(f"- **{name}**, pairs of tokens: {tile.pairs.note}")
    return [*lines, ""]


def _binding_table(machines: Mapping[str, Machine], isas: Mapping[str, Isa]) -> list[str]:
    lines = [
        "## Who supplies what",
        "",
        "Each column is a build; a cell names the ISA whose kernel serves it.",
        "",
    ]
    lines += [f"| kernel | {' | '.join(machines)} |", f"|---|{'---|' * len(machines)}"]
    for op in OPS:
        owners = [bind(op, machine, isas) for machine in machines.values()]
        cells = [owner.name if owner is not None else "-" for owner in owners]
        lines.append(f"| [{op.name}](#{op.name}) | {' | '.join(cells)} |")
    return [*lines, ""]


def _op_section(op: Op) -> list[str]:
    uses = f", uses {', '.join(sorted(op.prefers))} where there is one" if op.prefers else ""
    lines = [f"## {op.name}", "", op.doc, ""]
    lines += [f"Template `{op.template}`; needs {', '.join(sorted(op.needs))}{uses}.", ""]
    lines += ["| argument | role | elements | |", "|---|---|---|---|"]
    for arg in op.args:
        shape = f"`{arg.shape}`" if arg.shape else ""
        lines.append(f"| `{arg.declaration}` | {arg.role} | {shape} | {arg.doc or arg.data} |")
    return [*lines, ""]
