"""What the scheduler tells of itself, for /metrics and /slots."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

#: Upper bounds of the histogram's buckets, in seconds.
BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
State = Literal["loading", "ready", "failed", "closing", "closed"]


@dataclass
class Histogram:
    """Seconds, counted in buckets: counts[i] is how many were at most BOUNDS[i] (not cumulative), the last the rest."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[sum(seconds > bound for bound in BOUNDS)] += 1
        self.total += seconds


@dataclass
class Counters:
    """Sums since the start."""

    submitted: int = 0
    rejected: int = 0  # the queue was full
    finished: dict[str, int] = field(default_factory=dict)  # by reason
    prompt_tokens: int = 0  # of requests that started
    cached_tokens: int = 0  # of those, from the prefix cache
    completion_tokens: int = 0
    steps: int = 0
    rows: int = 0  # of all steps: tokens that went through the model
    preemptions: int = 0
    evicted_pages: int = 0
    drafted: int = 0  # tokens that speculation proposed
    accepted: int = 0  # and that were right
    first_token: Histogram = field(default_factory=Histogram)  # from submission
    per_token: Histogram = field(default_factory=Histogram)  # between tokens of an answer


@dataclass(frozen=True)
class Slot:
    """A running request."""

    number: int
    id: str
    phase: Literal["prefill", "decode"]
    prompt_tokens: int
    cached_tokens: int
    done_tokens: int  # of the prompt
    completion_tokens: int
    seconds: float  # since submission


@dataclass(frozen=True)
class Snapshot:
    """The scheduler at one moment."""

    state: State
    parallel: int = 0  # requests that can run at once
    waiting: int = 0
    queue: int = 0  # requests that can wait
    slots: tuple[Slot, ...] = ()
    pages: int = 0  # of 64 positions, in all
    pages_used: int = 0  # by running requests or the prefix cache
    pages_cached: int = 0  # held by the prefix cache (running requests share some of them)
    counters: Counters = field(default_factory=Counters)
