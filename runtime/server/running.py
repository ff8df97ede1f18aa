"""A request on its way through the engine: its tokens, how they are chosen, where its keys and values are."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from krafla.runtime.batch import Batch, Choice
from krafla.runtime.server.request import (
    Embedding,
    Finished,
    PromptLogprobs,
    Reason,
    Started,
    Ticket,
    Token,
    TokenLogprob,
)
from krafla.runtime.server.statistics import Slot

if TYPE_CHECKING:
    from krafla.runtime.batch import Floats
    from krafla.runtime.server.prefix_cache import Node
    from krafla.runtime.speculate import NgramDraft

NONE = -1


class GrammarError(Exception):
    """A request's grammar cannot go on; it fails, and no other."""


class Answer:
    """The state between steps. `ids` are the prompt and the answer so far, `done` of them are in the sequence.

    What is not done is read in chunks; once everything is, the last row's logits choose the next token. A
    request that gave up its sequence reads everything again, or finds it in the prefix cache: the same bits.
    """

    def __init__(self, ticket: Ticket, batch: Batch) -> None:
        request = ticket.request
        self.ticket = ticket
        self.request = request
        self.ids = list(request.prompt)
        self.n_prompt = len(request.prompt)
        room = batch.config.context - self.n_prompt + 1
        self.limit = room if request.max_tokens is None else min(request.max_tokens, room)
        if request.embed:
            self.limit = 0
        self.sequence = NONE
        self.done = 0
        self.path: list[Node] = []
        self.cached = NONE  # until it starts
        self.drafts: list[int] = []
        self.draft: NgramDraft | None = None
        self.measured: list[TokenLogprob | None] = [None]  # of the prompt's tokens
        self._sum = np.zeros(batch.config.dim)
        self._last_event = 0.0
        bias = dict(request.logit_bias)
        if request.ignore_eos:
            bias |= dict.fromkeys(request.stop_ids, -float("inf"))
        penalties = request.penalties
        self.seed = secrets.randbits(32) if request.seed is None else request.seed
        self.choice = Choice(
            batch,
            request.sampling,
            self.seed,
            repeat=penalties.repeat,
            presence=penalties.presence,
            frequency=penalties.frequency,
            bias=bias,
            logprobs=request.logprobs,
            tokens=request.prompt,
        )

    @property
    def pending(self) -> int:
        """How many tokens are not in the sequence yet."""
        return len(self.ids) - self.done

    @property
    def decoding(self) -> bool:
        """Whether only the last chosen token is missing."""
        return self.pending == 1 and self.done >= self.n_prompt

    @property
    def completion(self) -> int:
        """How many tokens were chosen."""
        return len(self.ids) - self.n_prompt

    @property
    def reusable(self) -> int:
        """How long a cached prefix may be: logits and states come from rows, not from the cache."""
        if self.request.embed:
            return 0
        most = len(self.ids) - 1
        return most if self.request.prompt_logprobs is None else min(most, len(self.measured) - 1)

    def start(self, cached: int) -> None:
        """It has a sequence, with `cached` positions from the prefix cache."""
        self.done = cached
        self._sum[:] = 0.0
        if self.cached == NONE:
            self.cached = cached
            self.ticket.put(Started(cached, self.n_prompt))

    def wanted(self, start: int, end: int) -> list[int]:
        """Of the positions of a chunk, 1 where the row's logits (or states, for an embedding) are wanted."""
        if self.request.embed:
            return [int(self.request.embed == "mean" or p == self.n_prompt - 1) for p in range(start, end)]
        measured = self.n_prompt if self.request.prompt_logprobs is None else len(self.measured)
        last = len(self.ids) - 1 if self.limit else len(self.ids)
        return [int(measured - 1 <= p < self.n_prompt - 1 or p >= last) for p in range(start, end)]

    def measure(self, batch: Batch, logits: Floats) -> None:
        """Log-probabilities of the prompt's next tokens, from the rows before them."""
        asked = self.request.prompt_logprobs
        assert asked is not None
        first = len(self.measured)
        scores = [
            (Choice(batch, logprobs=asked).score(self.ids[first + i]), row) for i, row in enumerate(logits)
        ]
        batch.choose(scores)
        self.measured += [TokenLogprob(choice.logprob, choice.top) for choice, _ in scores]
        if len(self.measured) == self.n_prompt:
            self.tell_prompt()

    def tell_prompt(self) -> None:
        """The prompt's log-probabilities are complete."""
        self.ticket.put(PromptLogprobs(tuple(self.measured)))

    def pool(self, states: Floats) -> None:
        """Add a chunk's hidden states, one position after the other, so that chunks do not show in the sum."""
        for row in states:
            self._sum += row

    def tell_embedding(self) -> None:
        """The pooled states as a vector of length 1 (all zero stays so)."""
        length = math.sqrt(math.fsum((self._sum * self._sum).tolist()))
        self.ticket.put(Embedding((self._sum / (length or 1.0)).astype(np.float32)))

    def guess(self, limit: int) -> list[int]:
        """What may come next, by the text so far."""
        assert self.draft is not None
        return self.draft.guess(self.ids, limit, self.request.sampling, self.choice.sampler)

    def prepare(self) -> None:
        """Before a choice: ask the grammar."""
        grammar = self.request.grammar
        if grammar is None:
            return
        try:
            mask = grammar.mask()
        except Exception as error:
            raise GrammarError(f"the grammar failed: {error}") from error
        if not mask.any():
            raise GrammarError("the grammar allows no token here")
        self.choice.allow(mask)

    def take(self) -> Reason | None:
        """After a choice: hand the token on. Why the answer ends here, if it does."""
        token = self.choice.token
        if token in self.request.stop_ids:
            return "stop"
        self.ids.append(token)
        self.choice.note(token)
        logprob = None
        if self.request.logprobs is not None:
            logprob = TokenLogprob(self.choice.logprob, self.choice.top)
        self.ticket.put(Token(token, logprob))
        if (grammar := self.request.grammar) is not None:
            try:
                grammar.accept(token)
                if grammar.finished:
                    return "stop"
            except Exception as error:
                raise GrammarError(f"the grammar failed: {error}") from error
        return "length" if self.completion >= self.limit else None

    def pace(self) -> float:
        """Seconds since this was last asked, or since submission; for statistics."""
        now = time.monotonic()
        seconds = now - (self._last_event or self.ticket.submitted)
        self._last_event = now
        return seconds

    def end(self, reason: Reason, error: str | None = None) -> None:
        """The last event."""
        cached = max(self.cached, 0)
        self.ticket.put(Finished(reason, self.n_prompt, cached, self.completion, error))

    def overdue(self, now: float) -> Reason | None:
        """Whether it is to stop because nobody wants it any more."""
        if self.ticket.cancel_wanted:
            return "cancelled"
        deadline = self.request.deadline
        return "timeout" if deadline is not None and now >= deadline else None

    def slot(self) -> Slot:
        """For statistics."""
        return Slot(
            self.ticket.number,
            self.request.id,
            "decode" if self.decoding else "prefill",
            self.n_prompt,
            max(self.cached, 0),
            min(self.done, self.n_prompt),
            self.completion,
            time.monotonic() - self.ticket.submitted,
        )


def shared(a: Sequence[int], b: Sequence[int], page: int) -> int:
    """How many positions two texts have in common, in whole pages."""
    length = 0
    while length + page <= min(len(a), len(b)) and a[length : length + page] == b[length : length + page]:
        length += page
    return length
