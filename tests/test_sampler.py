"""model/sampler: against a plain Python sampler, token for token, and its edge cases."""

from __future__ import annotations

import ctypes
import math
from collections import Counter

import numpy as np
import pytest

from tests.native import build_library

MASK = 2**64 - 1
NAN, INF = math.nan, math.inf


class State(ctypes.Structure):
    _fields_ = [
        ("temperature", ctypes.c_float),
        ("top_p", ctypes.c_float),
        ("min_p", ctypes.c_float),
        ("top_k", ctypes.c_int32),
        ("state", ctypes.c_uint64),
    ]


class Sampler:
    """The C sampler; scratch is dirty and guarded."""

    def __init__(
        self, seed: int, temperature: float = 1.0, top_p: float = 1.0, min_p: float = 0.0, top_k: int = 0
    ) -> None:
        self.lib = build_library(["model/sampler.c"])
        self.state = State(temperature, top_p, min_p, top_k, 0)
        self.lib.ml_sampler_seed(ctypes.byref(self.state), ctypes.c_uint64(seed))

    def __call__(self, logits: np.ndarray) -> int:
        kept = logits.copy()
        scratch = np.full(2 * len(logits) + 1, 0xDEADBEEF, np.uint32)
        token = self.lib.ml_sample(
            ctypes.byref(self.state), logits.ctypes, ctypes.c_int32(len(logits)), scratch.ctypes
        )
        assert scratch[-1] == 0xDEADBEEF
        assert np.array_equal(kept, logits, equal_nan=True)
        return int(token)


def next_unit(state: int) -> tuple[int, float]:
    """xorshift64* and a uniform number in [0, 1)."""
    state ^= state >> 12
    state = (state ^ (state << 25)) & MASK
    state ^= state >> 27
    return state, ((state * 0x2545F4914F6CDD1D & MASK) >> 11) * 2.0**-53


def kept_tokens(logits: np.ndarray, top_p: float, min_p: float, top_k: int, t: float) -> dict[int, float]:
    """The plain rule: sort, filter one after the other; tokens with their weights, the best first."""
    largest = float(np.nanmax(logits))
    order = sorted((i for i in range(len(logits)) if logits[i] == logits[i]), key=lambda i: (-logits[i], i))
    if 0 < top_k < len(logits):
        order = order[:top_k]
    weights = {i: float(np.float32(math.exp((float(logits[i]) - largest) / t))) for i in order}
    if top_p < 1:
        total, reached, kept = sum(weights.values()), 0.0, {}
        for i, weight in weights.items():
            kept[i] = weight
            reached += weight
            if reached >= top_p * total:
                break
        weights = kept
    return {i: weight for i, weight in weights.items() if weight >= min_p}


def expected(logits: np.ndarray, unit: float, top_p: float, min_p: float, top_k: int, t: float) -> int:
    weights = kept_tokens(logits, top_p, min_p, top_k, t)
    # Unfiltered and min-p choices run through the ids in order, sorted ones from the best on.
    walk = weights if (0 < top_k < len(logits) or top_p < 1) else dict(sorted(weights.items()))
    target, reached = unit * sum(weights.values()), 0.0
    for i, weight in walk.items():
        reached += weight
        if target < reached:
            return i
    raise AssertionError("unreachable with these numbers")


FILTERS = [
    {},
    {"top_k": 1},
    {"top_k": 5},
    {"top_k": 5000},
    {"top_p": 0.9},
    {"top_p": 0.05},
    {"top_p": 0.0},
    {"min_p": 0.1},
    {"top_k": 20, "top_p": 0.8},
    {"top_k": 20, "top_p": 0.95, "min_p": 0.05},
    {"top_p": 0.99, "min_p": 0.01},
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_equals_a_plain_sampler(filters: dict[str, float], temperature: float) -> None:
    rng = np.random.default_rng(5)
    t = float(np.float32(temperature))
    exact = {"top_p": 1.0, "min_p": 0.0, "top_k": 0, **filters}
    exact["top_p"], exact["min_p"] = float(np.float32(exact["top_p"])), float(np.float32(exact["min_p"]))
    sampler = Sampler(7, temperature, **filters)  # type: ignore[arg-type]
    state = sampler.state.state
    for size in (2, 3, 17, 300, 1000) * 8:
        logits = (rng.standard_normal(size) * 3).astype(np.float32)
        logits[rng.integers(0, size, 2)] = logits.max()  # equal logits
        state, unit = next_unit(state)
        assert sampler(logits) == expected(logits, unit, t=t, **exact)  # type: ignore[arg-type]


def test_greedy_takes_the_lowest_of_the_best_and_draws_nothing() -> None:
    sampler = Sampler(1, temperature=0.0)
    before = sampler.state.state
    assert sampler(np.array([1, 5, NAN, 5, 2], np.float32)) == 1
    assert sampler(np.array([-INF, -INF, -7], np.float32)) == 2
    assert sampler.state.state == before


@pytest.mark.parametrize("filters", [{}, {"top_k": 3}, {"top_p": 0.9}, {"min_p": 0.2}], ids=str)
def test_odd_logits_give_a_token(filters: dict[str, float]) -> None:
    sampler = Sampler(1, **filters)  # type: ignore[arg-type]
    assert sampler(np.full(4, NAN, np.float32)) == 0
    assert sampler(np.full(4, -INF, np.float32)) == 0
    assert sampler(np.array([0, INF, 1], np.float32)) == 1
    assert sampler(np.array([NAN, 3, NAN, NAN], np.float32)) == 1
    for _ in range(50):
        assert sampler(np.array([0, NAN, 0, -INF, 0], np.float32)) in (0, 2, 4)


def test_a_min_p_above_one_leaves_the_best() -> None:
    assert Sampler(1, min_p=2.0)(np.array([0, 1, 0], np.float32)) == 1


def test_seeds() -> None:
    logits = np.zeros(1000, np.float32)
    draws = []
    for seed in (0, 1, 2, 2**64 - 1, 0):
        sampler = Sampler(seed)
        assert sampler.state.state != 0
        draws.append([sampler(logits) for _ in range(20)])
    assert draws[0] == draws[4]
    assert len({tuple(draw) for draw in draws}) == 4


def test_frequencies_follow_the_weights() -> None:
    logits = np.log(np.array([0.5, 0.25, 0.125, 0.125], np.float32))
    sampler = Sampler(3)
    counts = Counter(sampler(logits) for _ in range(8000))
    for token, p in enumerate((0.5, 0.25, 0.125, 0.125)):
        assert abs(counts[token] - 8000 * p) < 5 * math.sqrt(8000 * p * (1 - p))
