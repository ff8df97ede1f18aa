"""What a request asks of the scheduler, what comes back, and what can be wrong with it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from krafla.runtime.model import Sampling
from krafla.tools.errors import KraflaError, UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MAX_TOP_LOGPROBS = 100
Reason = Literal["stop", "length", "cancelled", "timeout", "failed"]


class QueueFull(KraflaError):  # noqa: N818 - named after what happened
    """The queue holds as many requests as it may; `retry_after` is an estimate in seconds."""

    def __init__(self, waiting: int, retry_after: float) -> None:
        super().__init__(f"{waiting} requests are waiting, which is all that the queue holds")
        self.waiting = waiting
        self.retry_after = retry_after


class ContextOverflow(UsageError):  # noqa: N818
    """The prompt does not fit: it has `tokens`, the context holds `context`."""

    def __init__(self, tokens: int, context: int) -> None:
        super().__init__(f"the prompt has {tokens} tokens, the context holds {context}")
        self.tokens = tokens
        self.context = context


class NotReady(KraflaError):  # noqa: N818
    """The scheduler is loading, has failed, or is closing; the sentence says which."""


class Grammar(Protocol):
    """What the next token may be. Called from the engine's thread only, in turns: mask, accept, mask, …"""

    def mask(self) -> npt.NDArray[np.uint32]:
        """Words of 32 tokens, (vocab + 31) // 32 of them: bit i % 32 of word i // 32 is set if token i may come.

        The words may be overwritten by the next call. End tokens are set where the text may end.
        """

    def accept(self, token: int) -> None:
        """Go on past a token that was chosen."""

    @property
    def finished(self) -> bool:
        """Whether nothing can follow: the request then finishes with `stop` without asking for another mask."""


@dataclass(frozen=True)
class Penalties:
    """Against repetition; the defaults change nothing.

    `repeat` divides positive and multiplies negative logits of tokens that are in the prompt or the answer;
    `presence` is subtracted from those of tokens in the answer, and `frequency` once per occurrence there.
    """

    repeat: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.repeat < float("inf"):
            raise UsageError(f"repeat_penalty is {self.repeat}, must be above 0")
        for name in ("presence", "frequency"):
            if not abs(getattr(self, name)) < float("inf"):
                raise UsageError(f"{name}_penalty is {getattr(self, name)}, must be finite")


@dataclass(frozen=True)
class Request:
    """One answer that is asked for. Token ids go in and come out: text is the caller's.

    `max_tokens` None goes on until the context is full; 0 reads the prompt and chooses nothing. `seed` None
    takes a random one. The answer ends (`stop`) at a token of `stop_ids`, which is not part of it; with
    `ignore_eos` no such token is ever chosen. `logprobs` asks for each token's log-probability and for that
    many of the likeliest; `prompt_logprobs` the same of the prompt's tokens (one PromptLogprobs event).
    `embed` asks for one Embedding of the prompt instead of an answer. `deadline`, by time.monotonic(), ends
    the request with `timeout`.
    """

    prompt: tuple[int, ...]
    max_tokens: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    penalties: Penalties = field(default_factory=Penalties)
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    stop_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    grammar: Grammar | None = None
    embed: Literal["mean", "last"] | None = None
    deadline: float | None = None
    id: str = ""  # for logs and statistics

    def __post_init__(self) -> None:
        if not self.prompt:
            raise UsageError("the prompt is empty")
        if self.max_tokens is not None and self.max_tokens < 0:
            raise UsageError(f"max_tokens is {self.max_tokens}, must be at least 0")
        for name in ("logprobs", "prompt_logprobs"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= MAX_TOP_LOGPROBS:
                raise UsageError(f"{name} is {value}, must be 0 to {MAX_TOP_LOGPROBS}")


@dataclass(frozen=True)
class TokenLogprob:
    """A token's log-probability by the model itself, before bias, penalties, grammar and temperature.

    It is (logit - largest) - log(sum of exp(logit - largest)) in double, summed in a fixed order with functions
    that round alike everywhere, then rounded to float32: the same bits wherever the logits are the same.
    `top` are the likeliest tokens, the best first, among equals the lower id.
    """

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Started:
    """The prompt is being read; `cached_tokens` of it came from the prefix cache."""

    cached_tokens: int
    prompt_tokens: int


@dataclass(frozen=True)
class PromptLogprobs:
    """One per token of the prompt; None for the first, which nothing comes before."""

    tokens: tuple[TokenLogprob | None, ...]


@dataclass(frozen=True)
class Token:
    """The next token of the answer; `logprob` if the request asked for it."""

    id: int
    logprob: TokenLogprob | None = None


@dataclass(frozen=True)
class Embedding:
    """The prompt's vector, `dim` float32 of length 1."""

    vector: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Finished:
    """The last event. `length`: max_tokens are reached or the context is full; `failed`: `error` says why."""

    reason: Reason
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    error: str | None = None


Event = Started | PromptLogprobs | Token | Embedding | Finished


class Ticket:
    """A submitted request: a stream of events that ends with Finished, for one reader.

    Any thread may iterate (`for event in ticket`, or `get` with a timeout), or one event loop
    (`async for event in ticket`). Whoever loses interest calls `cancel`, from any thread, any number of times.
    """

    def __init__(self, request: Request, number: int, cancelled: Callable[[], None] = lambda: None) -> None:
        self.request = request
        self.number = number  # counts up from 1
        self.submitted = time.monotonic()
        self.cancel_wanted = False
        self._on_cancel = cancelled
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._waiter: asyncio.Future[None] | None = None
        self._over = False

    def cancel(self) -> None:
        """Stop it within one token or one prefill chunk; it still ends with a Finished event."""
        self.cancel_wanted = True
        self._on_cancel()

    def put(self, *events: Event) -> None:
        """For the scheduler: hand events to the reader."""
        with self._changed:
            self._events.extend(events)
            self._changed.notify()
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            try:
                waiter.get_loop().call_soon_threadsafe(_wake, waiter)
            except RuntimeError:  # the reader's loop is closed
                self.cancel()

    def get(self, timeout: float | None = None) -> Event:
        """The next event; TimeoutError if there is none in that many seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._events, timeout):
                raise TimeoutError
            return self._events.popleft()

    def __iter__(self) -> Iterator[Event]:
        while not self._over:
            yield self._note(self.get())

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if self._over:
            raise StopAsyncIteration
        while True:
            with self._changed:
                if self._events:
                    return self._note(self._events.popleft())
                self._waiter = waiter = asyncio.get_running_loop().create_future()
            await waiter

    def _note(self, event: Event) -> Event:
        self._over = isinstance(event, Finished)
        return event


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
