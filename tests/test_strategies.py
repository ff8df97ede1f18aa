"""Dot strategies: their NumPy models against exact integers, and against what the instructions really do."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krafla.codegen import registry
from krafla.codegen.dots import Kind
from krafla.codegen.ops import BY_NAME
from tests import kernels
from tests.kernels import Array, Kernels

MACHINES = registry.machines()
KINDS: tuple[Kind, ...] = ("q8", "q4")


def named(strategy: Any) -> str:
    width = strategy.x86.bits if hasattr(strategy, "x86") else ""
    return f"{type(strategy).__name__}{width}"


PACKED = {named(m.pack.dot): m.pack.dot for m in MACHINES.values() if m.pack is not None}
PACKED |= {
    named(m.tile.pairs): m.tile.pairs for m in MACHINES.values() if m.tile is not None and m.tile.pairs
}
ROWS = {named(m.rowdot): m.rowdot for m in MACHINES.values()}
BOTH = {**PACKED, **ROWS}


def signed(kind: Kind, raw: Array) -> Array:
    """Weights in file form (quants, or nibbles) as the numbers they stand for."""
    return raw - 8 if kind == "q4" else raw


def as_stored(name: str, kind: Kind, raw: Array) -> Array:
    """What a model takes: packed quants with their offset, row-major ones and nibbles as they are in the file."""
    return (raw + PACKED[name].q8_offset) % 256 if name in PACKED and kind == "q8" else raw


def model(name: str, kind: Kind, raw: Array, x: Array) -> Array:
    return np.asarray(BOTH[name].model(kind, as_stored(name, kind, raw), x))


def blocks(low: int, high: int) -> st.SearchStrategy[list[int]]:
    """32 numbers, often extreme ones."""
    return st.lists(st.one_of(st.integers(low, high), st.sampled_from([low, high])), min_size=32, max_size=32)


def array(values: list[int]) -> Array:
    return np.array(values, np.int64)


@pytest.mark.parametrize("name", BOTH)
@settings(max_examples=150, deadline=None)
@given(w=blocks(-127, 127), x=blocks(-127, 127))
def test_q8_is_exact(name: str, w: list[int], x: list[int]) -> None:
    assert model(name, "q8", array(w)[None], array(x))[0] == array(w) @ array(x)


@pytest.mark.parametrize("name", BOTH)
@settings(max_examples=150, deadline=None)
@given(w=blocks(0, 15), x=blocks(-127, 127))
def test_q4_is_exact(name: str, w: list[int], x: list[int]) -> None:
    assert model(name, "q4", array(w)[None], array(x))[0] == (array(w) - 8) @ array(x)


@pytest.mark.parametrize("name", BOTH)
def test_the_largest_sums_fit(name: str) -> None:
    """All weights and activations at their bounds: the sums that overflow first."""
    for kind, bounds in (("q8", (-127, 127)), ("q4", (0, 15))):
        for w in bounds:
            for x in (-127, 127):
                raw, xs = np.full((1, 32), w), np.full(32, x)
                assert model(name, kind, raw, xs)[0] == 32 * signed(kind, raw)[0, 0] * x, (kind, w, x)


def takes_activation_of_minus_128(name: str) -> bool:
    """Whether every weight times -128 comes out right, alone in its block."""
    x = np.zeros(32, np.int64)
    x[5] = -128
    raw = np.zeros((255, 32), np.int64)
    raw[:, 5] = np.arange(-127, 128)
    return bool((model(name, "q8", raw, x) == raw @ x).all())


def test_minus_128_is_caught_by_strategies_that_move_a_sign() -> None:
    """psignb cannot negate -128, which is why quantization stops at -127; the others do not mind."""
    failing = {name for name in BOTH if not takes_activation_of_minus_128(name)}
    assert failing == {name for name in BOTH if "Sign" in type(BOTH[name]).__name__ or "MaddubsRow" in name}
    assert failing and len(failing) < len(BOTH)
    for name in failing:
        w, x = np.full((1, 32), -1), np.full(32, -128)
        assert model(name, "q8", w, x)[0] == -128 * 32, "the sign of -128 stays"


def test_saturation_shows() -> None:
    """Why pmaddubsw gets magnitudes up to 127 and not bytes with +128: pairs beyond 32767 saturate."""
    for name in ("MaddubsSign256", "MaddubsRow256"):
        raw, x = np.full((1, 32), 255), np.full(32, 127)
        assert BOTH[name].model("q4", raw, x)[0] != (raw[0] - 8) @ x
    largest = np.full((1, 32), 127), np.full(32, 127)
    assert BOTH["MaddubsRow256"].model("q8", *largest)[0] == 127 * 127 * 32
    # 129 * 127 * 2 still fits, 130 * 127 * 2 does not: one pair shows where saturation begins.
    x = np.array([127, 127] + [0] * 30)
    for byte, exact in ((129, True), (130, False)):
        raw = np.array([[byte, byte] + [0] * 30])
        assert (BOTH["MaddubsRow256"].model("q4", raw, x)[0] == raw[0] @ x - 8 * x.sum()) == exact


def test_int16_sums_of_nibbles_wrap_just_beyond_their_bound() -> None:
    """Eight pair sums of nibbles reach 30480; nibbles of 17 would leave 16 bits."""
    x = np.full(32, 127)
    for nibble, exact in ((15, True), (16, True), (17, False)):
        raw = np.full((1, 32), nibble)
        assert (PACKED["MaddubsSign256"].model("q4", raw, x)[0] == (nibble - 8) * 127 * 32) == exact


# --- The models against the machine -----------------------------------------------------------------------


@cache
def products(isa: str) -> Kernels:
    names = [
        "matvec_q8",
        "matvec_q4",
        "matvec_q8_pk",
        "matvec_q4_pk",
        "matmul_q8_pk",
        "matmul_q4_pk",
        "tile_q8",
    ]
    return kernels.load(isa, ops=names)


def sums(isa: str, op_name: str, raw: Array, x: Array, tokens: int = 1) -> Array:
    """Block sums as a kernel computes them: one block, all scales 1; floats hold sums below 2^24 exactly."""
    rows, op = len(raw), BY_NAME[op_name]
    nibbles = op.params["kind"] == "q4"
    wq = (raw[:, :16] | raw[:, 16:] << 4).astype(np.uint8) if nibbles else raw.astype(np.int8)
    given_inputs: kernels.Inputs = {
        "rows": rows,
        "cols": 32,
        "r0": 0,
        "r1": rows,
        "wq": wq,
        "wd": np.ones((rows, 1), np.float32),
        "xq": np.tile(x.astype(np.int8), (tokens, 1)),
        "xd": np.ones((tokens, 1), np.float32),
        "xs": np.full((tokens, 1), x.sum(), np.int32),
    }
    if op_name.startswith("matmul"):
        given_inputs |= {"tokens": tokens, "y_stride": rows}
    y = kernels.run(products(isa), op, given_inputs)["y"]
    assert (y.reshape(tokens, rows) == y[:rows]).all()
    return y[:rows].astype(np.int64)


@pytest.mark.parametrize("isa", MACHINES)
def test_models_tell_what_the_instructions_do(isa: str) -> None:
    """Also where they are wrong: activations of -128 come out of model and machine alike."""
    if missing := kernels.missing_feature(isa):
        pytest.skip(f"this CPU lacks {missing}, which {isa} needs")
    machine = MACHINES[isa]
    rng = kernels.generator("models", isa)
    for _ in range(40):
        x = rng.choice([-128, -127, -1, 0, 1, 127], 32) if rng.random() < 0.5 else rng.integers(-128, 128, 32)
        weights: dict[Kind, Array] = {
            "q8": rng.choice([-127, -64, -1, 0, 1, 127], (16, 32)),
            "q4": rng.choice([0, 1, 7, 8, 15], (16, 32)),
        }
        for kind in KINDS:
            raw = weights[kind]
            assert (sums(isa, f"matvec_{kind}", raw, x) == model(named(machine.rowdot), kind, raw, x)).all()
            if machine.pack is None or machine.tile is None:
                continue
            packed = model(named(machine.pack.dot), kind, raw, x)
            assert (sums(isa, f"matvec_{kind}_pk", raw, x) == packed).all()
            assert (sums(isa, f"matmul_{kind}_pk", raw, x, tokens=1) == packed).all()
            of_two = machine.tile.dot_of(2, machine.pack.dot)
            pair = sums(isa, f"matmul_{kind}_pk", raw, x, tokens=2)
            assert (pair == model(named(of_two), kind, raw, x)).all()
