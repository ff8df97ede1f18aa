"""Two runs of `krafla bench` compared: ratios of speed, and whether a difference is more than the rounds' noise."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from krafla.tools.errors import FormatError, UsageError, access

#: What makes two measurements the same work: of models, and of kernels.
KEYS = {
    "models": ("isa", "threads", "batch", "kv", "kind", "tokens", "depth"),
    "kernels": ("isa", "op", "sizes"),
}
#: Differences that chance alone makes this often, or more often, are called noise.
LEVEL = 0.05


@dataclass(frozen=True)
class Ratio:
    """A measurement beside the one of the same work in the older run."""

    old_seconds: float  # the median over the old run's rounds
    old_spread: float  # slowest round less fastest, relative to the median
    ratio: float  # of speeds: above 1 is faster than before
    p: float  # how likely chance alone orders the rounds of both runs as unevenly
    within_noise: bool


@dataclass(frozen=True)
class Old:
    """An older run: the seconds of its rounds, by what was measured."""

    path: Path
    kind: str  # "models" or "kernels"
    rounds: dict[str, tuple[float, ...]]
    origin: dict[str, Any]  # the file's "cpu" and "model"

    @classmethod
    def read(cls, path: Path, kind: str) -> Old:
        """From what `krafla bench --json` wrote; FormatError if it is something else."""
        with access(path, "read"):
            data = path.read_bytes()
        try:
            found = json.loads(data)
            rows = found["rows"]
            rounds = {_key(row, kind): tuple(map(float, _rounds(row))) for row in rows}
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            what = f"{type(error).__name__}: {error}"
            raise FormatError(
                f"{path}: not the output of `krafla bench --json` for {kind} ({what})"
            ) from None
        if not all(rounds.values()) or not all(second > 0 for one in rounds.values() for second in one):
            raise FormatError(f"{path}: a row has no rounds, or one that took no time")
        return cls(path, kind, rounds, {name: found.get(name) for name in ("cpu", "model")})

    def ratio(self, row: dict[str, Any]) -> Ratio | None:
        """A row of the new run beside its older self; None if the older run does not have it."""
        old = self.rounds.get(_key(row, self.kind))
        return compare(old, tuple(_rounds(row))) if old else None

    def differences(self, now: dict[str, Any]) -> list[str]:
        """What else is different, as sentences: CPU and model."""
        pairs = ((name, was, now.get(name)) for name, was in self.origin.items())
        return [f"{self.path.name} is of another {name}: {was}" for name, was, new in pairs if was != new]

    def need(self, matched: int) -> None:
        """Refuse a comparison in which nothing could be compared."""
        if not matched:
            wanted = ", ".join(KEYS[self.kind])
            raise UsageError(f"{self.path}: no row has the same {wanted} as one measured now")


def _key(row: dict[str, Any], kind: str) -> str:
    return json.dumps([row[name] for name in KEYS[kind]], sort_keys=True)


def _rounds(row: dict[str, Any]) -> Sequence[float]:
    """A kernel's row has its median in `seconds` and the rounds beside it."""
    rounds: Sequence[float] = row["rounds"] if "op" in row else row["seconds"]
    return rounds


def spread(seconds: Sequence[float]) -> float:
    """The slowest round's excess over the fastest, relative to the median."""
    return (max(seconds) - min(seconds)) / statistics.median(seconds)


def compare(old: tuple[float, ...], new: tuple[float, ...]) -> Ratio:
    """Rounds of the same work, in seconds, before and after."""
    median = statistics.median(old)
    p = rank_test(old, new)
    return Ratio(median, spread(old), median / statistics.median(new), p, p > LEVEL)


def rank_test(a: Sequence[float], b: Sequence[float]) -> float:
    """The two-sided p of Mann and Whitney's rank test (1947), exact; a tie counts as half."""
    u = sum((x > y) + 0.5 * (x == y) for x in a for y in b)
    counts = _orders(len(a), len(b))
    tail = sum(counts[: int(min(u, len(a) * len(b) - u)) + 1])
    return min(1.0, 2 * tail / sum(counts))


def _orders(m: int, n: int) -> list[int]:
    """In how many of the orders of m and n values each number of inversions occurs (Gaussian binomial)."""
    counts = [1] + [0] * (m * n)
    for i in range(1, m + 1):
        for k in range(m * n, n + i - 1, -1):
            counts[k] -= counts[k - n - i]
        for k in range(i, m * n + 1):
            counts[k] += counts[k - i]
    return counts
