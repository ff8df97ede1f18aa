"""Tiles: how a group of packed rows meets several tokens at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from krafla.codegen.dots import Dot, Kind


class Matrix(Protocol):
    """A matrix unit: multiplies a block of `tokens` activation rows by a block of a whole row group at once.

    Weights are first widened to signed bytes, once for all token tiles, so no offset has to be corrected. Products
    of one block land in memory as int32 [token][row].
    """

    @property
    def tokens(self) -> int:
        """Rows of activations in one product."""

    @property
    def chunk(self) -> int:
        """Blocks that are widened at a time; the scratch stays in the first-level cache."""

    @property
    def groups(self) -> int:
        """Row groups that pass the same blocks of activations while those stay in the second-level cache."""

    @property
    def reused_bytes(self) -> int:
        """Activations up to this many bytes stay in the second-level cache as a whole."""

    @property
    def note(self) -> str:
        """The reason, printed into the C."""

    def begin(self) -> str:
        """Statements that set the unit up."""

    def end(self) -> str:
        """Statements that leave it as it was."""

    def widen(self, kind: Kind, to: str, w: str) -> str:
        """Statements: one packed block of weights at w as signed bytes at `to`."""

    def load(self, parity: int, a: str, b: str) -> str:
        """Statements: activations a and weights b of the next product of this parity."""

    def multiply(self, parity: int) -> str:
        """Statements: start the product of what was loaded; parity 0 and 1 may be under way at the same time."""

    def store(self, parity: int, out: str) -> str:
        """Statements: the last product of this parity to `out`."""

    def sums(self, p: str) -> str:
        """Expression: the int32 lanes at p."""


class Tile(Protocol):
    """The token tile of the packed matmuls."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Tokens of the vector tiles, largest first; the last one is 1, so that any number is covered."""

    @property
    def matrix(self) -> Matrix | None:
        """The matrix unit that takes as many whole tiles as there are, before the vector tiles."""

    @property
    def groups(self) -> int:
        """Row groups that share the loads of a part of the largest tile."""

    @property
    def pairs(self) -> Dot | None:
        """An inner product for two tokens at once, on the same packed layout; tiles of even size use it."""

    @property
    def tokens(self) -> int:
        """Tokens of the largest tile."""

    def dot_of(self, tokens: int, dot: Dot) -> Dot:
        """The inner product of a tile of this size."""


@dataclass(frozen=True)
class VectorTile:
    """Each weight vector is loaded once and multiplied by every token of the tile; sums stay in registers.

    The largest size is bounded by registers: an int32 and a float accumulator per token. With several `groups` of rows,
    each pass takes all of them and only its part of the largest tile's tokens: as many accumulators, but fewer loads.
    """

    sizes: tuple[int, ...]
    matrix: Matrix | None = None
    pairs: Dot | None = None
    groups: int = 1

    def dot_of(self, tokens: int, dot: Dot) -> Dot:
        """`pairs` for even sizes, if there is one; else the packed layout's own."""
        return self.pairs if self.pairs is not None and tokens % 2 == 0 else dot

    @property
    def tokens(self) -> int:
        """Tokens of the largest tile."""
        return max(self.sizes[0], self.matrix.tokens if self.matrix else 0)


@dataclass(frozen=True)
class AmxUnit:
    """AMX: 16 tokens by 16 rows by one block of 32; a packed block is a B tile (8 rows of 64 bytes) as it lies."""

    tokens: int = 16
    chunk: int = 32
    groups: int = 16
    reused_bytes: int = 1 << 20
    note: str = (
        "A packed block (8 steps, 16 rows, 4 bytes) is a B tile of the matrix unit as it lies, 16 tokens' blocks"
        " are an A tile. Weights are widened to signed bytes once for all token tiles, so there is nothing to"
        " correct. Two C tiles take turns: a product is stored one turn after it was started, and scaled another"
        " turn later, so that neither the store nor the floats wait for the unit."
    )

    def begin(self) -> str:
        """Palette 1: C tiles 0 and 1 (16 x 64 bytes), A tiles 2 and 3 (16 x 32), B tiles 4 and 5 (8 x 64)."""
        return (
            "static const uint8_t layout[64] = {\n"
            "1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* palette 1 */\n"
            "64, 0, 64, 0, 32, 0, 32, 0, 64, 0, 64, 0, 0, 0, 0, 0, /* bytes per row of tiles 0 to 5 */\n"
            "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,\n"
            "16, 16, 16, 16, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}; /* rows */\n"
            "_tile_loadconfig(layout);"
        )

    def end(self) -> str:
        """Gives the tile state back, so that context switches stay cheap."""
        return "_tile_release();"

    def widen(self, kind: Kind, to: str, w: str) -> str:
        """Q8: +128 becomes the sign bit again. Q4: low nibbles are steps 0 to 3, high ones steps 4 to 7."""
        if kind == "q8":
            return (
                "for (int step = 0; step < 8; step++) {\n"
                f"const __m512i w0 = _mm512_loadu_si512({w} + step * 64);\n"
                f"_mm512_storeu_si512({to} + step * 64, _mm512_xor_si512(w0, _mm512_set1_epi8((char)0x80)));\n}}"
            )
        mask = "_mm512_set1_epi8(0x0f)"
        eight = "_mm512_set1_epi8(8)"
        high = f"_mm512_and_si512(_mm512_srli_epi16(packed, 4), {mask})"
        return (
            "for (int step = 0; step < 4; step++) {\n"
            f"const __m512i packed = _mm512_loadu_si512({w} + step * 64);\n"
            f"const __m512i low = _mm512_sub_epi8(_mm512_and_si512(packed, {mask}), {eight});\n"
            f"_mm512_storeu_si512({to} + step * 64, low);\n"
            f"_mm512_storeu_si512({to} + (step + 4) * 64, _mm512_sub_epi8({high}, {eight}));\n}}"
        )

    def load(self, parity: int, a: str, b: str) -> str:
        """Before the other product is stored, which is 1 to 3 % faster than behind it."""
        return f"_tile_loadd({2 + parity}, {a}, 32);\n_tile_loadd({4 + parity}, {b}, 64);"

    def multiply(self, parity: int) -> str:
        """Signed by signed bytes."""
        return f"_tile_zero({parity});\n_tile_dpbssd({parity}, {2 + parity}, {4 + parity});"

    def store(self, parity: int, out: str) -> str:
        """Sixteen tokens' sums of sixteen rows."""
        return f"_tile_stored({parity}, {out}, 64);"

    def sums(self, p: str) -> str:
        """Sixteen rows of one token."""
        return f"_mm512_load_si512({p})"
