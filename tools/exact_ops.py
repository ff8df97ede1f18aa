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
_LOG_POLYNOMIAL = np.array(
    [
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
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


def sigmoid(x: F32) -> F32:
    """1 / (1 + exp(-x))."""
    y: F32 = _ONE / (_ONE + exp(-x))
    return y


def softcap(x: F32, cap: float) -> F32:
    """Cap * tanh(x / cap), with tanh(s) = 1 - 2 / (exp(2 s) + 1)."""
    c = np.float32(cap)
    e = exp((x / c) * np.float32(2))
    y: F32 = c * (_ONE - np.float32(2) / (e + _ONE))
    return y


def log(x: F32) -> F32:
    """Natural logarithm of positive normal numbers: the Cephes polynomial around 1, unfused in both classes."""
    bits = x.view(np.int32)
    # The mantissa from sqrt(1/2) to sqrt(2), the exponent with it.
    shifted = bits - np.int32(0x3F3504F3)
    n = (shifted >> 23).astype(np.float32)
    m: F32 = ((shifted & np.int32(0x7FFFFF)) + np.int32(0x3F3504F3)).view(np.float32) - _ONE
    y: F32 = np.full_like(x, _LOG_POLYNOMIAL[0])
    for c in _LOG_POLYNOMIAL[1:]:
        y = y * m + c
    z = m * m
    y = (y * m) * z
    y = y + n * np.float32(-2.12194440e-4)
    y = y - z * np.float32(0.5)
    result: F32 = (m + y) + n * np.float32(0.693359375)
    return result


def softplus(x: F32) -> F32:
    """Log(1 + exp(x)); x itself above 20."""
    e = exp(x)
    u = _ONE + e
    with np.errstate(all="ignore"):
        # What the sum 1 + e lost to rounding comes back as a factor.
        y: F32 = np.where(u == _ONE, e, log(u) * (e / (u - _ONE))).astype(np.float32)
    result: F32 = np.where(x > np.float32(20), x, y)
    return result


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


def rotate_heads(x: F32) -> F32:
    """Multiply heads by a Hadamard matrix over the largest power of two that divides their size."""
    size = x.shape[-1] & -x.shape[-1]
    half = 1
    while half < size:
        pairs = x.reshape(*x.shape[:-1], -1, 2, half)
        a, b = pairs[..., 0, :], pairs[..., 1, :]
        x = np.stack([a + b, a - b], axis=-2).reshape(x.shape)
        half *= 2
    return x


def integer_dot(q: I8, k: I8) -> npt.NDArray[np.int32]:
    """Exact int32 dot product over the last axis."""
    dots: npt.NDArray[np.int32] = np.einsum("...i,...i->...", q.astype(np.int32), k.astype(np.int32))
    return dots
