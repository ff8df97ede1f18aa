"""Dot strategies: how each machine multiplies int8 weights by int8 activations, and the reason for each trick.

A `Dot` works on packed weights: a step holds four bytes of each of `group` rows, one 32-bit lane owns one row, and a
step meets four activations of one token. A `RowDot` works on row-major blocks of 32. Both return C; both come with a
NumPy model of what the instructions really do (wrap and saturation included), which tests compare with exact
integers.

Sums of activations: stored weights may be shifted by an offset to make them unsigned. `tile_q8` puts
-offset * sum(x) per block next to the activations, and the strategy adds it, so block sums stay exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

Kind = Literal["q8", "q4"]
IntArray = npt.NDArray[np.int64]

BLOCK = 32


class Dot(Protocol):
    """One machine's inner product over packed weights; attributes are facts, methods return C."""

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
        """Steps that one multiplication covers."""

    @property
    def tokens_per_sum(self) -> int:
        """Tokens that share one block-sum variable."""

    def sum_type(self, kind: Kind) -> str:
        """C type of a block-sum variable."""

    @property
    def note(self) -> str:
        """The reason for the trick, printed into the C."""

    def consts(self, kind: Kind) -> str:
        """Declarations before the loop over blocks."""

    def start(self, kind: Kind, correction: str) -> str:
        """Expression: a block's sums before its first step; `correction` is an int32 expression."""

    def w_load(self, kind: Kind, p: str) -> str:
        """Statements: one step of weights from pointer p into named registers."""

    def x_load(self, kind: Kind, half: int, tokens: int, x: str) -> str:
        """Statements: one step of all tokens' activations into registers, if mac does not read memory."""

    def mac(self, kind: Kind, half: int, isum: str, token: int, tokens: int, x: str) -> str:
        """Statement: add a step's products. `half` is 1 for the high nibbles of Q4; x points at all tokens' step."""

    def finish(self, kind: Kind, isum: str, token: int, correction: str) -> str:
        """Expression: the block's exact int32 sums of one token (`token` counts inside the variable)."""

    def to_f32(self, kind: Kind, isum: str) -> str:
        """Expression: block sums as floats."""

    def x_prepare(self, to: str, source: str) -> str:
        """Statement: four activations at `source` arranged at `to` (x_bytes / 8 bytes) as mac reads them."""

    def model(self, kind: Kind, w: IntArray, x: IntArray) -> IntArray:
        """What the machine computes, as sums [rows], for weights w [rows, 32] and activations x [32].

        Q8 weights are given as stored, with the offset; Q4 weights as the file's nibbles, before the XOR.
        """


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
