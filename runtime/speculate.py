"""Guesses at the tokens that come next. A model checks them in one step; the text stays the same, bit for bit.

The logits of a row do not depend on the rows beside it, and tokens are chosen from them one after the other with
the same generator: a wrong guess costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from krafla.runtime.model import Sampling

#: How many tokens must agree for a guess from the text itself, the most first.
SIZES = (5, 3, 2)
START = 6
MOST = 24


class Guesser(Protocol):
    """Guesses for one text."""

    def guess(self, ids: Sequence[int], limit: int, sampling: Sampling, sampler: Any) -> list[int]:
        """Up to `limit` tokens that may follow `ids`, which are chosen with this ml_sampler."""

    def learn(self, guessed: int, right: int) -> None:
        """So many of the last guesses were right."""


class Pace:
    """How many tokens to guess: more while all guesses are right, fewer after wrong ones."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.length = min(START, most)

    def learn(self, guessed: int, right: int) -> None:
        """So many of the guessed tokens were right."""
        if guessed and right == guessed:
            self.length = min(max(self.length, 2 * guessed), self.most)
        elif guessed:
            self.length = max(1, min(self.length, right + 1))


class NgramDraft:
    """Prompt lookup: what followed when the last tokens came before, the latest time that they did.

    Good for answers that copy: summaries with quotes, edited code, lists in one format.
    """

    def __init__(self, most: int = MOST) -> None:
        self._pace = Pace(most)
        self._next: dict[tuple[int, ...], int] = {}  # where the token after these was
        self._indexed = 0

    def guess(self, ids: Sequence[int], limit: int, sampling: Sampling, sampler: Any) -> list[int]:
        """Up to `limit` tokens that may follow `ids`, which only ever grow from call to call."""
        for end in range(max(self._indexed, 1), len(ids)):
            for size in SIZES:
                if size <= end:
                    self._next[tuple(ids[end - size : end])] = end
        self._indexed = len(ids)
        count = min(limit, self._pace.length)
        for size in SIZES:
            start = self._next.get(tuple(ids[-size:]))
            if start is not None and size <= len(ids):
                return _follow(ids, start, count)
        return []

    def learn(self, guessed: int, right: int) -> None:
        """So many of the last guesses were right."""
        self._pace.learn(guessed, right)


def _follow(ids: Sequence[int], start: int, count: int) -> list[int]:
    """The tokens from `start` on; a repetition that reaches the end goes on repeating."""
    period = len(ids) - start
    return [ids[start + i % period] for i in range(count)]
