"""Runs requests on one engine, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike

from krafla.runtime import progress
from krafla.runtime.model import Model
from krafla.runtime.server.request import (
    ContextOverflow,
    Finished,
    NotReady,
    QueueFull,
    Reason,
    Request,
    Started,
    Ticket,
    Token,
)
from krafla.runtime.server.statistics import Counters, Snapshot, State
from krafla.tools.errors import KraflaError, UsageError


@dataclass(frozen=True)
class SchedulerOptions:
    """How to load the model and how much to take on; None leaves the choice to the scheduler.

    `parallel` requests run at once and `queue` wait at most. `ctx` is the most positions that one request may
    have, `positions` how many all of them and the prefix cache share. `batch` is how many tokens go through
    the model in one step at most, so how many of a prompt. `speculate` is "ngram" or "off"; `draft` is a
    smaller model with the same tokens that proposes up to `draft_tokens`.
    """

    model: str | PathLike[str] | None = None
    isa: str | None = None
    threads: int | None = None
    ctx: int | None = None
    kv: str = "f32"
    pack: bool = True
    pack_cache: bool = False
    batch: int | None = None
    parallel: int = 16
    queue: int = 64
    positions: int | None = None
    speculate: str = "off"
    draft: str | PathLike[str] | None = None
    draft_tokens: int = 8

    def __post_init__(self) -> None:
        for name, least in (("parallel", 1), ("queue", 0), ("draft_tokens", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} is {getattr(self, name)}, must be at least {least}")
        if self.speculate not in ("ngram", "off"):
            raise UsageError(f"speculate is {self.speculate}, must be ngram or off")


class Scheduler:
    """`start` returns at once and loads the model in the engine's thread; `close` ends everything.

    `submit`, `snapshot`, `state` and `close` may be called from any thread. `model` is there once the state is
    ready; its tokenizer is for one thread at a time, which is not the engine's: the caller's.
    """

    def __init__(
        self,
        options: SchedulerOptions,
        report: progress.Report = progress.silent,
        announce: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.options = options
        self.error: str | None = None  # why the state is failed
        self._report = report
        self._announce = announce
        self._model: Model | None = None
        self._state: State = "loading"
        self._lock = threading.Condition()
        self._waiting: deque[Ticket] = deque()
        self._counters = Counters()
        self._number = 0
        self._thread = threading.Thread(target=self._run, name="krafla-engine", daemon=True)

    @property
    def state(self) -> State:
        """What it is doing: loading, ready, failed (`error` says why), closing or closed."""
        return self._state

    @property
    def model(self) -> Model:
        """The loaded model: config, files, template, tokenizer. NotReady before."""
        if self._model is None:
            raise NotReady(self.error or f"the model is {self._state}")
        return self._model

    def start(self) -> None:
        """Start loading; returns at once."""
        self._thread.start()

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until the model is loaded; NotReady with the reason if that fails, TimeoutError."""
        with self._lock:
            if not self._lock.wait_for(lambda: self._state != "loading", timeout):
                raise TimeoutError
        if self._state != "ready":
            raise NotReady(self.error or f"the server is {self._state}")

    def submit(self, request: Request) -> Ticket:
        """Put a request into the queue. Raises NotReady, QueueFull, ContextOverflow or UsageError, at once."""
        model = self.model
        if len(request.prompt) > model.config.context:
            raise ContextOverflow(len(request.prompt), model.config.context)
        vocab = model.config.vocab
        for token in request.prompt:
            if not 0 <= token < vocab:
                raise UsageError(f"the prompt has the token {token}, the model has tokens 0 to {vocab - 1}")
        with self._lock:
            if self._state != "ready":
                raise NotReady(f"the server is {self._state}")
            if len(self._waiting) >= self.options.queue:
                self._counters.rejected += 1
                raise QueueFull(len(self._waiting), 1.0)
            self._number += 1
            self._counters.submitted += 1
            ticket = Ticket(request, self._number)
            self._waiting.append(ticket)
            self._lock.notify_all()
        return ticket

    def snapshot(self) -> Snapshot:
        """What it is doing, for statistics."""
        with self._lock:
            return Snapshot(
                self._state,
                self.options.parallel,
                len(self._waiting),
                self.options.queue,
                counters=replace(self._counters),
            )

    def close(self, drain: float | None = 0.0) -> None:
        """End: take no more requests, let the ones there are go on for `drain` seconds (None: to their end),
        cancel the rest, release the model. Returns when all is done; closing twice is fine."""
        end = None if drain is None else time.monotonic() + drain
        with self._lock:
            if self._state in ("ready", "loading"):
                self._state = "closing"
            self._drain_until = end
            self._lock.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self._state = "closed"

    def _run(self) -> None:
        o = self.options
        try:
            self._model = Model.load(
                o.model, o.isa, o.threads, o.ctx, o.kv, o.pack, batch=o.batch, pack_cache=o.pack_cache
            )
        except KraflaError as error:
            self.error, self._state = error.message, "failed"
            with self._lock:
                self._lock.notify_all()
            return
        with self._lock:
            if self._state == "loading":
                self._state = "ready"
            self._lock.notify_all()
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._waiting or self._state == "closing")
                if not self._waiting:
                    break
                ticket = self._waiting.popleft()
            self._serve(self._model, ticket)
        self._model.close()

    def _serve(self, model: Model, ticket: Ticket) -> None:
        request = ticket.request
        ticket.put(Started(0, len(request.prompt)))
        sampling = request.sampling
        generation = model.generate(
            list(request.prompt), request.max_tokens, sampling.temperature, sampling.top_p, request.seed
        )
        count, ids = 0, list(request.prompt)
        while not ticket.cancel_wanted and (token := generation._next_token(ids)) is not None:
            ids.append(token)
            generation.ids.append(token)
            count += 1
            ticket.put(Token(token))
        reason: Reason = (
            "cancelled" if ticket.cancel_wanted else "stop" if generation.finish == "stop" else "length"
        )
        ticket.put(Finished(reason, len(request.prompt), 0, count))
