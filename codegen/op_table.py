"""ml_ops.c and ml_op_sizes.h: the op registry as a C table, for the programs that test and measure kernels."""

from __future__ import annotations

import re
from collections.abc import Sequence

from krafla.codegen.ops import OPS, Arg, Op, Sizes

_BANNER = "/* Written by krafla-gen from the op registry (codegen/ops.py); do not edit. */\n"
_MACROS = {"group": "ML_PACK_GROUP", "x_bytes": "ML_TILE_X_BYTES", "tile": "ML_TILE_TOKENS"}
_ELEMENTS = {"float": 4, "int32_t": 4, "uint16_t": 2, "int8_t": 1, "uint8_t": 1}


def op_sizes() -> str:
    """The header with the size arguments of all ops, and the other variables of their shapes."""
    names = dict.fromkeys(name for op in OPS for sizes in (*op.cases, *op.bench) for name in sizes)
    lines = [_BANNER, "#ifndef ML_OP_SIZES_H", "#define ML_OP_SIZES_H", "", "#include <stddef.h>", ""]
    return "\n".join(
        [
            *lines,
            f"typedef struct ml_op_sizes {{ size_t {', '.join(names)}; }} ml_op_sizes;",
            "",
            "#endif",
            "",
        ]
    )


def op_table() -> str:
    """The C file."""
    lines = [
        _BANNER,
        '#include "app/op_table.h"',
        '#include "ml_config.h"',
        '#include "scalar/k_scalar.h"',
        "",
    ]
    lines += ["#define TEXT_(x) #x", "#define TEXT(x) TEXT_(x)", ""]
    # Without packed kernels activations stay as they are.
    lines += ["#ifndef ML_TILE_X_BYTES", "#define ML_TILE_X_BYTES ML_BLOCK", "#endif"]
    lines += ["#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))"]
    for op in OPS:
        lines += ["", *_guarded(op, _functions(op))]
    lines += ["", "const ml_op ml_ops[] = {"]
    for op in OPS:
        lines += _guarded(op, [_row(op)])
    lines += ["};", "", "const int ml_op_count = (int)(sizeof ml_ops / sizeof *ml_ops);", ""]
    return "\n".join(lines)


def _guarded(op: Op, lines: Sequence[str]) -> list[str]:
    """Optional ops are in the table where the ISA binds them."""
    return [f"#if defined(ml_k_{op.name})", *lines, "#endif"] if op.optional else list(lines)


def _functions(op: Op) -> list[str]:
    lines = [f"static size_t count_{op.name}(const ml_op_sizes *s, int arg)", "{", "switch (arg) {"]
    for index, arg in enumerate(op.args):
        if arg.shape:
            lines += [f"case {index}: return {_c_expression(arg.shape)};"]
    lines += ["default: return 0;", "}", "}"]
    lines += _call(op, f"bound_{op.name}", f"ml_k_{op.name}")
    if not op.optional:
        lines += _call(op, f"scalar_{op.name}", op.symbol("scalar"))
    for name in ("flops", "bytes"):
        expression = _c_expression(getattr(op, name))
        used = "" if "s->" in expression else "(void)s;"
        lines += [f"static double {name}_{op.name}(const ml_op_sizes *s)", "{", used]
        lines += [f"return (double)({expression});", "}"]
    for name in ("cases", "bench"):
        rows = ", ".join(_sizes(sizes) for sizes in getattr(op, name))
        lines += [f"static const ml_op_sizes {name}_{op.name}[] = {{{rows}}};"]
    rows = ", ".join(_arg(arg) for arg in op.args)
    return [*lines, f"static const ml_op_arg args_{op.name}[] = {{{rows}}};"]


def _call(op: Op, name: str, kernel: str) -> list[str]:
    values = []
    for index, arg in enumerate(op.args):
        if arg.role == "size":
            values.append(f"({arg.type})s->{arg.name}" if arg.type != "size_t" else f"s->{arg.name}")
        else:
            values.append(f"c->{'values' if arg.role == 'value' else 'arrays'}[{index}]")
    lines = [f"static void {name}(const ml_op_call *c, const ml_op_sizes *s)", "{"]
    return [*lines, f"{kernel}({', '.join(values)});", "}"]


def _row(op: Op) -> str:
    packed = "_pk" in op.name
    twin = f'"matvec_{op.params["kind"]}"' if packed else "NULL"
    scalar = "NULL" if op.optional else f"scalar_{op.name}"
    counts = f"{len(op.cases)}, bench_{op.name}, {len(op.bench)}"
    return (
        f'{{"{op.name}", TEXT(ml_k_{op.name}), {twin}, args_{op.name}, {len(op.args)}, count_{op.name},'
        f" bound_{op.name}, {scalar}, flops_{op.name}, bytes_{op.name}, cases_{op.name}, {counts}}},"
    )


def _arg(arg: Arg) -> str:
    data = f"ML_DATA_{arg.data.upper().replace(' ', '_')}" if arg.data else "ML_DATA_NONE"
    element = _ELEMENTS[arg.type.removeprefix("const ").split()[0]] if "*" in arg.type else 0
    return f'{{"{arg.name}", ML_ROLE_{arg.role.upper()}, {data}, {element}}}'


def _sizes(sizes: Sizes) -> str:
    return "{" + ", ".join(f".{name} = {value}" for name, value in sizes.items()) + "}"


def _c_expression(shape: str) -> str:
    """A shape expression in C."""

    def word(match: re.Match[str]) -> str:
        name = match.group()
        return "CEIL_DIV" if name == "ceil" else _MACROS.get(name, f"s->{name}")

    return re.sub(r"[a-z_][a-z_0-9]*", word, shape).replace("//", "/")
