"""What every kernel computes, in NumPy: bit for bit, in both rounding classes.

Each function is named after an op of the registry, takes the op's inputs under their C names and returns its
outputs (a tuple if there are several) as new arrays. `fused` chooses the class: True rounds a multiply-add
once, False twice. Matrices come row-major: a packed kernel computes what its row-major twin computes. Arrays
are float32 throughout, and no function here knows an instruction set.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]
Scales = NDArray[np.float32] | NDArray[np.float16]

BLOCK = 32
_f = np.float32

_LOG2E = _f(1.44269504088896341)
_ROUND = _f(12582912.0)  # 1.5 * 2^23: adding it leaves the nearest integer in the low mantissa bits
_LN2_HIGH, _LN2_LOW = _f(-0.693359375), _f(2.12194440e-4)
_EXP_POLYNOMIAL = (
    _f(1.9875691500e-4),
    _f(1.3981999507e-3),
    _f(8.3334519073e-3),
    _f(4.1665795894e-2),
    _f(1.6666665459e-1),
    _f(5.0000001201e-1),
)
_EXP_MAX, _EXP_MIN = _f(88.3762626647949), _f(-87.33654)


def f32(x: Any) -> F32:
    """The values of `x` (float16 included) as a float32 array; float16 widens exactly."""
    return np.asarray(x, np.float32)


# --- The two multiply-adds


@np.errstate(all="ignore")
def fma32(a: Any, b: Any, c: Any) -> F32:
    """`a * b + c` in float32 with a single rounding.

    The product is exact in float64. The sum is rounded to odd: TwoSum gives the rounding error, and an
    inexact sum with an even mantissa moves one step towards the exact value. Float32 then rounds it once.
    """
    product = f32(a).astype(np.float64) * f32(b).astype(np.float64)
    addend = f32(c).astype(np.float64)
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)
    bits = np.atleast_1d(total).view(np.int64)
    inexact_even = (error != 0) & np.isfinite(total) & (bits & 1 == 0).reshape(total.shape)
    away = np.where((error > 0) == (total > 0), 1, -1)
    odd = (bits + np.where(inexact_even, away, 0).reshape(bits.shape)).view(np.float64).reshape(total.shape)
    return odd.astype(np.float32)


@np.errstate(all="ignore")
def madd(a: Any, b: Any, c: Any, *, fused: bool) -> F32:
    """Multiply-add of the class: the one operation in which machines differ."""
    if fused:
        return fma32(a, b, c)
    return np.asarray(f32(a) * f32(b) + f32(c), np.float32)


# --- Canonical building blocks


def _halves(partials: F32) -> F32:
    """Folds 16 partials (last axis) by halves."""
    for half in (8, 4, 2, 1):
        partials = partials[..., :half] + partials[..., half : 2 * half]
    return partials[..., 0]


@np.errstate(all="ignore")
def fold16(x: F32) -> F32:
    """Canonical sum over the last axis: element i goes to partial i mod 16, partials fold by halves."""
    partials = np.zeros((*x.shape[:-1], 16), np.float32)
    for start in range(0, x.shape[-1], 16):
        strip = x[..., start : start + 16]
        partials[..., : strip.shape[-1]] += strip
    return _halves(partials)


@np.errstate(all="ignore")
def fold16_dot(a: F32, b: F32, *, fused: bool) -> F32:
    """Canonical dot product over the last axis; `a` and `b` broadcast against each other."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    partials = np.zeros((*shape[:-1], 16), np.float32)
    for start in range(0, shape[-1], 16):
        x, y = a[..., start : start + 16], b[..., start : start + 16]
        width = min(16, shape[-1] - start)
        partials[..., :width] = madd(x, y, partials[..., :width], fused=fused)
    return _halves(partials)


@np.errstate(all="ignore")
def exp(x: Any, *, fused: bool) -> F32:
    """The project's exponential: Cephes polynomial, no libm; below the smallest normal it is 0."""
    x = f32(x)
    t = x * _LOG2E + _ROUND
    n = t - _ROUND
    r = madd(n, _LN2_LOW, madd(n, _LN2_HIGH, x, fused=fused), fused=fused)
    y = np.full_like(x, _EXP_POLYNOMIAL[0])
    for coefficient in _EXP_POLYNOMIAL[1:]:
        y = madd(y, r, coefficient, fused=fused)
    y = madd(y, r * r, r, fused=fused) + _f(1)
    bits = np.atleast_1d(t).view(np.uint32)
    power = ((bits << np.uint32(23)) + np.uint32(0x3F800000)).view(np.float32).reshape(x.shape)
    y = y * power
    return f32(np.where(x > _EXP_MAX, _f(np.inf), np.where(x < _EXP_MIN, _f(0), y)))


