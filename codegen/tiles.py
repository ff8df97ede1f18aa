"""Tiles: how a group of packed rows meets several tokens at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Tile(Protocol):
    """The token tile of the packed matmuls."""

    @property
    def template(self) -> str:
        """The template part that renders one tile."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Tokens of the tiles, largest first; the last one is 1, so that any number of tokens is covered."""


@dataclass(frozen=True)
class VectorTile:
    """Each weight vector is loaded once and multiplied by every token of the tile; sums stay in registers.

    The largest size is bounded by registers: an int32 and a float accumulator per token.
    """

    sizes: tuple[int, ...]
    template: str = "packed_tile.j2"
