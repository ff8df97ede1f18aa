"""The Q8_0 and Q4_0 rules of the .mlb format, vectorized; the reference for every other implementation."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

BLOCK = 32
F16_MAX = 65504.0
F32: TypeAlias = npt.NDArray[np.float32]
I8: TypeAlias = npt.NDArray[np.int8]
U8: TypeAlias = npt.NDArray[np.uint8]
Q4Rule: TypeAlias = Literal["search", "round"]

# Levels to which the Q4_0 search maps a block's largest element.
Q4_LEVELS = tuple(round(-6.0 - 0.2 * i, 1) for i in range(13))
# Blocks whose magnitudes lie outside are scaled to 1 first: x**3 must neither underflow nor overflow.
Q4_SMALLEST, Q4_LARGEST = 1e-6, 1e6
# Below this, 127 / amax would overflow.
TINY = np.float32(1e-30)
# Blocks per pass: a few arrays of 32 of them fit into the second-level cache.
_PASS = 2048


class ScaleOverflowError(ValueError):
    """A block's scale does not fit into f16."""


def quantize_q8_0(x: npt.ArrayLike, f16_scales: bool = False) -> tuple[I8, F32]:
    """Quantize rows of a multiple of 32 values: int8 quants of x's shape and one scale per block."""
    blocks, shape = _blocks(x)
    q = np.empty(blocks.shape, np.int8)
    d = np.empty(len(blocks), np.float32)
    for start in range(0, len(blocks), _PASS):
        part = slice(start, start + _PASS)
        q[part], d[part] = _q8_pass(blocks[part], f16_scales)
    return q.reshape(shape), d.reshape(*shape[:-1], shape[-1] // BLOCK)


def _q8_pass(x: F32, f16_scales: bool) -> tuple[I8, F32]:
    amax = np.maximum(x.max(axis=1), -x.min(axis=1))
    used = amax >= TINY
    safe = np.where(used, amax, np.float32(1))
    d = np.where(used, safe / np.float32(127), np.float32(0))
    inverse = np.float32(127) / safe
    if f16_scales:
        d = to_f16_scales(d)
        used = d != 0
        inverse = np.float32(1) / np.where(used, d, np.float32(1))
    t = x * inverse[:, None]
    t += np.copysign(np.float32(0.5), x)
    np.clip(t, -127, 127, out=t)
    t[~used] = 0
    return t.astype(np.int8), d


def quantize_q4_0(
    x: npt.ArrayLike,
    f16_scales: bool = False,
    rule: Q4Rule = "search",
    importance: F32 | None = None,
) -> tuple[I8, F32]:
    """Like quantize_q8_0, with quants from -8 to 7 (not yet packed into nibbles).

    With the importance of each column, the search weighs errors by it.
    """
    blocks, shape = _blocks(x)
    weights = _weights(np.asarray(x, np.float32), importance) if importance is not None else None
    q = np.empty(blocks.shape, np.int8)
    d = np.empty(len(blocks), np.float32)
    for start in range(0, len(blocks), _PASS):
        part = slice(start, start + _PASS)
        if rule == "round":
            q[part], d[part] = _q4_round_pass(blocks[part])
        else:
            q[part], d[part] = _q4_search_pass(blocks[part], weights[part] if weights is not None else None)
    if f16_scales:
        d = to_f16_scales(d)
    return q.reshape(shape), d.reshape(*shape[:-1], shape[-1] // BLOCK)


def _weights(x: F32, importance: F32) -> F32:
    """Weights of errors, by blocks: importance * sqrt(s2 + x * x), where s2 is the mean square of the row."""
    rows = x.reshape(-1, x.shape[-1]).astype(np.float64)  # squares of tiny weights do not fit into float32
    squares = rows * rows
    weights: F32 = (importance * np.sqrt(squares.mean(axis=1, keepdims=True) + squares)).astype(np.float32)
    return weights.reshape(-1, BLOCK)


def _q4_search_pass(rows: F32, weights: F32 | None) -> tuple[I8, F32]:
    largest = _largest(rows)
    amax = np.abs(largest)
    scaled = (amax < Q4_SMALLEST) | (amax > Q4_LARGEST)
    unit = np.where(scaled & (amax > 0), amax, np.float32(1))
    largest = np.where(amax > 0, largest / unit, np.float32(1))
    # One block per column from here on: sums over a block then run along whole vectors.
    # A copy, even if there is only one block: it may be scaled.
    x = np.array(rows.T, order="C")
    if scaled.any():
        x /= unit
    d, q = fit_q4(x, x * x if weights is None else np.ascontiguousarray((weights / unit[:, None]).T), largest)
    return np.ascontiguousarray(q.T).astype(np.int8), d * unit


def fit_q4(x: F32, weight: F32, largest: F32) -> tuple[F32, F32]:
    """Find each column's scale and levels: the candidate of the smallest weighted squared error."""
    best, best_level = np.full(len(largest), -1, np.float32), np.zeros(len(largest), np.float32)
    q, wq = np.empty_like(x), np.empty_like(x)
    for level in Q4_LEVELS:
        _levels(x, np.float32(level) / largest, q)
        sxq, sqq = _sums(x, weight, q, wq)
        # The error is sum(w x x) - sxq**2 / sqq, so the largest quotient wins.
        gain = sxq * (sxq / sqq)
        better = gain > best
        best[better] = gain[better]
        best_level[better] = level
    _levels(x, best_level / largest, q)
    sxq, sqq = _sums(x, weight, q, wq)
    return sxq / sqq, q


def _levels(x: F32, inverse: F32, out: F32) -> None:
    np.multiply(x, inverse, out=out)
    np.rint(out, out=out)
    np.minimum(out, 7, out=out)  # the largest element goes to -8.4 at most, which rounds to -8


def _sums(x: F32, weight: F32, q: F32, wq: F32) -> tuple[F32, F32]:
    """Per column: sums of weight * x * q and of weight * q * q (1 where the latter is 0)."""
    np.multiply(weight, q, out=wq)
    sqq = np.einsum("ij,ij->j", q, wq)
    return np.einsum("ij,ij->j", x, wq), np.where(sqq > 0, sqq, np.float32(1))


def _q4_round_pass(x: F32) -> tuple[I8, F32]:
    d = _largest(x) / np.float32(-8)
    d[np.abs(d) < TINY] = 0
    inverse = np.float32(1) / np.where(d == 0, np.float32(1), d)
    t = x * inverse[:, None] + np.float32(8.5)
    np.clip(np.trunc(t, out=t), 0, 15, out=t)
    t -= 8
    t[d == 0] = 0
    return t.astype(np.int8), d


def _largest(x: F32) -> F32:
    """Each row's element of largest magnitude, with its sign; the first of equal ones."""
    high, low = x.max(axis=1), x.min(axis=1)
    largest: F32 = np.where(high > -low, high, low)
    equal = np.flatnonzero((high == -low) & (high > 0))
    first = np.abs(x[equal]).argmax(axis=1)
    largest[equal] = x[equal, first]
    return largest


def _blocks(x: npt.ArrayLike) -> tuple[F32, tuple[int, ...]]:
    values = np.ascontiguousarray(x, np.float32)
    if values.ndim == 0 or values.shape[-1] % BLOCK:
        raise ValueError(f"rows of shape {values.shape} do not consist of blocks of {BLOCK}")
    return values.reshape(-1, BLOCK), values.shape


def to_f16_scales(d: F32) -> F32:
    """Round scales to the nearest f16; one that does not fit raises ScaleOverflowError."""
    if d.size and float(np.abs(d).max()) > F16_MAX:
        raise ScaleOverflowError(f"a scale of {np.abs(d).max():g} is beyond f16 (largest {F16_MAX:g})")
    rounded: F32 = d.astype(np.float16).astype(np.float32)
    return rounded


def pack_q4(q: I8) -> U8:
    """Levels -8..7 to bytes: per block, byte j holds element j (low nibble) and element j + 16."""
    nibbles = (q + np.int8(8)).view(np.uint8).reshape(*q.shape[:-1], -1, 2, 16)
    packed = nibbles[..., 0, :] | (nibbles[..., 1, :] << np.uint8(4))
    return packed.reshape(*q.shape[:-1], -1)


def unpack_q4(packed: npt.NDArray[Any]) -> I8:
    """The inverse of pack_q4."""
    data = packed.view(np.uint8).reshape(*packed.shape[:-1], -1, 1, 16)
    nibbles = np.concatenate([data & 15, data >> 4], axis=-2)
    q: I8 = nibbles.astype(np.int8).reshape(*packed.shape[:-1], -1) - np.int8(8)
    return q


def dequantize(q: npt.NDArray[Any], d: F32) -> F32:
    """Quant times its block's scale, in float32."""
    blocks = q.reshape(*d.shape, BLOCK).astype(np.float32)
    blocks *= d[..., None]
    return blocks.reshape(q.shape)
