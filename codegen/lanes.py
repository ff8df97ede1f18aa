"""The lane vocabulary: how one machine says load, multiply-add, exp, and who owns a loop.

A descriptor gives each word as a C expression with named gaps. Templates never see the words of one machine: they
get a `Lanes` object and say `v.madd(a, b, c)`. The same body is rendered for a vector strip and for its scalar tail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

Body = Callable[["Lanes"], str]
BlockBody = Callable[["Lanes", list[str]], str]


class Loop(Protocol):
    """How a machine walks over n elements."""

    def each(self, vector: Lanes, scalar: Lanes, i: str, n: str, body: Body) -> str:
        """C code that runs `body` for all indices 0 <= i < n."""

    def blocks(self, vector: Lanes, scalar: Lanes, i: str, n: str, count: int, body: BlockBody) -> str:
        """The same with up to `count` vectors at a time: `body` gets the index of each."""


@dataclass(frozen=True)
class ScalarLoop:
    """One element after the other."""

    def each(self, vector: Lanes, scalar: Lanes, i: str, n: str, body: Body) -> str:
        """A plain loop."""
        return f"for (int {i} = 0; {i} < {n}; {i}++) {{\n{body(vector)}\n}}"

    def blocks(self, vector: Lanes, scalar: Lanes, i: str, n: str, count: int, body: BlockBody) -> str:
        """One at a time."""
        return self.each(vector, scalar, i, n, lambda lanes: body(lanes, [i]))


@dataclass(frozen=True)
class StripLoop:
    """Strips of whole vectors, then a scalar tail."""

    def each(self, vector: Lanes, scalar: Lanes, i: str, n: str, body: Body) -> str:
        """A strip loop and, unless n is a number that the strips cover, a tail loop."""
        lanes = vector.words.lanes
        if n.isdigit() and int(n) % lanes == 0:
            return f"for (int {i} = 0; {i} < {n}; {i} += {lanes}) {{\n{body(vector)}\n}}"
        return (
            f"int {i} = 0;\n"
            f"for (; {i} + {lanes} <= {n}; {i} += {lanes}) {{\n{body(vector)}\n}}\n"
            f"for (; {i} < {n}; {i}++) {{ /* the rest, one by one */\n{body(scalar)}\n}}"
        )

    def blocks(self, vector: Lanes, scalar: Lanes, i: str, n: str, count: int, body: BlockBody) -> str:
        """Whole blocks, single vectors, then a scalar tail; only blocks where n is a multiple of them."""
        lanes = vector.words.lanes
        width = lanes * count
        indices = [f"{i} + {k * lanes}" if k else i for k in range(count)]
        if n.isdigit() and int(n) % width == 0:
            return f"for (int {i} = 0; {i} < {n}; {i} += {width}) {{\n{body(vector, indices)}\n}}"
        single = f"for (; {i} + {lanes} <= {n}; {i} += {lanes}) {{\n{body(vector, [i])}\n}}\n"
        return (
            f"int {i} = 0;\n"
            f"for (; {i} + {width} <= {n}; {i} += {width}) {{\n{body(vector, indices)}\n}}\n"
            f"{single if count > 1 else ''}"
            f"for (; {i} < {n}; {i}++) {{ /* the rest, one by one */\n{body(scalar, [i])}\n}}"
        )


@dataclass(frozen=True)
class PredicatedLoop:
    """One loop for any vector length: the last turn works under a shorter predicate `pg`."""

    lanes: str  # C expression: lanes of a vector
    predicate: str  # C expression: the predicate for {i} < {n}
    type: str

    def each(self, vector: Lanes, scalar: Lanes, i: str, n: str, body: Body) -> str:
        """A loop without a tail."""
        return (
            f"for (int {i} = 0; {i} < {n}; {i} += {self.lanes}) {{\n"
            f"const {self.type} pg = {self.predicate.format(i=i, n=n)};\n{body(vector)}\n}}"
        )

    def blocks(self, vector: Lanes, scalar: Lanes, i: str, n: str, count: int, body: BlockBody) -> str:
        """One vector at a time: how many fit is not known."""
        return self.each(vector, scalar, i, n, lambda lanes: body(lanes, [i]))


@dataclass(frozen=True)
class SetLengthLoop:
    """One loop that asks before every turn how many elements, `vl`, the machine takes."""

    set_length: str  # C expression: elements taken of {rest}

    def each(self, vector: Lanes, scalar: Lanes, i: str, n: str, body: Body) -> str:
        """A loop without a tail."""
        taken = self.set_length.format(rest=f"{n} - {i}")
        return (
            f"for (int {i} = 0; {i} < {n};) {{\nconst size_t vl = {taken};\n{body(vector)}\n"
            f"{i} += (int)vl;\n}}"
        )

    def blocks(self, vector: Lanes, scalar: Lanes, i: str, n: str, count: int, body: BlockBody) -> str:
        """One vector at a time: how many fit is not known."""
        return self.each(vector, scalar, i, n, lambda lanes: body(lanes, [i]))


@dataclass(frozen=True)
class Block:
    """A register tile of float products: sums of `queries` times `vectors`, which share loaded vectors.

    Bounded by registers: all sums, the vectors, and one scalar operand stay in them. Where only some targets of an
    ISA have that many, `condition` is their C preprocessor condition, and the others take `fewer` vectors.
    """

    queries: int
    vectors: int
    fewer: int = 0
    condition: str = ""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Queries of the tiles, halved down to 1, so that any number is covered."""
        sizes = [self.queries]
        while sizes[-1] > 1:
            sizes.append(sizes[-1] // 2)
        return tuple(sizes)


@dataclass(frozen=True)
class F32:
    """The words of a machine for lanes of single-precision floats.

    Gaps: {p} pointer, {i} element index, {x} {a} {b} {c} values, {yes} {no} alternatives. `max` and `min` return
    their second operand when the first is NaN. `fma` is the fused multiply-add; machines without one leave it empty,
    and `either` is for machines where the class depends on how they are compiled.
    """

    type: str
    lanes: int  # 0: as many as the machine has
    loop: Loop
    load: str
    store: str
    set1: str
    add: str
    sub: str
    mul: str
    div: str
    max: str
    min: str
    abs: str
    neg: str
    select_gt: str  # {a} > {b} ? {yes} : {no}
    half_like: str  # 0.5 with the sign of {x}
    pow2_of_rounded: str  # 2^n, where {x} = n + 1.5 * 2^23
    load_i8: str  # int8 widened to float
    store_i8: str  # truncated to int8; |x| <= 127
    load_pairs: str  # even elements to {a}, odd ones to {b}, from {p} + 2 * {i}
    store_pairs: str  # the inverse
    block: Block
    fma: str = ""
    either: str = ""
    implicit: str = ""  # arguments that every helper function takes (a predicate, a vector length)
    implicit_parameters: str = ""


@dataclass(frozen=True)
class F16:
    """Half-precision lanes (0: as many as the machine has), widened exactly to the float lanes of the same machine."""

    lanes: int
    load: str


class Lanes:
    """What a template body sees: the words of one machine as methods that return C expressions."""

    def __init__(self, words: F32, f16: F16 | None, suffix: str, fused: bool | None) -> None:
        self.words = words
        self._f16 = f16
        self._suffix = suffix
        self._fused = fused

    @property
    def type(self) -> str:
        """The C type of a vector of lanes."""
        return self.words.type

    @property
    def parameters(self) -> str:
        """Parameters that come first in every helper function on lanes."""
        return self.words.implicit_parameters

    def load(self, p: str, i: str = "0") -> str:
        """Lanes from float pointer p at element i."""
        return _at(self.words.load, p, i)

    def load_f16(self, p: str, i: str = "0") -> str:
        """Lanes from half-precision values, widened exactly."""
        assert self._f16 is not None
        return _at(self._f16.load, p, i)

    def load_i8(self, p: str, i: str = "0") -> str:
        """Lanes from int8 values, widened exactly."""
        return _at(self.words.load_i8, p, i)

    def store(self, p: str, i: str, x: str) -> str:
        """Statement: lanes to float pointer p at element i."""
        return _at(self.words.store, p, i, x=x) + ";"

    def store_i8(self, p: str, i: str, x: str) -> str:
        """Statement: lanes, truncated, to int8 pointer p at element i."""
        return _at(self.words.store_i8, p, i, x=x) + ";"

    def load_pairs(self, a: str, b: str, p: str, i: str) -> str:
        """Statement: variables a and b become the even and odd elements from p + 2 * i on."""
        return _at(self.words.load_pairs, p, i, a=a, b=b) + ";"

    def store_pairs(self, a: str, b: str, p: str, i: str) -> str:
        """Statement: a and b go to the even and odd elements from p + 2 * i on."""
        return _at(self.words.store_pairs, p, i, a=a, b=b) + ";"

    def set1(self, x: str) -> str:
        """All lanes hold x."""
        return self.words.set1.format(x=x)

    def add(self, a: str, b: str) -> str:
        """a + b."""
        return self.words.add.format(a=a, b=b)

    def sub(self, a: str, b: str) -> str:
        """a - b."""
        return self.words.sub.format(a=a, b=b)

    def mul(self, a: str, b: str) -> str:
        """a * b."""
        return self.words.mul.format(a=a, b=b)

    def div(self, a: str, b: str) -> str:
        """a / b, correctly rounded."""
        return self.words.div.format(a=a, b=b)

    def max(self, a: str, b: str) -> str:
        """a > b ? a : b, so that a NaN in a is passed over."""
        return self.words.max.format(a=a, b=b)

    def min(self, a: str, b: str) -> str:
        """a < b ? a : b."""
        return self.words.min.format(a=a, b=b)

    def abs(self, x: str) -> str:
        """|x|."""
        return self.words.abs.format(x=x)

    def neg(self, x: str) -> str:
        """-x."""
        return self.words.neg.format(x=x)

    def select_gt(self, a: str, b: str, yes: str, no: str) -> str:
        """a > b ? yes : no, per lane."""
        return self.words.select_gt.format(a=a, b=b, yes=yes, no=no)

    def half_like(self, x: str) -> str:
        """0.5 with the sign of x."""
        return self.words.half_like.format(x=x)

    def pow2_of_rounded(self, x: str) -> str:
        """2^n for x = n + 1.5 * 2^23: the low mantissa bits of x hold n."""
        return self.words.pow2_of_rounded.format(x=x)

    def madd(self, a: str, b: str, c: str) -> str:
        """a * b + c in the machine's class: the one place where machines differ."""
        if self._fused is None:
            return self.words.either.format(a=a, b=b, c=c)
        if self._fused:
            return self.words.fma.format(a=a, b=b, c=c)
        return self.add(self.mul(a, b), c)

    def exp(self, x: str) -> str:
        """e^x by the shared polynomial (simd_math.h.j2)."""
        return f"ml_exp_{self._suffix}({self.words.implicit}{x})"


class Loops:
    """The `f32` object of the templates: owns loops and hands each body its lanes."""

    def __init__(self, vector: Lanes, scalar: Lanes) -> None:
        self.vector = vector
        self.scalar = scalar

    def each(self, i: str, n: str, caller: Body) -> str:
        """C code that runs the call block's body for all 0 <= i < n."""
        return self.vector.words.loop.each(self.vector, self.scalar, i, n, caller)

    def blocks(self, i: str, n: str, caller: BlockBody) -> str:
        """The same over blocks of vectors, as wide as the machine's register tile."""
        loop, block = self.vector.words.loop, self.block
        text = loop.blocks(self.vector, self.scalar, i, n, block.vectors, caller)
        if not block.condition:
            return text
        fewer = loop.blocks(self.vector, self.scalar, i, n, block.fewer, caller)
        return f"#if {block.condition}\n{text}\n#else\n{fewer}\n#endif\n"

    @property
    def block(self) -> Block:
        """The machine's register tile."""
        return self.vector.words.block


def _operand(expression: str) -> str:
    """The expression, in parentheses unless it binds tightly anyway."""
    return expression if expression.replace("_", "").isalnum() else f"({expression})"


def _at(word: str, p: str, i: str, **values: str) -> str:
    """A word that reads or writes memory at pointer p, element i."""
    if i == "0":
        word = word.replace("{p} + {i}", "{p}")
    return word.format(p=_operand(p), i=_operand(i), **values)
