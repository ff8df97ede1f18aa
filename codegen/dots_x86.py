"""Dot strategies of x86 CPUs with byte multiplies: pmaddubsw and vpdpbusd."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from krafla.codegen.dots import BLOCK, IntArray, Kind, total, wrap


def _saturate16(values: IntArray) -> IntArray:
    return np.clip(values, -32768, 32767)


def _maddubs(u: IntArray, s: IntArray) -> IntArray:
    """Pairs of unsigned times signed bytes, added with saturation to 16 bits."""
    products = (u % 256) * wrap(s, 8)
    return _saturate16(products[..., 0::2] + products[..., 1::2])


@dataclass(frozen=True)
class X86:
    """Names of one vector width of x86."""

    bits: int

    @property
    def prefix(self) -> str:
        """Prefix of intrinsics."""
        return "_mm" if self.bits == 128 else f"_mm{self.bits}"

    @property
    def type(self) -> str:
        """C type of an integer vector."""
        return f"__m{self.bits}i"

    @property
    def lanes(self) -> int:
        """32-bit lanes."""
        return self.bits // 32

    def load(self, p: str) -> str:
        """Unaligned load."""
        return f"{self.prefix}_loadu_si{self.bits}((const void *)({p}))"

    def zero(self) -> str:
        """All bits zero."""
        return f"{self.prefix}_setzero_si{self.bits}()"

    def op(self, word: str, *arguments: str) -> str:
        """Any intrinsic of this width."""
        return f"{self.prefix}_{word}({', '.join(arguments)})"

    def and_(self, a: str, b: str) -> str:
        """Bitwise and."""
        return f"{self.prefix}_and_si{self.bits}({a}, {b})"

    def broadcast4(self, p: str) -> str:
        """Four bytes at p in every 32-bit lane."""
        return self.op("set1_epi32", f"ml_load_i32({p})")


class _X86Dot:
    """What the packed x86 strategies share."""

    x86: X86
    step: int = 4
    steps_per_mac: int = 1
    q4_xor: int = 0
    q4_offset: int = 8

    @property
    def group(self) -> int:
        """One row per 32-bit lane."""
        return self.x86.lanes

    def sum_type(self, kind: Kind) -> str:
        """An integer vector."""
        return self.x86.type

    def x_load(self, kind: Kind, half: int, tokens: int, x: str) -> str:
        """Nothing: activations are memory operands."""
        return ""

    def _x(self, token: int, x: str) -> str:
        """Where one token's step lies."""
        offset = token * self.x_bytes * self.step // BLOCK
        return f"{x} + {offset}" if offset else x

    @property
    def x_bytes(self) -> int:
        """Activations stay bytes."""
        return BLOCK

    def x_prepare(self, to: str, source: str) -> str:
        """The four bytes as they are."""
        return f"memcpy({to}, {source}, 4);"

    def to_f32(self, kind: Kind, isum: str) -> str:
        """Exact: |sum| < 2^24."""
        return self.x86.op("cvtepi32_ps", isum)

    def _nibbles(self, p: str) -> str:
        x = self.x86
        return (
            f"const {x.type} packed = {x.load(p)};\n"
            f"const {x.type} w0 = {x.and_('packed', 'low_nibbles')}; /* elements 0 to 15 of the block */\n"
            f"const {x.type} w1 = {x.and_(x.op('srli_epi16', 'packed', '4'), 'low_nibbles')}; /* 16 to 31 */"
        )

    def _nibble_mask(self) -> str:
        return f"const {self.x86.type} low_nibbles = {self.x86.op('set1_epi8', '0x0f')};"


