"""Dot strategies of machines without a byte multiply, but with pair sums of 16-bit products.

That is pmaddwd on SSE2 and i32x4.dot_i16x8_s in WebAssembly: the same tricks in two vocabularies.
"""

from __future__ import annotations

from dataclasses import dataclass

from krafla.codegen.dots import BLOCK, IntArray, Kind, wrap


@dataclass(frozen=True)
class PairWords:
    """The integer words of a 128-bit machine, as C expressions with gaps {p}, {x}, {a}, {b}, {n}."""

    type: str
    suffix: str  # of helper functions in the family's common header
    load: str
    store: str
    zero: str
    splat8: str
    splat16: str
    splat32: str
    both: str  # bitwise and
    shift_right16: str  # logical, by {n}
    multiply_pairs: str  # sums of pairs of signed 16-bit products
    add32: str
    to_f32: str


@dataclass(frozen=True)
class EvenOddPairs:
    """Even and odd bytes as 16-bit lanes for pair sums."""

    words: PairWords
    group: int = 4
    step: int = 4
    steps_per_mac: int = 1
    q8_offset: int = 128
    q4_offset: int = 8
    q4_xor: int = 0
    x_bytes: int = 8 * 2 * 16  # eight steps of two vectors: pairs (x0, x2) and (x1, x3) in every lane
    note: str = (
        "There is no 8-bit multiply. A 16-bit lane of a weight step holds two bytes of one row; they are split into"
        " the even byte (w & 0xff) and the odd byte (w >> 8, logical), and pair sums of 16-bit products give one"
        " partial sum per row. That needs unsigned weights: Q8 is stored with +128, and -128 * sum(x) is added."
        " Activations are expanded once per call into matching broadcast pairs, so the inner loop has no shuffles,"
        " which matters on CPUs with one shuffle port."
    )

    def sum_type(self, kind: Kind) -> str:
        """Four int32 lanes."""
        return self.words.type

    def consts(self, kind: Kind) -> str:
        """The mask of even bytes or of even nibbles."""
        mask = self.words.splat16.format(x="0x00ff" if kind == "q8" else "0x000f")
        return f"const {self.words.type} even_mask = {mask};"

    def start(self, kind: Kind, correction: str) -> str:
        """The correction in every lane."""
        return self.words.splat32.format(x=correction)

    def w_load(self, kind: Kind, p: str) -> str:
        """Even and odd bytes; for Q4 of low and of high nibbles."""
        words, const = self.words, f"const {self.words.type}"

        def shifted(n: int) -> str:
            return words.shift_right16.format(x="packed", n=n)

        def masked(x: str) -> str:
            return words.both.format(a=x, b="even_mask")

        load = f"{const} packed = {words.load.format(p=p)};\n{const} even0 = {masked('packed')};"
        if kind == "q8":
            return f"{load}\n{const} odd0 = {shifted(8)};"
        return (
            f"{load} /* elements 0 to 15 of the block */\n{const} odd0 = {masked(shifted(8))};\n"
            f"{const} even1 = {masked(shifted(4))}; /* 16 to 31 */\n{const} odd1 = {shifted(12)};"
        )

    def x_load(self, kind: Kind, half: int, tokens: int, x: str) -> str:
        """Nothing: activations are memory operands."""
        return ""

    def mac(self, kind: Kind, half: int, isum: str, token: int, tokens: int, x: str) -> str:
        """Two pair sums, each one partial sum per row."""
        words = self.words
        at = [f"{x} + {offset}" if offset else x for offset in (32 * token, 32 * token + 16)]
        even, odd = (
            words.multiply_pairs.format(a=f"{side}{half}", b=words.load.format(p=p))
            for side, p in zip(("even", "odd"), at, strict=True)
        )
        return f"{isum} = {words.add32.format(a=isum, b=words.add32.format(a=even, b=odd))};"

    def finish(self, kind: Kind, isum: str, token: int, correction: str) -> str:
        """Nothing left to do."""
        return isum

    def to_f32(self, kind: Kind, isum: str) -> str:
        """Exact: |sum| < 2^24."""
        return self.words.to_f32.format(x=isum)

    def x_prepare(self, to: str, source: str) -> str:
        """Pairs as 16-bit values, broadcast."""
        lines = []
        for offset, first in ((0, 0), (16, 1)):
            pair = f"ml_pair_i16({source}[{first}], {source}[{first + 2}])"
            p = f"{to} + {offset}" if offset else to
            lines.append(self.words.store.format(p=p, x=self.words.splat32.format(x=pair)) + ";")
        return "\n".join(lines)

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """16-bit lanes: logical shift and mask, exact pair sums."""
        offset = self.q8_offset if kind == "q8" else self.q4_offset
        stored = w % 256
        even, odd = stored[:, 0::2], stored[:, 1::2]
        sums: IntArray = even @ x[0::2] + odd @ x[1::2] - offset * int(x.sum())
        return wrap(sums, 32)


@dataclass(frozen=True)
class PairRow:
    """Row-major bytes widened to 16 bits for pair sums."""

    words: PairWords
    q4_offset: int = 8
    note: str = (
        "There is no 8-bit multiply: bytes are split into sign-extended even and odd 16-bit lanes for pair sums. Q4"
        " nibbles stay unsigned; 8 * sum(x) is subtracted per block."
    )

    def consts(self, kind: Kind) -> str:
        """The nibble mask."""
        if kind == "q8":
            return ""
        return f"const {self.words.type} low_nibbles = {self.words.splat8.format(x='0x0f')};"

    def x_load(self, kind: Kind, p: str) -> str:
        """All 32 activations."""
        const, load = f"const {self.words.type}", self.words.load
        return f"{const} x0 = {load.format(p=p)};\n{const} x1 = {load.format(p=f'{p} + 16')};"

    def _add(self, isum: str, w: str, x: str) -> str:
        return self.words.add32.format(a=isum, b=f"ml_madd_i8_{self.words.suffix}({w}, {x})")

    def block(self, kind: Kind, w: str) -> str:
        """Products of both halves, then a horizontal sum."""
        words = self.words
        if kind == "q8":
            first, second = words.load.format(p=w), words.load.format(p=f"{w} + {BLOCK // 2}")
        else:
            packed = words.load.format(p=w)
            first = words.both.format(a=packed, b="low_nibbles")
            second = words.both.format(a=words.shift_right16.format(x=packed, n=4), b="low_nibbles")
        return f"ml_sum_i32_{words.suffix}({self._add(self._add(words.zero, first, 'x0'), second, 'x1')})"

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """Exact."""
        sums: IntArray = wrap(w, 8) @ wrap(x, 8)
        return sums - (self.q4_offset if kind == "q4" else 0) * int(x.sum())
