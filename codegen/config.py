"""ml_config.h and the kernel headers: which kernel serves each op, and the constants of each ISA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from krafla.codegen.isa import Isa, Machine
from krafla.codegen.ops import OPS, Op
from krafla.codegen.registry import bind, resolve

_BANNER = "/* Written by krafla-gen from isa_specs/; do not edit. */\n"


def kernel_header(machine: Machine, ops: Sequence[Op]) -> str:
    """Prototypes of the kernels that one ISA implements itself."""
    name = machine.name
    guard = f"ML_K_{name.upper()}_H"
    lines = [_BANNER, f"#ifndef {guard}", f"#define {guard}", "", '#include "core/ml.h"', ""]
    for op in ops:
        lines += [f"/* {op.doc} */", f"{op.signature(name)};"]
        lines += [f"#define ML_HAS_{op.name.upper()}_{name.upper()} 1", ""]
    lines += ["#endif", ""]
    return "\n".join(lines)


def config_header(isas: Mapping[str, Isa], numerics: str) -> str:
    """One block per ISA: constants and bindings, resolved by the generator."""
    lines = [
        _BANNER,
        "/*",
        " * Compile with -DML_ISA_<NAME>. The block of that ISA binds each ml_k_<op> to the kernel that serves it, and",
        " * gives the constants of its packed layout. A hand-written kernel takes an op's place when its name is",
        " * defined beforehand: -Dml_k_add=ml_k_add_mine, with a prototype through -include.",
        " */",
        "#ifndef ML_CONFIG_H",
        "#define ML_CONFIG_H",
        "",
        '#include "core/ml.h"',
        "",
    ]
    for index, isa in enumerate(isas.values()):
        machine = resolve(isa, isas)
        lines += ["", f"#{'elif' if index else 'if'} defined(ML_ISA_{isa.name.upper()})", f"/* {isa.doc} */"]
        lines += _isa_block(machine, isas, numerics)
    lines += ["", "#else", '#error "define ML_ISA_<NAME>, for example -DML_ISA_SCALAR"', "#endif", ""]
    lines += [
        "/* The one place where machines differ: multiply-add rounds once (fused) or twice. */",
        "#if ML_FUSED",
        "#define ml_madd ml_madd_fused",
        "#else",
        "#define ml_madd ml_madd_unfused",
        "#endif",
        "",
        "#endif",
        "",
    ]
    return "\n".join(lines)


def _isa_block(machine: Machine, isas: Mapping[str, Isa], numerics: str) -> list[str]:
    lines = [f'#include "{link.name}/k_{link.name}.h"' for link in machine.chain]
    lines += [f'#define ML_ISA_NAME "{machine.name}"']
    requires = " ".join(f"X({feature})" for feature in machine.features)
    lines += [f"#define ML_ISA_REQUIRES(X) {requires}".rstrip()]
    lines += _fused_lines(machine, numerics)
    lines += _pack_lines(machine)
    for op in OPS:
        owner = bind(op, machine, isas)
        if owner is not None:
            lines += [f"#ifndef ml_k_{op.name}", f"#define ml_k_{op.name} {op.symbol(owner.name)}", "#endif"]
    return lines


def _fused_lines(machine: Machine, numerics: str) -> list[str]:
    """ML_FUSED: 0 or 1, or decided by the target; scalar is unfused unless the build says otherwise."""
    fused = [target for target in machine.isa.targets if target.fused and numerics == "fused"]
    lines = ["#ifndef ML_FUSED"]
    if fused and len(fused) < len(machine.isa.targets):
        condition = " || ".join(f"({target.condition})" for target in fused)
        lines += [f"#if {condition}", "#define ML_FUSED 1", "#else", "#define ML_FUSED 0", "#endif"]
    else:
        lines += [f"#define ML_FUSED {int(bool(fused))}"]
    return [*lines, "#endif"]


def _pack_lines(machine: Machine) -> list[str]:
    if machine.pack is None or machine.tile is None:
        return []
    dot = machine.pack.dot
    return [
        "#define ML_HAS_PACK 1",
        f"#define ML_PACK_GROUP {dot.group}",
        f"#define ML_PACK_STEP {dot.step}",
        f"#define ML_PACK_Q8_OFFSET {dot.q8_offset}",
        f"#define ML_PACK_Q4_XOR {dot.q4_xor:#04x}",
        f"#define ML_PACK_F16_SCALES {int(machine.pack.f16 is not None)}",
        f"#define ML_TILE_TOKENS {machine.tile.tokens}",
        f"#define ML_TILE_X_BYTES {dot.x_bytes}",
        "#define ML_TILE_SUMS 2",
        f"#define ML_PREFETCH_DISTANCE {machine.prefetch_distance}",
        "#ifndef ML_USE_PREFETCH",
        f"#define ML_USE_PREFETCH {int(machine.prefetch_distance > 0)}",
        "#endif",
    ]
