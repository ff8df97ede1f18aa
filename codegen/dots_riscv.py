"""Dot strategies of RISC-V vectors: widening multiply-accumulate, any vector length from 128 bits."""

from __future__ import annotations

from dataclasses import dataclass

from krafla.codegen.dots import BLOCK, IntArray, Kind, wrap


@dataclass(frozen=True)
class RvvMacc:
    """Sixteen rows times one scalar activation; `vl` is 16 whatever the vector length."""

    group: int = 16
    step: int = 1
    steps_per_mac: int = 2
    q8_offset: int = 0
    q4_offset: int = 0
    q4_xor: int = 0x88
    x_bytes: int = BLOCK
    note: str = (
        "No byte dot product, but bytes times a scalar: a step is one byte of each of sixteen rows, so the activation"
        " is a scalar operand. Two products (at most 32258) fit into 16 bits before they are widened. Q4 bytes are"
        " stored XOR 0x88, so that a nibble is the signed value q - 8; all 32 products of a block (at most 32512)"
        " fit into 16 bits."
    )

    def sum_type(self, kind: Kind) -> str:
        """Sixteen lanes: a register group of four at 128 bits, or of two."""
        return "vint32m4_t" if kind == "q8" else "vint16m2_t"

    def consts(self, kind: Kind) -> str:
        """The number of lanes at work."""
        return f"const size_t vl = {self.group}; /* rows of a group */"

    def start(self, kind: Kind, correction: str) -> str:
        """Zero."""
        return f"__riscv_vmv_v_x_{'i32m4' if kind == 'q8' else 'i16m2'}(0, vl)"

    def w_load(self, kind: Kind, p: str) -> str:
        """Two steps of signed bytes."""
        lines = []
        for k in (0, 1):
            at = f"{p} + {self.group}" if k else p
            load = f"__riscv_vle8_v_i8m1((const int8_t *)({at}), vl)"
            if kind == "q8":
                lines.append(f"const vint8m1_t w0_{k} = {load};")
                continue
            lines += [
                f"const vint8m1_t packed{k} = {load};",
                f"const vint8m1_t w0_{k} = __riscv_vsra_vx_i8m1(__riscv_vsll_vx_i8m1(packed{k}, 4, vl), 4, vl);",
                f"const vint8m1_t w1_{k} = __riscv_vsra_vx_i8m1(packed{k}, 4, vl); /* elements 16 to 31 */",
            ]
        return "\n".join(lines)

    def x_load(self, kind: Kind, half: int, tokens: int, x: str) -> str:
        """Nothing: activations are scalars."""
        return ""

    def mac(self, kind: Kind, half: int, isum: str, token: int, tokens: int, x: str) -> str:
        """Q8: two products in 16 bits, then widened. Q4: stays in 16 bits."""
        first, second = (f"({x})[{2 * token + k}]" for k in (0, 1))
        w = f"w{half}"
        if kind == "q8":
            pair = f"__riscv_vwmacc_vx_i16m2(__riscv_vwmul_vx_i16m2({w}_0, {first}, vl), {second}, {w}_1, vl)"
            return f"{isum} = __riscv_vwadd_wv_i32m4({isum}, {pair}, vl);"
        return (
            f"{isum} = __riscv_vwmacc_vx_i16m2({isum}, {first}, {w}_0, vl);\n"
            f"{isum} = __riscv_vwmacc_vx_i16m2({isum}, {second}, {w}_1, vl);"
        )

    def finish(self, kind: Kind, isum: str, token: int, correction: str) -> str:
        """Q4 sums are widened."""
        return isum if kind == "q8" else f"__riscv_vwcvt_x_x_v_i32m4({isum}, vl)"

    def to_f32(self, kind: Kind, isum: str) -> str:
        """Exact."""
        return f"__riscv_vfcvt_f_x_v_f32m4({isum}, vl)"

    def x_prepare(self, to: str, source: str) -> str:
        """The bytes of two steps."""
        return f"memcpy({to}, {source}, 2);"

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """Pairs of products, or all 32 of a Q4 block, wrap at 16 bits."""
        if kind == "q4":
            return wrap((w - 8) @ x, 16)
        products = wrap(wrap(w, 8) * x, 16).reshape(len(w), BLOCK // 2, 2)
        sums: IntArray = wrap(products.sum(axis=2), 16).sum(axis=1)
        return sums


@dataclass(frozen=True)
class RvvRow:
    """Row-major blocks: widening products and a widening reduction."""

    q4_offset: int = 0
    note: str = "Products in 16 bits, reduced to one 32-bit sum. Nibbles become signed bytes, nibble - 8."

    def consts(self, kind: Kind) -> str:
        """None."""
        return ""

    def x_load(self, kind: Kind, p: str) -> str:
        """The pointer itself."""
        return f"const int8_t *xb = {p};"

    def block(self, kind: Kind, w: str) -> str:
        """One block."""
        return f"ml_dot_i8_rvv({w}, xb, {BLOCK})" if kind == "q8" else f"ml_dot32_q4_rvv({w}, xb)"

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """Exact."""
        signed = wrap(w, 8) if kind == "q8" else w - 8
        sums: IntArray = signed @ wrap(x, 8)
        return sums