@dataclass(frozen=True)
class DpbusdBias(_X86Dot):
    """vpdpbusd: four unsigned times signed byte products added to an int32 lane."""

    x86: X86
    intrinsic: str = "dpbusd_epi32"
    q8_offset: int = 128
    note: str = (
        "vpdpbusd wants unsigned weights: Q8 weights are stored with +128 and Q4 nibbles raw (weight + 8). Each"
        " block starts from -128 * sum(x) or -8 * sum(x), so its int32 sum is exact."
    )

    def consts(self, kind: Kind) -> str:
        """The nibble mask."""
        return self._nibble_mask() if kind == "q4" else ""

    def start(self, kind: Kind, correction: str) -> str:
        """The correction in every lane costs nothing more than a zero."""
        return self.x86.op("set1_epi32", correction)

    def w_load(self, kind: Kind, p: str) -> str:
        """Unsigned weights."""
        if kind == "q8":
            return f"const {self.x86.type} w0 = {self.x86.load(p)};"
        return self._nibbles(p)

    def mac(self, kind: Kind, half: int, isum: str, token: int, tokens: int, x: str) -> str:
        """One instruction; the broadcast is part of its memory operand."""
        return f"{isum} = {self.x86.op(self.intrinsic, isum, f'w{half}', self.x86.broadcast4(self._x(token, x)))};"

    def finish(self, kind: Kind, isum: str, token: int, correction: str) -> str:
        """Nothing left to do."""
        return isum

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """Exact int32 accumulation of unsigned times signed products."""
        offset = self.q8_offset if kind == "q8" else self.q4_offset
        total: IntArray = (w % 256) @ wrap(x, 8) - offset * int(x.sum())
        return wrap(total, 32)


@dataclass(frozen=True)
class MaddubsSign(_X86Dot):
    """pmaddubsw with the weight's sign moved to the activation; int16 sums for Q4."""

    x86: X86
    q8_offset: int = 0
    note: str = (
        "pmaddubsw wants one unsigned operand: |w| times x with w's sign (psignb) is w times x, and 127 * 127 * 2"
        " stays below 32767. Q4 nibbles are unsigned already; the eight pair sums of a block (at most 30480) are"
        " added in int16 before a single pmaddwd, and -8 * sum(x) makes the sum exact."
    )

    def consts(self, kind: Kind) -> str:
        """Ones for pmaddwd, and the nibble mask."""
        ones = f"const {self.x86.type} ones = {self.x86.op('set1_epi16', '1')};"
        return ones if kind == "q8" else f"{ones}\n{self._nibble_mask()}"

    def start(self, kind: Kind, correction: str) -> str:
        """Zero: int32 sums for Q8, int16 sums for Q4."""
        return self.x86.zero()

    def w_load(self, kind: Kind, p: str) -> str:
        """Q8: the weights and their magnitudes; Q4: nibbles."""
        if kind == "q4":
            return self._nibbles(p)
        x = self.x86
        return f"const {x.type} w0 = {x.load(p)};\nconst {x.type} magnitude = {x.op('abs_epi8', 'w0')};"

    def mac(self, kind: Kind, half: int, isum: str, token: int, tokens: int, x: str) -> str:
        """Pair sums, widened to int32 at once for Q8."""
        op = self.x86.op
        if kind == "q4":
            pairs = op("maddubs_epi16", f"w{half}", self.x86.broadcast4(self._x(token, x)))
            return f"{isum} = {op('add_epi16', isum, pairs)};"
        pairs = op(
            "maddubs_epi16", "magnitude", op("sign_epi8", self.x86.broadcast4(self._x(token, x)), "w0")
        )
        return f"{isum} = {op('add_epi32', isum, op('madd_epi16', pairs, 'ones'))};"

    def finish(self, kind: Kind, isum: str, token: int, correction: str) -> str:
        """Q4: int16 pairs to int32, then the correction."""
        if kind == "q8":
            return isum
        op = self.x86.op
        return op("add_epi32", op("madd_epi16", isum, "ones"), op("set1_epi32", correction))

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """Signs wrap (-(-128) is -128), pair sums saturate, Q4 sums wrap at 16 bits."""
        if kind == "q4":
            pairs = _maddubs(w, np.broadcast_to(x, w.shape)).reshape(len(w), 8, 2)
            lanes = wrap(pairs.sum(axis=1), 16)
            return total(lanes) - self.q4_offset * int(x.sum())
        stored = wrap(w, 8)
        return total(_maddubs(np.abs(stored), wrap(np.sign(stored) * x, 8)))


