"""Every word of every ISA's lane vocabulary as a small C function, against NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from krafla.codegen import reference, registry
from krafla.codegen.lanes import Lanes, Loops
from krafla.codegen.reduce import Reductions
from tests import kernels, native
from tests.kernels import Array, difference

MACHINES = registry.machines()
SIZES = (1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 1000)


@dataclass(frozen=True)
class Word:
    """A word used once: the loop body in C, and what it stores in `o` (or `bytes`) given a, b and c."""

    body: Callable[[Lanes], str]
    result: Callable[[Array, Array, Array, bool], Array]
    inputs: Callable[[np.random.Generator, int], Array] | None = None


def stored(expression: Callable[[Lanes], str]) -> Callable[[Lanes], str]:
    return lambda v: v.store("o", "i", expression(v))


def loaded(v: Lanes, *names: str) -> list[str]:
    return [v.load(name, "i") for name in names]


def pow2(x: Array) -> Array:
    """2^n of n + 1.5 * 2^23, by bits."""
    bits = (x.view(np.uint32) << np.uint32(23)) + np.uint32(0x3F800000)
    return bits.view(np.float32)


def rounded_exponents(rng: np.random.Generator, count: int) -> Array:
    return (rng.integers(-126, 128, count) + np.float32(12582912)).astype(np.float32)


def small(rng: np.random.Generator, count: int) -> Array:
    """What store_i8 may get: |x| <= 127 with any fraction."""
    return rng.uniform(-127, 127, count).astype(np.float32)


WORDS: dict[str, Word] = {
    "load": Word(stored(lambda v: v.load("a", "i")), lambda a, b, c, fused: a),
    "store": Word(lambda v: v.store("o", "i", v.load("b", "i")), lambda a, b, c, fused: b),
    "set1": Word(stored(lambda v: v.set1("a[0]")), lambda a, b, c, fused: np.full_like(a, a[0])),
    "add": Word(stored(lambda v: v.add(*loaded(v, "a", "b"))), lambda a, b, c, fused: a + b),
    "sub": Word(stored(lambda v: v.sub(*loaded(v, "a", "b"))), lambda a, b, c, fused: a - b),
    "mul": Word(stored(lambda v: v.mul(*loaded(v, "a", "b"))), lambda a, b, c, fused: a * b),
    "div": Word(stored(lambda v: v.div(*loaded(v, "a", "b"))), lambda a, b, c, fused: a / b),
    "max": Word(stored(lambda v: v.max(*loaded(v, "a", "b"))), lambda a, b, c, fused: np.where(a > b, a, b)),
    "min": Word(stored(lambda v: v.min(*loaded(v, "a", "b"))), lambda a, b, c, fused: np.where(a < b, a, b)),
    "abs": Word(stored(lambda v: v.abs(v.load("a", "i"))), lambda a, b, c, fused: np.abs(a)),
    "neg": Word(stored(lambda v: v.neg(v.load("a", "i"))), lambda a, b, c, fused: -a),
    "madd": Word(
        stored(lambda v: v.madd(*loaded(v, "a", "b", "c"))),
        lambda a, b, c, fused: reference.madd(a, b, c, fused=fused),
    ),
    "select_gt": Word(
        stored(lambda v: v.select_gt(*loaded(v, "a", "b", "c", "b"))),
        lambda a, b, c, fused: np.where(a > b, c, b),
    ),
    "half_like": Word(
        stored(lambda v: v.half_like(v.load("a", "i"))),
        lambda a, b, c, fused: np.copysign(np.float32(0.5), a),
    ),
    "pow2_of_rounded": Word(
        stored(lambda v: v.pow2_of_rounded(v.load("a", "i"))),
        lambda a, b, c, fused: pow2(a),
        rounded_exponents,
    ),
    "exp": Word(
        stored(lambda v: v.exp(v.load("a", "i"))), lambda a, b, c, fused: reference.exp(a, fused=fused)
    ),
    "load_i8": Word(
        stored(lambda v: v.load_i8("(const int8_t *)a", "i")),
        lambda a, b, c, fused: a.view(np.int8)[: a.size].astype(np.float32),
    ),
    "store_i8": Word(
        lambda v: v.store_i8("bytes", "i", v.load("a", "i")),
        lambda a, b, c, fused: np.trunc(a).astype(np.int8),
        small,
    ),
    "load_f16": Word(
        stored(lambda v: v.load_f16("(const uint16_t *)a", "i")),
        lambda a, b, c, fused: a.view(np.float16)[: a.size].astype(np.float32),
    ),
    "load_pairs": Word(
        lambda v: f"{v.type} x, y;\n{v.load_pairs('x', 'y', 'a', 'i')}\n{v.store('o', 'i', v.sub('x', 'y'))}",
        lambda a, b, c, fused: a[0 : 2 * (a.size // 2) : 2] - a[1::2],
    ),
    "store_pairs": Word(
        lambda v: v.store_pairs(*loaded(v, "a", "b"), "o", "i"),
        lambda a, b, c, fused: np.stack([a[: a.size // 2], b[: a.size // 2]], axis=1).reshape(-1),
    ),
}
PAIRS = ("load_pairs", "store_pairs")  # these take n / 2 steps


def lanes_of(isa: str) -> tuple[Lanes, Lanes]:
    """The vector lanes of an ISA and the scalar ones of its loop tails."""
    machine, scalar = MACHINES[isa], MACHINES["scalar"]
    vector = Lanes(machine.f32, machine.f16, machine.owner("f32").name, machine.fused)
    return vector, Lanes(scalar.f32, scalar.f16, "scalar", None)


@cache
def library(isa: str) -> ctypes.CDLL:
    """One C function per word and two per reduction."""
    machine = MACHINES[isa]
    vector, tail = lanes_of(isa)
    loops, sums = Loops(vector, tail), Reductions(machine.reduce, vector, tail)
    maths = sorted({machine.owner("f32").name, "scalar"})
    lines = ['#include "ml_config.h"', *(f'#include "{header}"' for header in machine.isa.headers)]
    lines += [f'#include "{name}/math_{name}.h"' for name in maths]
    parameters = "float *o, int8_t *bytes, const float *a, const float *b, const float *c, int n"
    for name, word in WORDS.items():
        body = loops.each("i", "n", word.body)
        unused = "(void)o; (void)bytes; (void)a; (void)b; (void)c;"
        lines.append(f"void word_{name}({parameters})\n{{\n{unused}\n{body}\n}}")
    product = sums.fold16("sum", "i", "n", lambda v, p, i: v.madd(v.load("a", i), v.load("b", i), p))
    plain = sums.fold16("sum", "i", "n", lambda v, p, i: v.add(p, v.load("a", i)))
    largest = sums.maximum("top", "i", "n", "-INFINITY", lambda v, p, i: v.load("a", i))
    lines += [
        f"float sum_of_products(const float *a, const float *b, int n)\n{{\n{product}\nreturn sum;\n}}",
        f"float sum_of_terms(const float *a, int n)\n{{\n{plain}\nreturn sum;\n}}",
        f"float largest(const float *a, int n)\n{{\n{largest}\nreturn top;\n}}",
    ]
    source = native.write_source(f"words_{isa}.c", "\n".join(lines) + "\n")
    made = native.build_library([source], isa, [f"ML_FUSED={int(bool(machine.fused))}"])
    for name in ("sum_of_products", "sum_of_terms", "largest"):
        getattr(made, name).restype = ctypes.c_float
    return made


@pytest.fixture(params=[name for name, machine in MACHINES.items() if machine.owner("f32").name == name])
def isa(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if missing := kernels.missing_feature(name):
        pytest.skip(f"this CPU lacks {missing}, which {name} needs")
    return name


def pointer(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def some_floats(count: int, *key: object) -> Array:
    """All flavours mixed, so that a vector holds usual and special lanes side by side."""
    rng = kernels.generator(count, *key)
    choices = np.stack(
        [kernels.floats(rng, count, flavour) for flavour in ("plain", "wild", "special", "tiny")]
    )
    return choices[rng.integers(0, len(choices), count), np.arange(count)]


def test_the_whole_vocabulary_is_tested() -> None:
    spoken = {name for name, member in vars(Lanes).items() if callable(member) and not name.startswith("_")}
    assert spoken == set(WORDS)


@pytest.mark.parametrize("name", WORDS)
@np.errstate(all="ignore")
def test_word(isa: str, name: str) -> None:
    word, fused = WORDS[name], bool(MACHINES[isa].fused)
    for n in SIZES:
        a, b, c = (some_floats(n, name, letter) for letter in "abc")
        if word.inputs is not None:
            a = word.inputs(kernels.generator(name, n), n)
        wanted = np.ascontiguousarray(word.result(a, b, c, fused))
        output = kernels.Guarded.of(kernels.unwritten(wanted.dtype.type, wanted.size), misaligned=True)
        steps = n // 2 if name in PAIRS else n
        function: Any = getattr(library(isa), f"word_{name}")
        function(*(pointer(output.array),) * 2, pointer(a), pointer(b), pointer(c), steps)
        assert output.intact(), f"n = {n}: writes around its output"
        assert not difference({name: output.array}, {name: wanted}), f"n = {n}"


@np.errstate(all="ignore")
def test_exp_over_its_whole_range(isa: str) -> None:
    fused = bool(MACHINES[isa].fused)
    x = np.concatenate([np.linspace(-105, 90, 100_003, dtype=np.float32), some_floats(1000, "exp")])
    found = np.empty_like(x)
    library(isa).word_exp(pointer(found), None, pointer(x), pointer(x), pointer(x), x.size)
    assert not difference({"exp": found}, {"exp": reference.exp(x, fused=fused)})


@np.errstate(all="ignore")
def test_reductions(isa: str) -> None:
    fused, made = bool(MACHINES[isa].fused), library(isa)
    for n in (*SIZES, 32, 47, 48):
        for flavour in ("plain", "special", "masked"):
            rng = kernels.generator(n, flavour)
            a, b = kernels.floats(rng, n, flavour), kernels.floats(rng, n, "plain")
            found = [
                made.sum_of_products(pointer(a), pointer(b), n),
                made.sum_of_terms(pointer(a), n),
                made.largest(pointer(a), n),
            ]
            largest = np.max(np.where(np.isnan(a), -np.inf, a))
            wanted = [reference.fold16_dot(a, b, fused=fused), reference.fold16(a), largest]
            values = {"found": np.array(found, np.float32)}
            assert not difference(values, {"found": np.array(wanted, np.float32)}), (n, flavour)
