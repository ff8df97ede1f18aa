"""The NumPy reference against exact rational arithmetic and plain definitions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krafla.codegen import reference as ref

F32_MAX = float(np.finfo(np.float32).max)
bits32 = st.integers(0, 2**32 - 1)
# Random bits seldom meet: small exponent ranges make cancellation, ties and denormal results common.
close = st.tuples(st.booleans(), st.integers(100, 150), st.integers(0, 2**23 - 1)).map(
    lambda t: (t[0] << 31) | (t[1] << 23) | t[2]
)
tiny = st.tuples(st.booleans(), st.integers(0, 90), st.integers(0, 2**23 - 1)).map(
    lambda t: (t[0] << 31) | (t[1] << 23) | t[2]
)


def from_bits(bits: int) -> np.float32:
    return np.array([bits], np.uint32).view(np.float32)[0]


def round_to_f32(exact: Fraction) -> float:
    """Nearest float32, ties to even, gradual underflow, overflow to infinity."""
    if exact == 0:
        return 0.0
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    while Fraction(2) ** exponent > magnitude:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= magnitude:
        exponent += 1
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    rounded = round(magnitude / unit) * unit  # Fraction rounds half to even
    value = math.inf if rounded > Fraction(F32_MAX) else float(rounded)
    return math.copysign(value, exact)


def exact_fma(a: np.float32, b: np.float32, c: np.float32) -> float:
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        with np.errstate(all="ignore"):
            return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return float(np.float64(a) * np.float64(b) + np.float64(c))  # exact; the sign of zero is IEEE's
    return round_to_f32(exact)


def same(x: float, y: float) -> bool:
    return (math.isnan(x) and math.isnan(y)) or (x == y and math.copysign(1, x) == math.copysign(1, y))


@settings(max_examples=1500, deadline=None)
@given(st.one_of(st.tuples(*[bits32] * 3), st.tuples(*[close] * 3), st.tuples(tiny, close, tiny)))
def test_fma32_rounds_once(triple: tuple[int, int, int]) -> None:
    a, b, c = map(from_bits, triple)
    assert same(float(ref.fma32(a, b, c)), exact_fma(a, b, c))


def test_fma32_in_hard_places() -> None:
    one_up = 1 + 2.0**-23
    cases = [
        (one_up, one_up, -(1 + 2.0**-22)),  # only the last bit of the product is left
        (one_up, 2.0**-24, 1.0),  # above a tie by one bit of the product
        (1 - 2.0**-24, 2.0**-24, 1.0),  # below a tie
        (2.0**-100, 2.0**-100, 1.0),  # an addend far below the last bit
        (2.0**-100, 2.0**-48, 2.0**-149),  # half a denormal step more: a tie
        (2.0**-75, 2.0**-75, 0.0),  # underflows to a tie with zero
        (2.0**-75, 2.0**-75 * one_up, 0.0),  # just above it
        (F32_MAX, 2.0, -F32_MAX),  # the product alone would overflow
        (F32_MAX, one_up, 0.0),
        (2.0**-120, 2.0**-20, 2.0**-126),
        (-1.0, 0.0, 0.0),
        (-1.0, 0.0, -0.0),
    ]
    for case in cases:
        a, b, c = map(np.float32, case)
        assert same(float(ref.fma32(a, b, c)), exact_fma(a, b, c)), case


def test_fma32_does_not_round_through_float64() -> None:
    # a * b = 2^-24 + 2^-60: above the tie of 1 and its successor by less than float64 can hold beside 1.
    a, b, c = np.float32(17 * 241 * 433), np.float32(38737 * 2.0**-60), np.float32(1)
    assert np.float32(float(a) * float(b) + float(c)) == 1
    assert ref.fma32(a, b, c) == np.float32(1 + 2.0**-23) == exact_fma(a, b, c)


def test_madd_differs_between_the_classes() -> None:
    a = np.float32(1 + 2.0**-23)
    c = np.float32(-(1 + 2.0**-22))
    assert ref.madd(a, a, c, fused=True) == np.float32(2.0**-46)
    assert ref.madd(a, a, c, fused=False) == 0


@pytest.mark.parametrize("fused", [False, True])
def test_exp_is_accurate_and_total(fused: bool) -> None:
    x = np.linspace(-87.3, 88.37, 200001, dtype=np.float32)
    exact = np.exp(x.astype(np.float64))
    assert np.max(np.abs(ref.exp(x, fused=fused) / exact - 1)) < 2e-7
    edges = np.array([np.inf, -np.inf, 88.4, -87.4, 1e30, -1e30, 0.0, -0.0, 1e-40], np.float32)
    np.testing.assert_array_equal(ref.exp(edges, fused=fused), [np.inf, 0, np.inf, 0, np.inf, 0, 1, 1, 1])
    assert np.isnan(ref.exp(np.array([np.nan], np.float32), fused=fused)).all()
    assert ref.exp(np.float32(-87.33654), fused=fused) >= np.finfo(np.float32).smallest_normal


def test_fold16_follows_the_canonical_order() -> None:
    x = np.random.default_rng(1).standard_normal(77).astype(np.float32) * np.float32(1e3)
    partials = [np.float32(0)] * 16
    for i, value in enumerate(x):
        partials[i % 16] += value
    for half in (8, 4, 2, 1):
        for j in range(half):
            partials[j] += partials[j + half]
    assert ref.fold16(x) == partials[0]
    assert ref.fold16_dot(x, np.ones_like(x), fused=False) == partials[0]


def test_matvec_equals_the_definition_and_matmul() -> None:
    rng = np.random.default_rng(2)
    rows, blocks, tokens = 5, 4, 3
    wq = rng.integers(-128, 128, (rows, blocks * 32)).astype(np.int8)
    xq = rng.integers(-127, 128, (tokens, blocks * 32)).astype(np.int8)
    wd = rng.standard_normal((rows, blocks)).astype(np.float16)
    xd = rng.random((tokens, blocks)).astype(np.float32)
    y = ref.matmul_q8_pk_f16(wq, wd, xq, xd, fused=False)
    for t in range(tokens):
        np.testing.assert_array_equal(ref.matvec_q8(wq, wd, xq[t], xd[t], fused=False), y[t])
        for r in range(rows):
            acc = np.float32(0)
            for b in range(blocks):
                part = slice(b * 32, b * 32 + 32)
                isum = int(wq[r, part].astype(int) @ xq[t, part].astype(int))
                acc = np.float32(isum) * (np.float32(wd[r, b]) * xd[t, b]) + acc
            assert y[t, r] == acc


def test_nibbles_are_in_file_order() -> None:
    block = np.arange(16, dtype=np.uint8) | (np.arange(15, -1, -1, dtype=np.uint8) << 4)
    expected = [*range(-8, 8), *range(7, -9, -1)]
    np.testing.assert_array_equal(ref.nibbles(block[None, :])[0], expected)


def test_quantize_keeps_its_promises() -> None:
    x = np.zeros((8, 32), np.float32)
    x[0] = np.linspace(-3, 3, 32)
    x[1, 5] = 9.9e-31
    x[2, :3] = [1.0, 0.5 / 127, -0.5 / 127]  # ties round away from zero
    x[3, :2] = [np.nan, 2.0]
    x[4] = np.nan
    x[5, :2] = [np.inf, 1.0]
    x[6] = np.float32(1e-40)
    x[7, :2] = [F32_MAX, -F32_MAX]
    q, d, s = ref.quantize_q8(x.reshape(-1), fused=True)
    q = q.reshape(8, 32)
    assert q[0, 0] == -127 and q[0, -1] == 127 and d[0] == np.float32(3) / np.float32(127)
    assert not q[1].any() and d[1] == 0
    assert q[2, 1] == 1 and q[2, 2] == -1
    assert q[3, 0] == -127 and q[3, 1] == 127
    assert not q[4].any() and d[4] == 0
    assert q[5, 0] == -127 and d[5] == np.inf and q[5, 1] == 0
    assert not q[6].any()
    assert q[7, 0] == 127 and q[7, 1] == -127
    np.testing.assert_array_equal(s, q.sum(axis=1, dtype=np.int32))


def test_softmax_special_rows() -> None:
    inf = np.float32(np.inf)
    x = np.array([-inf, 0, -inf, 0], np.float32)
    np.testing.assert_array_equal(ref.softmax(x, fused=True), [0, 0.5, 0, 0.5])
    np.testing.assert_array_equal(
        ref.softmax(np.full(3, -inf, np.float32), fused=True), [np.float32(1) / 3] * 3
    )
    assert np.isnan(ref.softmax(np.array([0, np.nan, -inf], np.float32), fused=True)).all()


@pytest.mark.parametrize("fused", [False, True])
def test_elementwise_ops_are_what_they_are_called(fused: bool) -> None:
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, 333)).astype(np.float32) * np.float32(3)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(ref.silu_mul(x, w, fused=fused), wide / (1 + np.exp(-wide)) * w, rtol=1e-6)
    gelu = 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    np.testing.assert_allclose(ref.gelu_mul(x, w, fused=fused), gelu * w, rtol=2e-5, atol=1e-7)
    norm = wide / np.sqrt((wide**2).mean() + 1e-5) * w
    np.testing.assert_allclose(ref.rmsnorm(x, w, 1e-5, fused=fused), norm, rtol=1e-6)
    soft = np.exp(wide - wide.max())
    np.testing.assert_allclose(ref.softmax(x, fused=fused), soft / soft.sum(), rtol=3e-6)
    angle = rng.random(4)
    turned, _ = ref.rope(
        x[:24], x[:12], f32(np.cos(angle)), f32(np.sin(angle)), head_dim=12, rot_dim=8, fused=fused
    )
    pairs = wide[:24].reshape(2, 12)
    complex_pairs = (pairs[:, 0:8:2] + 1j * pairs[:, 1:8:2]) * np.exp(1j * angle)
    np.testing.assert_allclose(turned.reshape(2, 12)[:, 0:8:2], complex_pairs.real, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(turned.reshape(2, 12)[:, 1:8:2], complex_pairs.imag, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(turned.reshape(2, 12)[:, 8:], x[:24].reshape(2, 12)[:, 8:])


def f32(x: object) -> ref.F32:
    return ref.f32(x)


def test_cache_rows() -> None:
    rng = np.random.default_rng(4)
    q = rng.standard_normal((3, 48)).astype(np.float32)
    k = rng.standard_normal((7, 48)).astype(np.float16)
    keys = np.ascontiguousarray(k.T)
    np.testing.assert_array_equal(
        ref.dot_f16(q, keys.view(np.uint16), fused=True), ref.dot_f32(q, f32(keys), fused=True)
    )
    np.testing.assert_allclose(ref.dot_f16(q, keys, fused=False), q @ f32(keys), rtol=1e-4, atol=1e-5)
    p = rng.random((3, 7)).astype(np.float32)
    np.testing.assert_allclose(ref.axpy_f16(q, p, k, fused=False), q + p @ f32(k), rtol=1e-4, atol=1e-5)
    k8, d = rng.integers(-127, 128, (7, 48)).astype(np.int8), rng.random(7).astype(np.float32)
    dq = np.array([0.25, 3, 0], np.float32)
    expected = (k8[:3].astype(int) @ k8.astype(int).T).astype(np.float32) * (dq[:, None] * d)
    np.testing.assert_array_equal(ref.dot_q8(k8[:3], dq, k8, d, fused=True), expected)
    np.testing.assert_allclose(ref.axpy_q8(q, p, k8, fused=True), q + p @ f32(k8), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("step", [1, 4])
@pytest.mark.parametrize("group", [4, 8, 16])
@pytest.mark.parametrize("rows", [1, 15, 16, 33])
def test_packing_round_trips(rows: int, group: int, step: int) -> None:
    rng = np.random.default_rng(5)
    cols = 96
    q8 = rng.integers(-127, 128, (rows, cols)).astype(np.int8)
    q4 = rng.integers(0, 256, (rows, cols // 2)).astype(np.uint8)
    scales = rng.random((rows, cols // 32)).astype(np.float32)
    for offset, xor in ((0, 0), (128, 0x88)):
        packed8, packed4 = ref.pack_q8(q8, group, step, offset), ref.pack_q4(q4, group, step, xor)
        np.testing.assert_array_equal(ref.unpack_q8(packed8, group, step, offset, rows, cols), q8)
        np.testing.assert_array_equal(ref.unpack_q4(packed4, group, step, xor, rows, cols), q4)
    np.testing.assert_array_equal(
        ref.unpack_scales(ref.pack_scales(scales, group), group, rows, cols // 32), scales
    )


def test_packed_bytes_lie_where_the_layout_says() -> None:
    rng = np.random.default_rng(6)
    group, step, rows, blocks = 8, 4, 11, 3
    q8 = rng.integers(-127, 128, (rows, blocks * 32)).astype(np.int8)
    q4 = rng.integers(0, 256, (rows, blocks * 16)).astype(np.uint8)
    packed8, packed4 = ref.pack_q8(q8, group, step, 128), ref.pack_q4(q4, group, step, 0x88)
    scales = ref.pack_scales(rng.random((rows, blocks)).astype(np.float32), group)
    for row in range(16):
        g, lane = divmod(row, group)
        for b in range(blocks):
            for s in range(8):
                for k in range(step):
                    address = ((g * blocks + b) * 8 + s) * group * step + lane * step + k
                    quant = int(q8[row, b * 32 + s * step + k]) if row < rows else 0
                    assert packed8[address] == quant + 128
            for s in range(4):
                for k in range(step):
                    address = ((g * blocks + b) * 4 + s) * group * step + lane * step + k
                    byte = int(q4[row, b * 16 + s * step + k]) if row < rows else 0x88
                    assert packed4[address] == byte ^ 0x88
            assert row < rows or scales[(g * blocks + b) * group + lane] == 0


def test_tiles_hold_blocks_of_tokens() -> None:
    rng = np.random.default_rng(7)
    xq = rng.integers(-127, 128, (5, 64)).astype(np.int8)
    xd = rng.random((5, 2)).astype(np.float32)
    xs = xq.reshape(5, 2, 32).sum(axis=2, dtype=np.int32)
    tq, td, ts = ref.tile_q8(xq, xd, xs, tile=4, fused=True)
    assert tq.shape == (2, 2, 4, 32) and td.shape == ts.shape == (2, 2, 4)
    np.testing.assert_array_equal(tq[1, 1, 0], xq[4, 32:])
    np.testing.assert_array_equal(ts[0, :, 2], xs[2])
    assert not tq[1, :, 1:].any() and not td[1, :, 1:].any()
    assert ref.tile_q8(xq[:1], xd[:1], xs[:1], tile=4, fused=True)[0].shape == (1, 2, 1, 32)
