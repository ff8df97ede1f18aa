"""Runs requests on one engine, in a thread of its own: continuous batching over a shared pool of pages."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from os import PathLike

from krafla.runtime import progress
from krafla.runtime.model import Model
from krafla.runtime.server.loading import open_model
from krafla.runtime.server.request import (
    ContextOverflow,
    NotReady,
    QueueFull,
    Request,
    Ticket,
)
from krafla.runtime.server.running import Answer
from krafla.runtime.server.statistics import Counters, Snapshot, State
from krafla.runtime.server.steps import Steps
from krafla.tools.errors import KraflaError, UsageError

log = logging.getLogger("krafla.server")


@dataclass(frozen=True)
class SchedulerOptions:
    """How to load the model and how much to take on; None leaves the choice to the scheduler.

    `parallel` requests run at once and `queue` wait at most. `ctx` is the most positions that one request may
    have, `positions` how many all of them and the prefix cache share (default: four contexts, or as many as fit
    into half of the machine's memory). `batch` is how many tokens go through
    the model in one step at most, so how many of a prompt. `speculate` is "ngram" or "off"; `draft` is a
    smaller model with the same tokens that proposes up to `draft_tokens`. Without `prefix_cache` every prompt is
    read from its start.
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
    prefix_cache: bool = True
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
        self._steps: Steps | None = None
        self._state: State = "loading"
        self._changed = threading.Condition()
        self._arrived: deque[Ticket] = deque()  # submitted, not seen by the engine's thread
        self._counters = Counters()
        self._number = 0
        self._drain_until: float | None = 0.0
        self._thread = threading.Thread(target=self._run, name="krafla-engine", daemon=True)

    @property
    def state(self) -> State:
        """What it is doing: loading, ready, failed (`error` says why), closing or closed."""
        return self._state

    @property
    def model(self) -> Model:
        """The loaded model: config, files, template, tokenizer. NotReady before."""
        if self._model is None:
            raise NotReady(self.error or f"the server is {self._state}")
        return self._model

    def start(self) -> None:
        """Start loading; returns at once."""
        self._thread.start()

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until the model is loaded; NotReady with the reason if that fails, TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._state != "loading", timeout):
                raise TimeoutError
        if self._state != "ready":
            raise NotReady(self.error or f"the server is {self._state}")

    def submit(self, request: Request) -> Ticket:
        """Put a request into the queue. Raises NotReady, QueueFull, ContextOverflow or UsageError, at once."""
        model = self.model
        if len(request.prompt) > model.config.context:
            raise ContextOverflow(len(request.prompt), model.config.context)
        _check_tokens("the prompt has", request.prompt, model.config.vocab)
        _check_tokens("logit_bias names", request.logit_bias, model.config.vocab)
        with self._changed:
            if self._state != "ready":
                raise NotReady(f"the server is {self._state}")
            waiting = self._waiting
            if waiting >= self.options.queue and not self._has_room():
                self._counters.rejected += 1
                raise QueueFull(waiting, self._wait_estimate(waiting))
            self._number += 1
            self._counters.submitted += 1
            ticket = Ticket(request, self._number, self._wake)
            self._arrived.append(ticket)
            self._changed.notify_all()
        return ticket

    def snapshot(self) -> Snapshot:
        """What it is doing, for statistics."""
        steps = self._steps
        slots = tuple(answer.slot() for answer in list(steps.running)) if steps else ()
        with self._changed:
            return Snapshot(
                self._state,
                self.options.parallel,
                self._waiting,
                self.options.queue,
                slots,
                steps.batch.pages if steps else 0,
                steps.pages_used if steps else 0,
                steps.cache.held if steps else 0,
                replace(self._counters, finished=dict(self._counters.finished)),
            )

    def close(self, drain: float | None = 0.0) -> None:
        """End: take no more requests, let the ones there are go on for `drain` seconds (None: to their end),
        cancel the rest, release the model. Returns when all is done; closing twice is fine.
        """
        with self._changed:
            if self._state in ("ready", "loading"):
                self._state = "closing"
            self._drain_until = None if drain is None else time.monotonic() + drain
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self._state = "closed"

    @property
    def _waiting(self) -> int:
        return len(self._arrived) + (len(self._steps.waiting) if self._steps else 0)

    def _has_room(self) -> bool:
        """Whether a request would run without waiting for another to end."""
        running = len(self._steps.running) if self._steps else 0
        return running + self._waiting < self.options.parallel

    def _wait_estimate(self, waiting: int) -> float:
        """Seconds until the queue may have room: a typical answer's time, shared by those that run at once."""
        typical = self._steps.typical_seconds if self._steps else 1.0
        return max(1.0, typical * waiting / self.options.parallel)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            self._model, self._steps = open_model(self.options, self._counters, self._report, self._announce)
        except KraflaError as error:
            self._fail(error.message)
            return
        except Exception as error:  # a server that cannot load says so as long as it is asked
            self._fail(f"internal error while loading: {error!r}")
            return
        with self._changed:
            if self._state == "loading":
                self._state = "ready"
            self._changed.notify_all()
        try:
            while self._next(self._steps):
                self._steps.step()
        except Exception as error:
            log.exception("the engine's thread ends")
            self._fail(f"internal error: {error!r}")
            self._steps.end_all("failed", self.error)
        finally:
            for ticket in self._arrived:
                Answer(ticket, self._steps.batch).end("cancelled")
            self._steps.close()
            self._model.close()

    def _fail(self, reason: str) -> None:
        with self._changed:
            self.error = reason
            self._state = "failed"
            self._changed.notify_all()

    def _next(self, steps: Steps) -> bool:
        """Wait for something to do; False if it is time to end."""
        with self._changed:
            while not self._arrived and not steps.busy and self._state == "ready":
                self._changed.wait()
            while self._arrived:
                steps.add(self._arrived.popleft())
            if self._state != "closing":
                return True
            if self._drain_until is not None and time.monotonic() >= self._drain_until:
                steps.end_all("cancelled")
            return steps.busy


def _check_tokens(where: str, tokens: Iterable[int], vocab: int) -> None:
    for token in tokens:
        if not 0 <= token < vocab:
            raise UsageError(f"{where} the token {token}, the model has tokens 0 to {vocab - 1}")