class _X86RowDot:
    """What the row-major x86 strategies share: one block in one or two registers."""

    x86: X86
    q4_offset: int = 8

    @property
    def _parts(self) -> int:
        return BLOCK * 8 // self.x86.bits

    def _mac(self, isum: str, w: str, x: str, *, unsigned: bool) -> str:
        """Expression: isum plus the products of w and x; `unsigned` weights are nibbles."""
        raise TypeError("each strategy multiplies in its own way")

    def x_load(self, kind: Kind, p: str) -> str:
        """All 32 activations."""
        width = self.x86.bits // 8
        return "\n".join(
            f"const {self.x86.type} x{k} = {self.x86.load(f'{p} + {k * width}' if k else p)};"
            for k in range(self._parts)
        )

    def block(self, kind: Kind, w: str) -> str:
        """Products of all parts, then a horizontal sum."""
        x = self.x86
        if kind == "q8":
            width = x.bits // 8
            parts = [x.load(f"{w} + {k * width}" if k else w) for k in range(self._parts)]
        elif self._parts == 2:
            packed = x.load(w)
            parts = [
                x.and_(packed, "low_nibbles"),
                x.and_(x.op("srli_epi16", packed, "4"), "low_nibbles"),
            ]
        else:
            parts = [f"ml_nibbles_{x.bits}({w})"]
        isum = x.zero()
        for k, part in enumerate(parts):
            isum = self._mac(isum, part, f"x{k}", unsigned=kind == "q4")
        return f"ml_sum_i32_{x.bits}({isum})"


@dataclass(frozen=True)
class MaddubsRow(_X86RowDot):
    """pmaddubsw, with the weight's sign moved to the activation for Q8."""

    x86: X86
    note: str = (
        "pmaddubsw wants one unsigned operand: |w| times x with w's sign (psignb) is w times x. Q4 nibbles are"
        " unsigned already; 8 * sum(x) is subtracted per block."
    )

    def consts(self, kind: Kind) -> str:
        """Ones for pmaddwd, and the nibble mask."""
        return _row_consts(self.x86, kind, ones=True)

    def _mac(self, isum: str, w: str, x: str, *, unsigned: bool) -> str:
        op = self.x86.op
        operands = (w, x) if unsigned else (op("abs_epi8", w), op("sign_epi8", x, w))
        pairs = op("maddubs_epi16", *operands)
        return op("add_epi32", isum, op("madd_epi16", pairs, "ones"))

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """Signs wrap and pair sums saturate."""
        if kind == "q4":
            pairs = _maddubs(w, np.broadcast_to(x, w.shape))
            return total(pairs) - self.q4_offset * int(x.sum())
        stored = wrap(w, 8)
        return total(_maddubs(np.abs(stored), wrap(np.sign(stored) * x, 8)))


@dataclass(frozen=True)
class DpbusdSignRow(_X86RowDot):
    """vpdpbusd, with the weight's sign moved to the activation for Q8."""

    x86: X86
    intrinsic: str
    note: str = (
        "vpdpbusd wants one unsigned operand: |w| times x with w's sign (psignb) is w times x, with no saturation"
        " on the way. Q4 nibbles are unsigned already; 8 * sum(x) is subtracted per block."
    )

    def consts(self, kind: Kind) -> str:
        """The nibble mask."""
        return _row_consts(self.x86, kind, ones=False)

    def _mac(self, isum: str, w: str, x: str, *, unsigned: bool) -> str:
        if unsigned:
            return f"{self.intrinsic}({isum}, {w}, {x})"
        op = self.x86.op
        return f"{self.intrinsic}({isum}, {op('abs_epi8', w)}, {op('sign_epi8', x, w)})"

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """Signs wrap; sums are exact."""
        if kind == "q4":
            return (w % 256) @ wrap(x, 8) - self.q4_offset * int(x.sum())
        stored = wrap(w, 8)
        signed: IntArray = (np.abs(stored) % 256) * wrap(np.sign(stored) * x, 8)
        return total(signed)


def _row_consts(x86: X86, kind: Kind, *, ones: bool) -> str:
    lines = []
    if ones:
        lines.append(f"const {x86.type} ones = {x86.op('set1_epi16', '1')};")
    if kind == "q4" and x86.bits == 128:
        lines.append(f"const {x86.type} low_nibbles = {x86.op('set1_epi8', '0x0f')};")
    return "\n".join(lines)
