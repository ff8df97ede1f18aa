"""A smaller model guesses what a larger one is going to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np

from krafla.runtime import progress
from krafla.runtime.batch import Batch, Choice
from krafla.runtime.model import Model, Sampling
from krafla.runtime.resolve import resolve
from krafla.runtime.speculate import MOST, Pace
from krafla.tools.errors import UsageError
from krafla.tools.mlb import Header


@dataclass
class _Follower:
    """What the small model has read of one text."""

    sequence: int
    choice: Choice
    pace: Pace
    base: int = 0  # positions that are the text's
    guessed: list[int] = field(default_factory=list)  # in the sequence after them


@dataclass(frozen=True)
class Ask:
    """Up to `limit` guesses after `ids`, the text of `key`; it is chosen with this ml_sampler."""

    key: int
    ids: Sequence[int]
    limit: int
    sampling: Sampling
    sampler: Any


class DraftModel:
    """Follows texts by their keys and guesses at their next tokens, for all of them at once.

    It draws with a copy of the text's own generator: where both models agree on the probabilities, it draws what
    the large one will. A text that it has not read yet it reads in chunks, one per call, before it guesses.
    """

    def __init__(self, model: Model, most: int = MOST) -> None:
        self._model = model
        self._batch = Batch(model)
        self._most = most
        self._followers: dict[int, _Follower] = {}

    def propose(self, asks: Sequence[Ask]) -> dict[int, list[int]]:
        """Guesses by key; none for a text that it cannot follow yet."""
        going: list[tuple[Ask, _Follower]] = []
        for ask in asks:
            if ask.limit > 0 and len(ask.ids) < self._batch.config.context:
                follower = self._follow(ask)
                if len(ask.ids) - follower.base <= self._batch.config.batch:
                    going.append((ask, follower))
                else:
                    self._read(ask, follower, follower.base + self._batch.config.batch)
        guesses: dict[int, list[int]] = {ask.key: [] for ask, _ in going}
        pending = {ask.key: list(ask.ids[follower.base :]) for ask, follower in going}
        for ask, follower in going:
            follower.base = len(ask.ids)
        while going:
            rows = [row for ask, follower in going for row in self._rows(follower, pending[ask.key])]
            logits = self._batch.forward(np.array(rows, np.int32))
            self._batch.choose([(f.choice, logits[i]) for i, (_, f) in enumerate(going)])
            for ask, follower in going:
                token = follower.choice.token
                guesses[ask.key].append(token)
                follower.guessed = guesses[ask.key][:-1]
                pending[ask.key] = [token]
            going = [(a, f) for a, f in going if len(guesses[a.key]) < self._count(a, f)]
        return guesses

    def learn(self, key: int, guessed: int, right: int) -> None:
        """So many guesses were right."""
        self._followers[key].pace.learn(guessed, right)

    def forget(self, key: int) -> None:
        """The text is at its end."""
        if follower := self._followers.pop(key, None):
            self._batch.close(follower.sequence)

    def close(self) -> None:
        """Release the model."""
        self._model.close()

    def _count(self, ask: Ask, follower: _Follower) -> int:
        room = self._batch.config.context - len(ask.ids)
        return min(ask.limit, follower.pace.length, room)

    def _follow(self, ask: Ask) -> _Follower:
        """The text's follower, its sequence cut to what is the text's, and at least one token before its end."""
        follower = self._followers.get(ask.key)
        if follower is None:
            choice = Choice(self._batch, ask.sampling)
            follower = _Follower(self._batch.open(), choice, Pace(self._most))
            self._followers[ask.key] = follower
        for i, token in enumerate(follower.guessed):
            if follower.base + i >= len(ask.ids) or ask.ids[follower.base + i] != token:
                follower.guessed = follower.guessed[:i]
                break
        follower.base = min(follower.base + len(follower.guessed), len(ask.ids) - 1)
        follower.guessed = []
        self._batch.truncate(follower.sequence, follower.base)
        follower.choice.sampler.state = ask.sampler.state
        return follower

    def _read(self, ask: Ask, follower: _Follower, end: int) -> None:
        tokens = ask.ids[follower.base : end]
        rows = [[follower.sequence, follower.base + i, token, 0] for i, token in enumerate(tokens)]
        self._batch.forward(np.array(rows, np.int32))
        follower.base = end

    def _rows(self, follower: _Follower, tokens: Sequence[int]) -> list[list[int]]:
        start = self._batch.length(follower.sequence)
        rows = [[follower.sequence, start + i, token, 0] for i, token in enumerate(tokens)]
        rows[-1][3] = 1
        return rows


class DraftOfOne:
    """A draft model's guesses for one text; a Guesser."""

    def __init__(self, draft: DraftModel) -> None:
        self._draft = draft

    def guess(self, ids: Sequence[int], limit: int, sampling: Sampling, sampler: Any) -> list[int]:
        """Up to `limit` tokens that may follow `ids`."""
        return self._draft.propose([Ask(0, ids, limit, sampling, sampler)]).get(0, [])

    def learn(self, guessed: int, right: int) -> None:
        """So many of the last guesses were right."""
        self._draft.learn(0, guessed, right)


def check_can_speculate(model: Model) -> None:
    """UsageError if the model cannot forget tokens again."""
    if model.linear:
        raise UsageError(f"{model.files.mlb.name} has linear attention, which cannot take guesses back")


def load_draft(
    model: Model, draft: str | PathLike[str], tokens: int = MOST, *, sequences: int = 1, **loading: Any
) -> DraftModel:
    """A draft for `model`, which follows `sequences` texts at once; `loading` goes to Model.load."""
    files = resolve(draft, loading.get("report", progress.silent))
    ctx = min(model.config.context, Header.read(files.mlb).max_seq)
    small = Model.load(files.mlb, ctx=ctx, sequences=sequences, **loading)
    try:
        check_can_speculate(model)
        check_can_speculate(small)
        if small.config.vocab != model.config.vocab:
            raise UsageError(
                f"the draft {files.mlb.name} has {small.config.vocab} tokens, {model.files.mlb.name} "
                f"has {model.config.vocab}: they must be the same"
            )
    except UsageError:
        small.close()
        raise
    return DraftModel(small, tokens)
