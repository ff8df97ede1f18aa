"""Dot strategies: how each machine multiplies int8 weights by int8 activations, and the reason for each trick.

A `Dot` works on packed weights: a step holds four bytes of each of `group` rows, one 32-bit lane owns one row, and a
step meets four activations of one token. A `RowDot` works on row-major blocks of 32. Both return C; both come with a
NumPy model of what the instructions really do (wrap and saturation included), which tests compare with exact
integers.

Sums of activations: stored weights may be shifted by an offset to make them unsigned. `tile_q8` puts
-offset * sum(x) per block next to the activations, and the strategy adds it, so block sums stay exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Kind = Literal["q8", "q4"]
IntArray = npt.NDArray[np.int64]

BLOCK = 32


class Dot(Protocol):
    """One machine's inner product over packed weights; attributes are facts, methods return C.

    It is a `StepDot` or a `BlockDot`.
    """

    @property
    def group(self) -> int:
        """Rows per group: the 32-bit lanes of a step."""

    @property
    def step(self) -> int:
        """Bytes of one row in a step."""

    @property
    def q8_offset(self) -> int:
        """Added to Q8 weights when they are packed."""

    @property
    def q4_offset(self) -> int:
        """What a nibble, as multiplied, exceeds its weight by (8 for raw nibbles)."""

    @property
    def q4_xor(self) -> int:
        """Applied to Q4 bytes when they are packed."""

    @property
    def x_bytes(self) -> int:
        """Bytes that tile_q8 writes per block and token."""

    @property
    def steps_per_mac(self) -> int:
        """Steps that one multiplication covers: their activations of one token lie together."""

    @property
    def note(self) -> str:
        """The reason for the trick, printed into the C."""

    def consts(self, kind: Kind) -> str:
        """Declarations before the loop over blocks."""

    def x_prepare(self, to: str, source: str) -> str:
        """Statement: the activations of `steps_per_mac` steps at `source` arranged at `to` as they are read."""

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """What the machine computes, as sums [rows], for weights w [rows, 32] and activations x [32].

        Q8 weights are given as stored, with the offset; Q4 weights as the file's nibbles, before the XOR.
        """


class StepDot(Dot, Protocol):
    """A strategy whose steps are all alike: one row group, a loop over the steps of a block."""

    def sum_type(self, kind: Kind) -> str:
        """C type of a block-sum variable."""

    def start(self, kind: Kind, correction: str) -> str:
        """Expression: a block's sums before its first step; `correction` is an int32 expression."""

    def w_load(self, kind: Kind, p: str) -> str:
        """Statements: one step of weights from pointer p into named registers."""

    def x_load(self, kind: Kind, half: int, tokens: int, x: str) -> str:
        """Statements: one step of all tokens' activations into registers, if mac does not read memory."""

    def mac(self, kind: Kind, half: int, isum: str, token: int, tokens: int, x: str) -> str:
        """Statement: add a step's products. `half` is 1 for the high nibbles of Q4; x points at all tokens' step."""

    def finish(self, kind: Kind, isum: str, correction: str) -> str:
        """Expression: the block's exact int32 sums of one token."""

    def to_f32(self, kind: Kind, isum: str) -> str:
        """Expression: block sums as floats."""


@runtime_checkable
class BlockDot(Dot, Protocol):
    """A strategy that writes the products of a whole block itself, for several row groups and tokens.

    Steps then differ (a lane of a register is a constant), and the order of instructions is the strategy's. A tile
    has one sum vector per row group and token, isum{group}_{i} in integers and sum{group}_{i} in floats; which rows
    and tokens its lanes hold is the strategy's affair until `rows`.
    """

    def begin(self, kind: Kind, groups: int, corrections: Sequence[str], long: bool = False) -> str:
        """Statements: declares isum{g}_{i}, empty, for as many i as there are corrections (int32 expressions).

        Such sums take one block, `long` ones any number of them.
        """

    def block(self, kind: Kind, w: Sequence[str], x: Sequence[str], tokens: int) -> str:
        """Statements: the products of one block, added to isum{g}_{i}.

        Args:
            w: a pointer expression per row group.
            x: pointers to activations of `tokens` tokens each, as tile_q8 writes them for a tile of that size;
                the sums of x[k] are those from i = k * tokens on.
        """

    def to_f32(self, kind: Kind, isum: str, long: bool = False) -> str:
        """Expression: the exact sums as floats."""

    def w_scales(self, group: int, load: str) -> str:
        """Statements: the scales of a group's rows, from an expression that loads them."""

    def x_scales(self, tokens: int, p: str) -> str:
        """Statements: the scales of all tokens at p."""

    def scale(self, group: int, i: int, tokens: int) -> str:
        """Expression: the products of scales for the lanes of sum{group}_{i}."""

    def rows(self, group: int, token: int) -> str:
        """Expression: the float sums of a group's rows for one token, gathered from sum{group}_{i}."""


def wrap(values: IntArray, bits: int) -> IntArray:
    """Two's-complement wrap to `bits` bits."""
    half = 1 << (bits - 1)
    wrapped: IntArray = (values + half) % (1 << bits) - half
    return wrapped


def total(values: IntArray) -> IntArray:
    """Sum of each row."""
    sums: IntArray = values.sum(axis=1)
    return sums


class RowDot(Protocol):
    """One machine's inner product over row-major data."""

    @property
    def note(self) -> str:
        """The reason for the trick, printed into the C."""

    @property
    def q4_offset(self) -> int:
        """What a nibble, as multiplied, exceeds its weight by."""

    def consts(self, kind: Kind) -> str:
        """Declarations before the loop over blocks."""

    def x_load(self, kind: Kind, p: str) -> str:
        """Statements: a block of activations into registers that every row of the tile uses."""

    def block(self, kind: Kind, w: str) -> str:
        """Expression: int, the sum of one block's products; w points at the block's weights."""

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """What `block` computes for w [rows, 32] (signed quants, or nibbles) and x [32]: sums [rows]."""


@dataclass(frozen=True)
class ScalarRowDot:
    """Plain C."""

    note: str = "Plain products; a nibble is an element's weight + 8."
    q4_offset: int = 0

    def consts(self, kind: Kind) -> str:
        """None."""
        return ""

    def x_load(self, kind: Kind, p: str) -> str:
        """The pointer itself."""
        return f"const int8_t *xb = {p};"

    def block(self, kind: Kind, w: str) -> str:
        """The helper of core/ml.h."""
        return f"ml_dot32_{kind}({w}, xb)"

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """Exact."""
        offset = 8 if kind == "q4" else 0
        return (w - offset) @ x
