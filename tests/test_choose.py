"""ml_choose: adjustments in their order, log-probabilities, many choices at once on any number of threads."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from krafla.tools.errors import UsageError
from tests.engines import Engine
from tests.models import model

VOCAB = 263
Floats = npt.NDArray[np.float32]


@dataclass
class Choice:
    """An ml_choice and the arrays that it points to."""

    logits: Floats
    sampler: Any = None
    token: int = 0
    repeat: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    seen: npt.NDArray[np.uint8] | None = None
    counts: npt.NDArray[np.int32] | None = None
    bias: dict[int, float] = field(default_factory=dict)
    allowed: npt.NDArray[np.uint32] | None = None
    n_top: int = -1

    def fill(self, native: Any) -> None:
        self.kept: list[Any] = [
            self.logits,
            np.array(list(self.bias), np.int32),
            np.array(list(self.bias.values()), np.float32),
            np.zeros(max(self.n_top, 0), np.int32),
            np.zeros(max(self.n_top, 0), np.float32),
        ]
        names = ("logits", "bias_ids", "bias", "top_ids", "top_logprobs")
        arrays = dict(zip(names, self.kept, strict=True))
        arrays |= {"seen": self.seen, "counts": self.counts, "allowed": self.allowed}
        kinds = dict(native._fields_)
        for name, array in arrays.items():
            if array is not None:
                setattr(native, name, array.ctypes.data_as(kinds[name]))
        if self.sampler is not None:
            native.sampler = ctypes.pointer(self.sampler)
        native.n_bias = len(self.bias)
        for name in ("token", "repeat", "presence", "frequency", "n_top"):
            setattr(native, name, getattr(self, name))


def choose(engine: Engine, *choices: Choice) -> Any:
    native = (engine.api.types.ml_choice * len(choices))()
    for one, choice in zip(native, choices, strict=True):
        choice.fill(one)
    engine.api.fn.ml_choose(engine.handle, native, len(choices))
    return native


@pytest.fixture(scope="module")
def engine() -> Any:
    with Engine(model("llama"), threads=3) as opened:
        yield opened


def logits_of(seed: int) -> Floats:
    return np.random.default_rng(seed).normal(0, 3, VOCAB).astype(np.float32)


def sampler(engine: Engine, seed: int = 1, **settings: Any) -> Any:
    made = engine.api.types.ml_sampler(**{"temperature": 0.0, "top_p": 1.0, **settings})
    engine.api.fn.ml_sampler_seed(ctypes.byref(made), seed)
    return made


def test_logprobs_are_those_of_the_logits(engine: Engine) -> None:
    logits = logits_of(0)
    logits[7] = logits[200] = logits.max() + 1  # equals: the lower id first
    exact = logits.astype(np.float64)
    exact = exact - exact.max() - np.log(np.exp(exact - exact.max()).sum())
    (got,) = choose(engine, Choice(logits, token=33, n_top=10))
    assert got.token == 33
    assert abs(got.logprob - exact[33]) < 1e-6
    best = sorted(range(VOCAB), key=lambda i: (-logits[i], i))[:10]
    assert got.top_ids[:10] == best
    assert np.allclose(got.top_logprobs[:10], exact[best], rtol=0, atol=1e-6)
    banned = np.zeros(9, np.uint32)
    banned[1] = 1  # only token 32
    (got,) = choose(engine, Choice(logits, sampler(engine), allowed=banned, n_top=0))
    assert got.token == 32
    assert abs(got.logprob - exact[32]) < 1e-6, "of the raw logits, whatever may be chosen"


def test_adjustments_in_their_order(engine: Engine) -> None:
    """Against the same in NumPy, token by token: what is chosen greedily, and drawn."""
    rng = np.random.default_rng(3)
    for seed in range(50):
        logits = logits_of(seed)
        counts = rng.integers(0, 3, VOCAB).astype(np.int32)
        seen = ((counts > 0) | (rng.random(VOCAB) < 0.3)).astype(np.uint8)
        bias = {int(i): float(rng.normal(0, 4)) for i in rng.choice(VOCAB, 20, replace=False)}
        allowed = rng.integers(0, 2**32, 9, dtype=np.uint64).astype(np.uint32)
        want = np.where(
            seen != 0, np.where(logits > 0, logits / np.float32(1.3), logits * np.float32(1.3)), logits
        )
        want = np.where(
            counts > 0, want - np.float32(0.6) - np.float32(0.25) * counts.astype(np.float32), want
        )
        for token, value in bias.items():
            want[token] += np.float32(value)
        mask = np.unpackbits(allowed.view(np.uint8), bitorder="little")[:VOCAB]
        want[mask == 0] = -np.inf
        changes: dict[str, Any] = {"repeat": 1.3, "presence": 0.6, "frequency": 0.25}
        changes |= {"seen": seen, "counts": counts, "bias": bias, "allowed": allowed}
        before = logits.copy()
        greedy, drawn, plain = choose(
            engine,
            Choice(logits, sampler(engine), **changes),
            Choice(logits, sampler(engine, seed, temperature=1.0), **changes),
            Choice(want.astype(np.float32), sampler(engine, seed, temperature=1.0)),
        )
        assert greedy.token == int(np.argmax(want))
        assert drawn.token == plain.token
        assert np.array_equal(logits, before)


def test_many_choices_on_any_number_of_threads(engine: Engine) -> None:
    def run(used: Engine) -> list[tuple[int, float, list[int]]]:
        made = [
            Choice(logits_of(i), sampler(used, i, temperature=0.9, top_p=0.9, top_k=i % 40), n_top=i % 4)
            for i in range(23)
        ]
        return [(c.token, c.logprob, c.top_ids[: c.n_top]) for c in choose(used, *made)]

    with Engine(model("llama"), threads=1) as single:
        assert run(engine) == run(single)
    assert len({token for token, _, _ in run(engine)}) > 5


def test_what_is_refused(engine: Engine) -> None:
    with pytest.raises(UsageError, match="choice 1: token is 263, the model has tokens 0 to 262"):
        choose(engine, Choice(logits_of(0)), Choice(logits_of(0), token=263))
    with pytest.raises(UsageError, match="choice 0: bias on token -1"):
        choose(engine, Choice(logits_of(0), sampler(engine), bias={-1: 1.0}))
    with pytest.raises(UsageError, match="choice 0: n_top is 264, the model has 263 tokens"):
        choose(engine, Choice(logits_of(0), n_top=264))
