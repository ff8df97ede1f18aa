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


@dataclass
class Sample:
    """Records of positions, each counted so many times (None: once); sorted orders are kept for quantiles."""

    records: Array
    orders: dict[str, Array]
    counts: Array | None = None

    def mean(self, name: str) -> float:
        """Of a field."""
        values = self.records[name]
        if self.counts is None:
            return math.fsum(values) / len(values)
        return float((self.counts * values).sum()) / len(values)

    def quantile(self, name: str, share: float) -> float:
        """The least value of a field that at least this share of positions does not exceed."""
        if name not in self.orders:
            self.orders[name] = np.argsort(self.records[name], kind="stable")
        order = self.orders[name]
        rank = math.ceil(share * len(order))
        if self.counts is None:
            return float(self.records[name][order[max(rank - 1, 0)]])
        return float(self.records[name][order[np.searchsorted(np.cumsum(self.counts[order]), rank)]])

    def largest(self, name: str) -> float:
        """Of a field."""
        return float(self.records[name].max())


Figure = Callable[[Sample], float]


def block_length(n: int) -> int:
    """Positions of a block, for a text of n positions."""
    length: int = math.ceil(n ** (1 / 3))
    return length


def estimates(
    records: Array, wanted: Mapping[str, Figure], resamples: int = RESAMPLES, seed: int = SEED
) -> dict[str, Estimate]:
    """Each figure of a record array, with its interval."""
    n = len(records)
    orders: dict[str, Array] = {}
    whole = Sample(records, orders)
    rng = np.random.default_rng(seed)
    drawn = np.empty((resamples, len(wanted)))
    for row in drawn:
        sample = Sample(records, orders, _counts(rng, n))
        row[:] = [figure(sample) for figure in wanted.values()]
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail), axis=0).tolist()
    return {name: Estimate(wanted[name](whole), low[i], high[i]) for i, name in enumerate(wanted)}


def _counts(rng: np.random.Generator, n: int) -> Array:
    """How often a resample has each position."""
    length = block_length(n)
    starts = rng.integers(0, n, -(-n // length))
    changes = np.zeros(2 * n + 1, np.int64)
    np.add.at(changes, starts, 1)
    ends = starts + length
    ends[-1] -= len(starts) * length - n  # the last block is cut, so that n positions are counted
    np.add.at(changes, ends, -1)
    counts = np.cumsum(changes[:-1])
    result: Array = counts[:n] + counts[n:]
    return result
