"""core/detmath: double-double functions against 60-digit decimals; sin, cos and exp within one unit."""

from __future__ import annotations

import ctypes
import math
import random
from decimal import Decimal, localcontext
from pathlib import Path

import pytest

from tests.native import build_library, write_source

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534")


class Double2(ctypes.Structure):
    _fields_ = [("hi", ctypes.c_double), ("lo", ctypes.c_double)]


@pytest.fixture(scope="module")
def lib() -> ctypes.CDLL:
    lib = build_library(["core/detmath.c", _exports()])
    for name in ("ml_log", "ml_pow", "test_exp"):
        getattr(lib, name).restype = ctypes.c_double
        getattr(lib, name).argtypes = [ctypes.c_double] * (2 if name == "ml_pow" else 1)
    for name, arguments in (("ml_dd_log", ctypes.c_double), ("ml_dd_exp", Double2)):
        getattr(lib, name).restype = Double2
        getattr(lib, name).argtypes = [arguments]
    pointer = ctypes.POINTER(ctypes.c_double)
    lib.ml_sincos.argtypes = [ctypes.c_double, pointer, pointer]
    lib.ml_sincos.restype = None
    return lib


def _exports() -> Path:
    """ml_exp is inline: a function that calls it."""
    lines = (
        '#include "core/detmath.h"',
        "double test_exp(double x);",
        "double test_exp(double x)",
        "{",
        "    return ml_exp(x);",
        "}",
    )
    return write_source("detmath_exports.c", "\n".join(lines) + "\n")


def sincos(lib: ctypes.CDLL, x: float) -> tuple[float, float]:
    sine, cosine = ctypes.c_double(), ctypes.c_double()
    lib.ml_sincos(x, ctypes.byref(sine), ctypes.byref(cosine))
    return sine.value, cosine.value


def exact_sine(x: float, quarter: int = 0) -> Decimal:
    """sin(x + quarter * pi/2) by Taylor series after exact reduction."""
    with localcontext() as context:
        context.prec = 80
        angle = Decimal(x) + quarter * PI / 2
        angle -= 2 * PI * (angle / (2 * PI)).to_integral_value()
        term = total = angle
        for k in range(1, 40):
            term = -term * angle * angle / ((2 * k) * (2 * k + 1))
            total += term
        return +total


def units(got: float, exact: Decimal) -> float:
    """The error in units in the last place of the exact value."""
    return float(abs(Decimal(got) - exact) / Decimal(math.ulp(float(exact))))


def angles() -> list[float]:
    rng = random.Random(1)
    values = [rng.uniform(0, 10 ** rng.uniform(-8, 7.8)) for _ in range(1500)]
    # Doubles next to multiples of pi/2, where the reduction cancels most.
    values += [float(PI / 2 * n) for n in range(1, 200)]
    values += [float(PI / 2 * rng.randrange(1, 2**25)) for _ in range(300)]
    return [*values, 0.0, 1e-300, 2.0**26]


def test_sine_and_cosine_are_within_one_unit(lib: ctypes.CDLL) -> None:
    for x in angles():
        sine, cosine = sincos(lib, x)
        assert units(sine, exact_sine(x)) < 0.8, x
        assert units(cosine, exact_sine(x, 1)) < 0.8, x


def test_negative_angles_mirror(lib: ctypes.CDLL) -> None:
    for x in angles()[:200]:
        sine, cosine = sincos(lib, x)
        assert sincos(lib, -x) == (-sine, cosine)


def test_exp_is_within_one_unit(lib: ctypes.CDLL) -> None:
    rng = random.Random(2)
    for x in [rng.uniform(-700, 700) for _ in range(2000)] + [rng.uniform(-1, 1) for _ in range(500)]:
        assert units(lib.test_exp(x), Decimal(x).exp()) < 1.0, x
    assert lib.test_exp(0.0) == 1.0
    assert lib.test_exp(-1e9) == lib.test_exp(-math.inf) == 0.0
    assert lib.test_exp(800.0) == lib.test_exp(math.inf) == math.inf
    assert math.isnan(lib.test_exp(math.nan))


def relative(got: Double2, exact: Decimal) -> float:
    with localcontext() as context:
        context.prec = 60
        return float(abs((Decimal(got.hi) + Decimal(got.lo) - exact) / exact))


@pytest.mark.parametrize(("name", "limit"), [("log", 2.0**-98), ("exp", 2.0**-96)])
def test_double_double_functions_hold_some_hundred_bits(lib: ctypes.CDLL, name: str, limit: float) -> None:
    rng = random.Random(3)
    with localcontext() as context:
        context.prec = 60
        for _ in range(400):
            if name == "log":
                x = 10 ** rng.uniform(-300, 300)
                got, exact = lib.ml_dd_log(x), Decimal(x).ln()
            else:
                x = rng.uniform(-600, 600)
                got, exact = lib.ml_dd_exp(Double2(x, 0.0)), Decimal(x).exp()
            assert relative(got, exact) < limit, x
            assert got.hi == float(exact), x


def test_pow_is_correctly_rounded(lib: ctypes.CDLL) -> None:
    with localcontext() as context:
        context.prec = 60
        for base in (10000.0, 500000.0, 1000000.0, 2.0, 123.456):
            for numerator in range(64):
                exponent = -numerator / 64
                exact = (Decimal(exponent) * Decimal(base).ln()).exp()
                assert lib.ml_pow(base, exponent) == float(exact)


def test_log_refuses_what_has_none(lib: ctypes.CDLL) -> None:
    assert lib.ml_log(1.0) == 0.0
    assert all(math.isnan(lib.ml_log(x)) for x in (0.0, -1.0, math.inf, math.nan))
