"""Finds the ISA descriptors, resolves what each inherits, and checks them against each other."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import krafla.isa_specs
from krafla.codegen.dots import BlockDot, Dot
from krafla.codegen.isa import FACETS, Isa, Machine
from krafla.codegen.ops import OPS, Op


class DescriptorError(ValueError):
    """A descriptor contradicts itself or another one."""


@cache
def load_isas() -> dict[str, Isa]:
    """All descriptors of isa_specs/ by name, lowest priority first; each module's `ISA` is one."""
    isas = []
    for module_info in pkgutil.iter_modules(krafla.isa_specs.__path__):
        module = importlib.import_module(f"krafla.isa_specs.{module_info.name}")
        isa = getattr(module, "ISA", None)
        if not isinstance(isa, Isa) or isa.name != module_info.name:
            raise DescriptorError(
                f"isa_specs/{module_info.name}.py: defines no ISA named {module_info.name!r}"
            )
        isas.append(isa)
    isas.sort(key=lambda isa: (isa.priority, isa.name))
    check(isas)
    return {isa.name: isa for isa in isas}


@cache
def machines() -> dict[str, Machine]:
    """Every ISA with its inheritance resolved."""
    isas = load_isas()
    return {name: resolve(isa, isas) for name, isa in isas.items()}


def chain(isa: Isa, isas: Mapping[str, Isa]) -> tuple[Isa, ...]:
    """The ISA and its ancestors, down to the one without a parent."""
    links = [isa]
    while (parent := links[-1].parent) is not None:
        if parent not in isas:
            raise DescriptorError(
                f"isa_specs/{links[-1].name}.py: parent is {parent!r}, which does not exist"
            )
        if isas[parent] in links:
            raise DescriptorError(f"isa_specs/{isa.name}.py: its chain of parents runs in a circle")
        links.append(isas[parent])
    return tuple(links)


def resolve(isa: Isa, isas: Mapping[str, Isa]) -> Machine:
    """Fills every facet that the ISA leaves out from the nearest ancestor that defines it."""
    links = chain(isa, isas)

    def inherited(facet: str) -> Any:
        return next((getattr(link, facet) for link in links if getattr(link, facet) is not None), None)

    for facet in ("f32", "reduce", "f16", "rowdot"):
        if inherited(facet) is None:
            raise DescriptorError(f"isa_specs/{isa.name}.py: no ISA of its chain defines {facet}")
    return Machine(
        isa=isa,
        chain=links,
        features=tuple(feature for link in reversed(links) for feature in link.features),
        prefetch_distance=inherited("prefetch_distance") or 0,
        **{facet: inherited(facet) for facet in FACETS},
    )


def emits(op: Op, machine: Machine) -> bool:
    """Whether the generator writes this op for this ISA: it defines a facet the op needs, and has the others."""
    return op.available(machine) and any(facet in op.needs | op.prefers for facet in machine.isa.own_facets)


def bind(op: Op, machine: Machine, isas: Mapping[str, Isa]) -> Isa | None:
    """The ISA of the chain whose kernel serves this op on this machine; None if an optional op is absent."""
    if not op.available(machine):
        return None
    for link in machine.chain:
        if emits(op, resolve(link, isas)):
            return link
    return None


def check(isas: Iterable[Isa]) -> None:
    """Raises DescriptorError for the first contradiction between descriptors."""
    by_name: dict[str, Isa] = {}
    for isa in isas:
        if isa.name in by_name:
            raise DescriptorError(f"isa_specs: two descriptors are named {isa.name!r}")
        by_name[isa.name] = isa
    for isa in by_name.values():
        _check_chain(isa, by_name)
        machine = resolve(isa, by_name)
        _check_lanes(machine)
        _check_class(machine, by_name)
        _check_pack(machine, by_name)
        _check_ops(machine, by_name)


def _check_chain(isa: Isa, isas: Mapping[str, Isa]) -> None:
    end = chain(isa, isas)[-1].name
    if end != "scalar":
        raise DescriptorError(f"isa_specs/{isa.name}.py: its chain of parents ends at {end!r}, not at scalar")


def _check_lanes(machine: Machine) -> None:
    if machine.f16.lanes != machine.f32.lanes:
        raise DescriptorError(
            f"isa_specs/{machine.name}.py: f16 has {machine.f16.lanes} lanes, f32 has {machine.f32.lanes};"
            " an ISA that redefines f32 defines f16 too"
        )
    if machine.owner("f32") is not machine.owner("reduce"):
        raise DescriptorError(f"isa_specs/{machine.name}.py: reduce is not defined together with f32")
    if machine.fused and not machine.f32.fma:
        raise DescriptorError(f"isa_specs/{machine.name}.py: fused, but its f32 words have no fma")


def _check_class(machine: Machine, isas: Mapping[str, Isa]) -> None:
    """Every kernel that a machine binds rounds in the machine's class, or in that of the build."""
    for op in OPS:
        owner = bind(op, machine, isas)
        if owner is None or owner.parent is None:
            continue
        fused = resolve(owner, isas).fused
        if fused is not None and fused != machine.fused:
            raise DescriptorError(
                f"isa_specs/{machine.name}.py: {op.name} falls back to {owner.name}, whose multiply-add rounds"
                " differently; redefine the facets it needs"
            )


def _check_pack(machine: Machine, isas: Mapping[str, Isa]) -> None:
    if machine.pack is None:
        return
    dot, lanes = machine.pack.dot, machine.pack.lanes.lanes
    if lanes and dot.group != lanes:
        raise DescriptorError(
            f"isa_specs/{machine.name}.py: pack.group is {dot.group}, its lanes are {lanes}"
        )
    if machine.tile is None or machine.tile.sizes[-1] != 1:
        raise DescriptorError(f"isa_specs/{machine.name}.py: packed kernels need a tile whose last size is 1")
    pairs, groups = machine.tile.pairs, machine.tile.groups
    if groups > 1 and (machine.tile.sizes[0] % groups or pairs is not None or isinstance(dot, BlockDot)):
        raise DescriptorError(
            f"isa_specs/{machine.name}.py: tile.groups is {groups}: it must divide the largest size, and the inner"
            " product must go step by step"
        )
    if pairs is not None and _layout(pairs) != _layout(machine.pack.dot):
        raise DescriptorError(
            f"isa_specs/{machine.name}.py: tile.pairs reads another packed layout than pack.dot"
        )


def _layout(dot: Dot) -> tuple[int, int, int, int]:
    """What decides where the bytes of packed weights lie and what they hold."""
    return dot.group, dot.step, dot.q8_offset, dot.q4_xor


def _check_ops(machine: Machine, isas: Mapping[str, Isa]) -> None:
    for op in OPS:
        if bind(op, machine, isas) is None and not op.optional:
            raise DescriptorError(f"isa_specs/{machine.name}.py: nothing in its chain provides {op.name}")
