"""Which rows of a checkpoint's tensors are ours: interleaved RoPE pairs, halves of doubled projections, head order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from krafla.tools.mlb import Header
from krafla.tools.quantize import BLOCK

Index: TypeAlias = npt.NDArray[np.int64]
# For each of so many rows of ours, the number of theirs.
Order: TypeAlias = Callable[[Header, int], Index]
# Rows closer than this are read in one piece.
_NEAR = 512


def head_pairs(h: Header) -> Index:
    """The dimensions of a head from halves (i, i + rotated/2) to pairs (2i, 2i + 1); unrotated ones stay."""
    index = np.arange(h.head_size)
    index[: h.rot_size] = index[: h.rot_size].reshape(2, -1).T.ravel()
    return index


def pairs(h: Header, rows: int) -> Index:
    """Every head's dimensions in pairs."""
    return _heads(rows // h.head_size, h.head_size, head_pairs(h))


def gated_queries(h: Header, rows: int) -> Index:
    """Queries from a projection in which each head's query is followed by its gate."""
    return _heads(rows // h.head_size, 2 * h.head_size, head_pairs(h))


def gates(h: Header, rows: int) -> Index:
    """The gates from such a projection."""
    return _heads(rows // h.head_size, 2 * h.head_size, h.head_size + np.arange(h.head_size))


def _heads(count: int, stride: int, head: Index) -> Index:
    index: Index = (np.arange(count)[:, None] * stride + head).ravel()
    return index


def tiled(h: Header, rows: int) -> Index:
    """Value heads from llama.cpp's order, in which a key head's value heads lie apart; what precedes them stays."""
    groups, each = h.lin_k_heads, h.lin_v_heads // h.lin_k_heads
    width = h.lin_v_dim if rows >= h.lin_v_size else 1
    first = rows - h.lin_v_heads * width
    theirs = np.arange(h.lin_v_heads).reshape(each, groups).T.ravel()
    values = (theirs[:, None] * width + np.arange(width)).ravel()
    return np.concatenate([np.arange(first), first + values])


def gather(read: Callable[[int, int], npt.NDArray[Any]], index: Index) -> npt.NDArray[Any]:
    """Rows by number, where `read` gives the rows of a range."""
    cuts = np.flatnonzero(np.abs(np.diff(index)) > _NEAR) + 1
    parts = []
    for part in np.split(index, cuts):
        low = int(part.min())
        parts.append(read(low, int(part.max()) + 1)[part - low])
    return np.concatenate(parts)


def whole_blocks(index: Index) -> Index | None:
    """An order of columns as an order of blocks, if it leaves blocks whole."""
    blocks = index.reshape(-1, BLOCK) if len(index) % BLOCK == 0 else index[:0].reshape(0, BLOCK)
    first = blocks[:, :1]
    whole = len(blocks) and (first % BLOCK == 0).all() and (blocks == first + np.arange(BLOCK)).all()
    return first[:, 0] // BLOCK if whole else None