# --- Matrix products


def nibbles(wq: U8) -> I8:
    """Q4 file bytes [..., blocks * 16] as values in [-8, 7] [..., blocks * 32]."""
    blocks = wq.reshape(*wq.shape[:-1], -1, BLOCK // 2)
    values: I8 = np.concatenate([blocks & 15, blocks >> 4], axis=-1).astype(np.int8) - np.int8(8)
    return values.reshape(*wq.shape[:-1], -1)


@np.errstate(all="ignore")
def _matmul(w: I8, wd: Scales, xq: I8, xd: F32, fused: bool) -> F32:
    """y[token, row]: exact integer block products, scaled and added in block order."""
    blocks = w.shape[-1] // BLOCK
    rows, tokens = w.shape[0], xq.shape[0]
    # |isum| <= 32 * 128 * 128 < 2^24: float32 holds every partial sum exactly, in any order.
    weights = w.reshape(rows, blocks, BLOCK).transpose(1, 2, 0).astype(np.float32)
    inputs = xq.reshape(tokens, blocks, BLOCK).transpose(1, 0, 2).astype(np.float32)
    isum = inputs @ weights
    w_scales, x_scales = f32(wd).reshape(rows, blocks), xd.reshape(tokens, blocks)
    acc = np.zeros((tokens, rows), np.float32)
    for b in range(blocks):
        acc = madd(isum[b], x_scales[:, b, None] * w_scales[None, :, b], acc, fused=fused)
    return acc


def matmul_q8_pk(wq: I8, wd: Scales, xq: I8, xd: F32, *, fused: bool) -> F32:
    """y[tokens, rows] of Q8 weights wq[rows, cols], wd[rows, cols/32] and activations xq[tokens, cols]."""
    return _matmul(wq, wd, xq, xd, fused)


def matmul_q4_pk(wq: U8, wd: Scales, xq: I8, xd: F32, *, fused: bool) -> F32:
    """The same of Q4 weights in file order, wq[rows, cols/2]."""
    return _matmul(nibbles(wq), wd, xq, xd, fused)


def matvec_q8(wq: I8, wd: Scales, xq: I8, xd: F32, *, fused: bool) -> F32:
    """y[rows] of Q8 weights wq[rows, cols] and one activation row xq[cols]."""
    return f32(_matmul(wq, wd, xq.reshape(1, -1), xd, fused)[0])


def matvec_q4(wq: U8, wd: Scales, xq: I8, xd: F32, *, fused: bool) -> F32:
    """The same of Q4 weights in file order, wq[rows, cols/2]."""
    return f32(_matmul(nibbles(wq), wd, xq.reshape(1, -1), xd, fused)[0])


# f16 scales widen exactly and packing only moves bytes: these compute the same.
matvec_q8_pk = matvec_q8_pk_f16 = matvec_q8
matvec_q4_pk = matvec_q4_pk_f16 = matvec_q4
matmul_q8_pk_f16 = matmul_q8_pk
matmul_q4_pk_f16 = matmul_q4_pk


def tile_q8(xq: I8, xd: F32, xs: I32, *, tile: int, fused: bool) -> tuple[I8, F32, I32]:
    """Activations by tiles of tokens, [tile][block][token]: the order every tile shares.

    Quants are left as they are; what a dot product does to them on the way (widening, pairs, an offset) is
    its own matter. A single token is its own tile, otherwise zero rows fill up the last tile.
    """
    tokens, blocks = xd.shape
    width = 1 if tokens == 1 else tile
    padded = -(-tokens // width) * width

    def by_tile(x: NDArray[Any]) -> NDArray[Any]:
        filled = np.zeros((padded, *x.shape[1:]), x.dtype)
        filled[:tokens] = x
        return np.ascontiguousarray(filled.reshape(padded // width, width, *x.shape[1:]).swapaxes(1, 2))

    return by_tile(xq.reshape(tokens, blocks, BLOCK)), by_tile(xd), by_tile(xs)


@np.errstate(all="ignore")
def quantize_q8(x: F32, *, fused: bool) -> tuple[I8, F32, I32]:
    """Q8_0 quants, block scales and block sums of x[n], n a multiple of 32."""
    blocks = x.reshape(-1, BLOCK)
    top = np.fmax(np.max(np.where(np.isnan(blocks), _f(0), np.abs(blocks)), axis=1), _f(0))
    zero = top < _f(1e-30)
    d = np.where(zero, _f(0), top / _f(127))
    t = blocks * (_f(127) / top)[:, None]
    t = t + np.copysign(_f(0.5), blocks)
    t = np.where(t > -127, t, _f(-127))  # a NaN becomes -127
    t = np.where(t < 127, t, _f(127))
    q = np.where(zero[:, None], _f(0), np.trunc(t)).astype(np.int8)
    return q.reshape(-1), d, q.sum(axis=1, dtype=np.int32)


# --- Element by element


@np.errstate(all="ignore")
def rmsnorm(x: F32, w: F32, eps: float, *, fused: bool) -> F32:
    """x / rms(x) * w, over the last axis."""
    mean = fold16_dot(x, x, fused=fused) / _f(x.shape[-1])
    inverse = _f(1) / np.sqrt(mean + _f(eps))
    return f32((x * inverse[..., None]) * w)


@np.errstate(all="ignore")
def softmax(x: F32, *, fused: bool) -> F32:
    """Softmax of x[n]; all -inf gives 1/n, a NaN anywhere gives NaN everywhere."""
    if np.isnan(x).any():
        return np.full_like(x, np.nan)
    top = x.max()
    if top == -np.inf:
        return np.full_like(x, _f(1) / _f(x.size))
    e = exp(x - top, fused=fused)
    return f32(e * (_f(1) / fold16(e)))


@np.errstate(all="ignore")
def silu_mul(g: F32, u: F32, *, fused: bool) -> F32:
    """silu(g) * u."""
    return f32((g / (_f(1) + exp(-g, fused=fused))) * u)


@np.errstate(all="ignore")
def gelu_mul(g: F32, u: F32, *, fused: bool) -> F32:
    """gelu(g) * u, in the tanh approximation written as a sigmoid."""
    inner = madd((g * g) * _f(0.044715), g, g, fused=fused)
    return f32((g / (_f(1) + exp(inner * _f(-1.5957691216057308), fused=fused))) * u)


@np.errstate(all="ignore")
def add(y: F32, x: F32, *, fused: bool) -> F32:
    """y + x."""
    return f32(y + x)


@np.errstate(all="ignore")
def rope(
    q: F32, k: F32, cos_t: F32, sin_t: F32, head_dim: int, rot_dim: int, *, fused: bool
) -> tuple[F32, F32]:
    """Rotates interleaved pairs of the first `rot_dim` values of every head of q and k."""

    def turned(x: F32) -> F32:
        heads = x.reshape(-1, head_dim).copy()
        a, b = heads[:, 0:rot_dim:2].copy(), heads[:, 1:rot_dim:2].copy()
        heads[:, 0:rot_dim:2] = madd(a, cos_t, -(b * sin_t), fused=fused)
        heads[:, 1:rot_dim:2] = madd(a, sin_t, b * cos_t, fused=fused)
        return f32(heads.reshape(x.shape))

    return turned(q), turned(k)


# --- Attention: one page of a cache, several queries


def dot_f32(q: F32, k: F32, *, fused: bool) -> F32:
    """Scores [queries, positions] of q [queries, n] and keys k [n, positions], dimensions in increasing order."""
    s = np.zeros((len(q), k.shape[1]), np.float32)
    for d, row in enumerate(k):
        s = madd(q[:, d, None], row, s, fused=fused)
    return s


def dot_f16(q: F32, k: NDArray[Any], *, fused: bool) -> F32:
    """The same with half-precision keys (float16, or their bits as uint16)."""
    return dot_f32(q, f32(k.view(np.float16)), fused=fused)


@np.errstate(all="ignore")
def dot_q8(q: I8, dq: F32, k: I8, dk: F32, *, fused: bool) -> F32:
    """Scores (q . k) * (dq * dk) of q [queries, n] and keys k [positions, n], the integer dot product exact."""
    isum = q.astype(np.int32) @ k.astype(np.int32).T
    return f32(isum.astype(np.float32) * (dq[:, None] * dk))


def axpy_f32(y: F32, p: F32, v: F32, *, fused: bool) -> F32:
    """y [queries, n] + sum of p[:, t] * v[t], rows in increasing order."""
    for t, row in enumerate(v):
        y = madd(p[:, t, None], row, y, fused=fused)
    return y


def widen_f16(x: NDArray[Any], *, fused: bool) -> F32:
    """Half-precision values as floats."""
    return f32(x.view(np.float16))


def widen_q8(x: I8, *, fused: bool) -> F32:
    """Quants as floats."""
    return f32(x)


def axpy_f16(y: F32, p: F32, v: NDArray[Any], *, fused: bool) -> F32:
    """The same with half-precision rows (float16, or their bits as uint16)."""
    return axpy_f32(y, p, f32(v.view(np.float16)), fused=fused)


@np.errstate(all="ignore")
def axpy_q8(y: F32, p: F32, v: I8, *, fused: bool) -> F32:
    """The same with int8 rows, whose scales are in the weights already."""
    return axpy_f32(y, p, f32(v), fused=fused)


# --- The packed layout


def _interleave(rows: U8, per_block: int, group: int, step: int, padding: int) -> U8:
    """[rows][blocks * per_block] bytes as [group][block][step][row in group][byte in step], flat."""
    groups = -(-rows.shape[0] // group)
    filled = np.full((groups * group, rows.shape[1]), padding, np.uint8)
    filled[: rows.shape[0]] = rows
    parts = filled.reshape(groups, group, rows.shape[1] // per_block, per_block // step, step)
    return np.ascontiguousarray(parts.transpose(0, 2, 3, 1, 4)).reshape(-1)


def _rows(packed: U8, per_block: int, group: int, step: int, rows: int, cols: int) -> U8:
    """The inverse of `_interleave`: bytes [rows][cols/32 * per_block]."""
    blocks = cols // BLOCK
    parts = packed.reshape(-1, blocks, per_block // step, group, step).transpose(0, 3, 1, 2, 4)
    unpacked: U8 = np.ascontiguousarray(parts).reshape(-1, blocks * per_block)
    return unpacked[:rows]


def pack_q8(wq: I8, group: int, step: int, offset: int) -> U8:
    """Q8 quants [rows, cols] in the packed layout, each with `offset` added."""
    biased = (wq.view(np.uint8) + np.uint8(offset)).astype(np.uint8)
    return _interleave(biased, BLOCK, group, step, offset)


def unpack_q8(packed: U8, group: int, step: int, offset: int, rows: int, cols: int) -> I8:
    """The quants [rows, cols] of a packed Q8 matrix."""
    quants: I8 = (_rows(packed, BLOCK, group, step, rows, cols) - np.uint8(offset)).view(np.int8)
    return quants


def pack_q4(wq: U8, group: int, step: int, xor: int) -> U8:
    """Q4 file bytes [rows, cols/2] in the packed layout, XORed with `xor`; padding rows hold zeros (8)."""
    return _interleave(wq ^ np.uint8(xor), BLOCK // 2, group, step, 0x88 ^ xor)


def unpack_q4(packed: U8, group: int, step: int, xor: int, rows: int, cols: int) -> U8:
    """The file bytes [rows, cols/2] of a packed Q4 matrix."""
    bytes_in_file_order: U8 = _rows(packed, BLOCK // 2, group, step, rows, cols) ^ np.uint8(xor)
    return bytes_in_file_order


def pack_scales(wd: Scales, group: int) -> Scales:
    """Block scales [rows, blocks] as [group][block][row in group], flat; padding rows have scale 0."""
    rows, blocks = wd.shape
    padding = np.zeros_like(wd[:1].repeat(-rows % group, axis=0))
    return np.concatenate([wd, padding]).reshape(-1, group, blocks).swapaxes(1, 2).reshape(-1)


def unpack_scales(packed: Scales, group: int, rows: int, blocks: int) -> Scales:
    """The block scales [rows, blocks] of a packed matrix."""
    return packed.reshape(-1, blocks, group).swapaxes(1, 2).reshape(-1, blocks)[:rows]
