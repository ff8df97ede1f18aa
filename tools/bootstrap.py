"""Confidence intervals of averages over a text, whose positions depend on their neighbours.

The circular block bootstrap (Politis and Romano 1992, after Künsch 1989): a resample joins blocks of neighbouring
positions, drawn at random with the text's end joined to its beginning, until it is as long as the text; the interval
lies between the 2.5 % and 97.5 % quantiles of a figure over the resamples. Blocks are n^(1/3) positions long, the rate
that Hall, Horowitz and Jing (1995) found best for such intervals. The draws are seeded: the same figures every time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
LEVEL = 0.95
RESAMPLES = 1000
SEED = 1


@dataclass(frozen=True)
class Estimate:
    """A figure of a text, and where it would lie for other texts of the kind; no interval is known if both are None."""

    value: float
    low: float | None = None
    high: float | None = None


class Text:
    """Records of positions, with their running sums and orders, which resamples share."""

    def __init__(self, records: Array) -> None:
        self.records = records
        self._sums: dict[str, Array] = {}
        self._orders: dict[str, Array] = {}

    def running_sums(self, name: str) -> Array:
        """Of a field, over the text and once more over it: element i is the sum of those before i."""
        if name not in self._sums:
            twice = np.concatenate([[0.0], self.records[name], self.records[name]])
            self._sums[name] = np.cumsum(twice)
        return self._sums[name]

    def order(self, name: str) -> Array:
        """The positions by increasing values of a field."""
        if name not in self._orders:
            self._orders[name] = np.argsort(self.records[name], kind="stable")
        return self._orders[name]


class Sample:
    """A text as it is (no blocks), or blocks of it: positions from `starts` to `ends`, counted on past its end."""

    def __init__(self, text: Text, starts: Array | None = None, ends: Array | None = None) -> None:
        self._text, self._starts, self._ends = text, starts, ends
        self._shares: dict[str, Array] = {}

    @cached_property
    def counts(self) -> Array:
        """How often each position occurs."""
        n = len(self._text.records)
        if self._starts is None or self._ends is None:
            return np.ones(n, np.int64)
        size = 2 * n + 1
        changes = np.bincount(self._starts, minlength=size) - np.bincount(self._ends, minlength=size)
        counts = np.cumsum(changes)
        result: Array = counts[:n] + counts[n : 2 * n]
        return result

    def mean(self, name: str) -> float:
        """Of a field."""
        n = len(self._text.records)
        if self._starts is None:
            return math.fsum(self._text.records[name]) / n
        sums = self._text.running_sums(name)
        return float((sums[self._ends] - sums[self._starts]).sum()) / n

    def quantile(self, name: str, share: float) -> float:
        """The least value of a field that at least this share of positions does not exceed."""
        order = self._text.order(name)
        if name not in self._shares:
            self._shares[name] = np.cumsum(self.counts[order])
        at = np.searchsorted(self._shares[name], math.ceil(share * len(order)))
        return float(self._text.records[name][order[at]])

    def largest(self, name: str) -> float:
        """Of a field."""
        return float(self._text.records[name].max())


Figure = Callable[[Sample], float]


def block_length(n: int) -> int:
    """Positions of a block, for a text of n positions."""
    length: int = math.ceil(n ** (1 / 3))
    return length


def estimates(
    records: Array,
    wanted: Mapping[str, Figure],
    resamples: int = RESAMPLES,
    seed: int = SEED,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Estimate]:
    """Each figure of a record array, with its interval; `progress` is told how many resamples are done."""
    text = Text(records)
    whole = Sample(text)
    rng = np.random.default_rng(seed)
    drawn = np.empty((resamples, len(wanted)))
    for done, row in enumerate(drawn):
        progress(done, resamples)
        sample = Sample(text, *_blocks(rng, len(records)))
        row[:] = [figure(sample) for figure in wanted.values()]
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail), axis=0).tolist()
    return {name: Estimate(wanted[name](whole), low[i], high[i]) for i, name in enumerate(wanted)}


def _blocks(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Where the blocks of a resample begin and end; an end beyond n goes on at the beginning."""
    length = block_length(n)
    starts = rng.integers(0, n, -(-n // length))
    ends = starts + length
    ends[-1] -= len(starts) * length - n  # the last block is cut, so that n positions are counted
    return starts, ends
