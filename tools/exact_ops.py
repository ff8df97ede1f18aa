"""The numerics contract of the forward pass in NumPy float32, class U (a multiply-add rounds twice)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from krafla.tools.quantize import BLOCK, F32, I8

_LOG2E = np.float32(1.44269504088896341)
_SHIFT = np.float32(12582912.0)
_POLYNOMIAL = np.array(
    [
        1.9875691500e-4,
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    ],
    np.float32,
)
_TINY = np.float32(1e-30)
_ONE = np.float32(1)


def fold16(x: F32) -> F32:
    """Sum over the last axis: 16 partial sums in increasing order, then folded by halves."""
    n = x.shape[-1]
    padded = np.zeros((*x.shape[:-1], -(-n // 16) * 16), np.float32)
    padded[..., :n] = x
    p = np.zeros((*x.shape[:-1], 16), np.float32)
    for start in range(0, padded.shape[-1], 16):
        p = p + padded[..., start : start + 16]
    for half in (8, 4, 2, 1):
        p = p[..., :half] + p[..., half : 2 * half]
    return p[..., 0]


def dot(a: F32, b: F32) -> F32:
    """Canonical dot product over the last axis."""
    return fold16(a * b)


def dot_in_order(q: F32, k: F32) -> F32:
    """Dot product over the last axis, elements added in increasing order (attention scores)."""
    s = np.zeros(np.broadcast_shapes(q.shape, k.shape)[:-1], np.float32)
    for d in range(q.shape[-1]):
        s = q[..., d] * k[..., d] + s
    return s


def exp(x: F32) -> F32:
    """Cephes polynomial; below the smallest normal number 0."""
    with np.errstate(all="ignore"):
        t = x * _LOG2E + _SHIFT
        n = t - _SHIFT
        r = n * np.float32(-0.693359375) + x
        r = n * np.float32(2.12194440e-4) + r
        y = np.full_like(x, _POLYNOMIAL[0])
        for c in _POLYNOMIAL[1:]:
            y = y * r + c
        y = y * (r * r) + r
        y = y + _ONE
        power = ((t.view(np.uint32) << np.uint32(23)) + np.uint32(0x3F800000)).view(np.float32)
        result = y * power
        result = np.where(x > np.float32(88.3762626647949), np.float32(np.inf), result)
        clipped: F32 = np.where(x < np.float32(-87.33654), np.float32(0), result)
    return clipped


def rmsnorm(x: F32, weight: F32, eps: float) -> F32:
    """Root-mean-square norm over the last axis."""
    mean = dot(x, x) / np.float32(x.shape[-1])
    inverse = _ONE / np.sqrt(mean + np.float32(eps))
    normed: F32 = (x * inverse[..., None]) * weight
    return normed


def softmax(x: F32) -> F32:
    """Softmax over the last axis (of finite scores)."""
    e = exp(x - x.max(axis=-1, keepdims=True))
    return e * (_ONE / fold16(e))[..., None]


def silu_mul(g: F32, u: F32) -> F32:
    """SiLU of g, times u."""
    return (g / (_ONE + exp(-g))) * u


def gelu_mul(g: F32, u: F32) -> F32:
    """GELU of g (tanh approximation), times u."""
    inner = ((g * g) * np.float32(0.044715)) * g + g
    return (g / (_ONE + exp(inner * np.float32(-1.5957691216057308)))) * u


def quantize(x: F32, size: int = BLOCK) -> tuple[I8, F32]:
    """Quantize blocks of `size` values along the last axis; one scale each."""
    blocks = x.reshape(*x.shape[:-1], -1, size)
    m = np.abs(blocks).max(axis=-1)
    safe = np.where(m < _TINY, _ONE, m)
    d = np.where(m < _TINY, np.float32(0), safe / np.float32(127))
    t = blocks * (np.float32(127) / safe)[..., None]
    t = t + np.copysign(np.float32(0.5), blocks)
    t = np.trunc(np.clip(t, np.float32(-127), np.float32(127)))
    t = np.where((m < _TINY)[..., None], np.float32(0), t)
    return t.astype(np.int8).reshape(x.shape), d


def matmul(wq: I8, wd: F32, xq: I8, xd: F32) -> F32:
    """Products of quantized rows: wq (rows, cols) with xq (tokens, cols) to (tokens, rows)."""
    y = np.zeros((len(xq), len(wq)), np.float32)
    for b in range(wd.shape[1]):
        block = slice(b * BLOCK, (b + 1) * BLOCK)
        # Sums of 32 products of 8-bit integers are exact in float32, in any order.
        isum = xq[:, block].astype(np.float32) @ wq[:, block].astype(np.float32).T
        y = isum * (wd[:, b] * xd[:, b, None]) + y
    return y


def rope(x: F32, cos: F32, sin: F32) -> F32:
    """Rotate interleaved pairs of the first 2 * cos.shape[-1] dimensions; the tables broadcast over heads."""
    out = x.copy()
    rotated = 2 * cos.shape[-1]
    a, b = x[..., 0:rotated:2], x[..., 1:rotated:2]
    out[..., 0:rotated:2] = a * cos + -(b * sin)
    out[..., 1:rotated:2] = a * sin + b * cos
    return out


def integer_dot(q: I8, k: I8) -> npt.NDArray[np.int32]:
    """Exact int32 dot product over the last axis."""
    dots: npt.NDArray[np.int32] = np.einsum("...i,...i->...", q.astype(np.int32), k.astype(np.int32))
    return dots
