"""The model behind the endpoints: loaded in the background, then asked for prompts, grammars and tickets."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from krafla import __version__
from krafla.runtime import progress
from krafla.runtime.bind import Api
from krafla.runtime.engine import engine
from krafla.runtime.isas import isas
from krafla.runtime.model import KV_TYPES, Model
from krafla.runtime.server.answer import Vocabulary
from krafla.runtime.server.errors import ApiError, from_core
from krafla.runtime.server.grammar import Grammars
from krafla.runtime.server.request import Finished, NotReady, Request, Ticket
from krafla.runtime.server.scheduler import Scheduler, SchedulerOptions
from krafla.runtime.server.templates import ChatFormat
from krafla.runtime.tokenizer import Tokenizer
from krafla.tools.errors import AccessError, KraflaError, access

log = logging.getLogger("krafla.server")
Result = TypeVar("Result")
Watch = Callable[[], AbstractContextManager[progress.Report]]


@dataclass(frozen=True)
class ServiceOptions:
    """What `krafla serve` lets one choose, beyond how the model is loaded."""

    scheduler: SchedulerOptions = field(default_factory=SchedulerOptions)
    alias: str | None = None  # the model's name for clients; None: its file's
    strict_model: bool = False
    api_keys: tuple[str, ...] = ()
    cors: tuple[str, ...] = ()
    max_body: int = 16 << 20  # bytes
    max_tokens: int | None = None  # of one answer
    request_timeout: float | None = None  # seconds
    temperature: float = 0.0  # of requests that say nothing
    pooling: Literal["mean", "last"] = "mean"
    keep_alive: float = 5.0  # seconds of silence before a comment in a stream
    grace: float = 10.0  # seconds that running answers may take at the end


@dataclass(frozen=True)
class Loaded:
    """What there is once the model is loaded."""

    model: Model
    tokenizer: Tokenizer  # not the model's own, which ends with it
    vocabulary: Vocabulary
    grammars: Grammars | None  # None: no tokens end a text, so nothing can be held to a grammar
    chat: ChatFormat | None
    fingerprint: str
    created: int


class SharedTokenizer(Tokenizer):
    """A tokenizer that several threads encode with: those of requests, and the engine's for grammars."""

    def __init__(self, api: Api, path: Path, vocab: int) -> None:
        super().__init__(api, path, vocab)
        self._lock = threading.Lock()

    def encode(self, text: str, bos: bool | None = None, added: bool = True) -> list[int]:
        """As the others do, in turns."""
        with self._lock:
            return super().encode(text, bos, added)


class Service:
    """One model for all requests. `start` returns at once; `loaded` and `submit` raise ApiError until ready."""

    def __init__(
        self,
        options: ServiceOptions,
        watch: Watch = lambda: nullcontext(progress.silent),
        announce: Callable[[str], None] = lambda sentence: None,
        scheduler: Callable[..., Scheduler] = Scheduler,
    ) -> None:
        self.options = options
        self._make_scheduler = scheduler
        self.started = time.time()
        self.error: str | None = None
        self.scheduler: Scheduler | None = None
        self._watch = watch
        self._announce = announce
        self._loaded: Loaded | None = None
        self._closing = False
        self._loader = threading.Thread(target=self._load, name="krafla-loader", daemon=True)
        # Templates, tokenizing and grammars take turns here, so that no request waits for another's stream.
        self._work = ThreadPoolExecutor(1, thread_name_prefix="krafla-prepare")

    def start(self) -> None:
        """Begin to load; returns at once."""
        self._loader.start()

    def wait_ready(self) -> None:
        """Wait until loading has ended; ApiError if it failed."""
        self._loader.join()
        self.loaded()

    @property
    def state(self) -> str:
        """The service at this moment: loading, ready, failed or closing."""
        if self.error is not None:
            return "failed"
        if self._closing:
            return "closing"
        return "ready" if self._loaded else "loading"

    def loaded(self) -> Loaded:
        """What is loaded; ApiError 503 before that and after it failed."""
        if self._loaded is None:
            raise from_core(NotReady(self.error or f"the model is {self.state}"))
        return self._loaded

    async def prepare(self, work: Callable[[], Result]) -> Result:
        """Run what takes the tokenizer or a grammar, in the thread that is for it."""
        return await asyncio.get_running_loop().run_in_executor(self._work, work)

    def submit(self, requests: Sequence[Request], prompt_field: str) -> list[Ticket]:
        """Put requests into the queue, all or none."""
        if self._closing:
            raise from_core(NotReady("the server is shutting down"))
        self.loaded()
        assert self.scheduler is not None
        tickets: list[Ticket] = []
        try:
            for request in requests:
                tickets.append(self.scheduler.submit(request))
        except KraflaError as error:
            for ticket in tickets:
                ticket.cancel()
            raise from_core(error, prompt_field) from error
        return tickets

    def deadline(self) -> float | None:
        """When a request that comes now must be done, by time.monotonic()."""
        seconds = self.options.request_timeout
        return None if seconds is None else time.monotonic() + seconds

    def ended(self, event: Finished) -> ApiError:
        """The error of a request that ended before its end."""
        if event.reason == "timeout":
            seconds = self.options.request_timeout
            return ApiError(408, f"the request took longer than {seconds:g} seconds", code="timeout")
        if event.reason == "cancelled":
            return ApiError(503, "the server is shutting down", code="closing")
        return ApiError(500, event.error or "the engine failed")

    def model_name(self) -> str:
        """The model's name for clients, also while it is loading."""
        if self.options.alias:
            return self.options.alias
        if self._loaded:
            return self._loaded.model.files.mlb.stem
        return Path(str(self.options.scheduler.model or "default")).stem

    def check_model(self, name: str | None) -> None:
        """ApiError 404 if names are taken seriously and this is another model's."""
        known = (None, self.model_name())
        if self.options.strict_model and name not in known:
            sentence = f"the model {name!r} is not here, only {self.model_name()!r}"
            raise ApiError(404, sentence, "model", "model_not_found")

    def drain(self) -> None:
        """Take no more requests; those that run after `grace` seconds are cancelled. Returns when none runs."""
        self._closing = True
        if self.scheduler is not None and not self._loader.is_alive():
            self.scheduler.close(self.options.grace)

    def close(self) -> None:
        """Cancel what runs, release the model. What is still loading is left to end with the process."""
        self._closing = True
        if self.scheduler is not None and not self._loader.is_alive():
            self.scheduler.close(0.0)
        self._work.shutdown(wait=True, cancel_futures=True)
        if self._loaded is not None:
            self._loaded.tokenizer.close()

    def _load(self) -> None:
        try:
            with self._watch() as report:
                self.scheduler = self._make_scheduler(self.options.scheduler, report, self._announce)
                self.scheduler.start()
                self.scheduler.wait_ready()
                self._loaded = _inspect(self.scheduler.model, report)
        except KraflaError as error:
            self._fail(error.message)
        except Exception as error:
            log.exception("loading failed")
            self._fail(f"internal error: {type(error).__name__}: {error}")

    def _fail(self, sentence: str) -> None:
        if not self._closing:
            self.error = sentence
            log.error("the model cannot be loaded: %s", sentence)


def _inspect(model: Model, report: progress.Report) -> Loaded:
    """Everything else that requests need; a chat template that does not work is an error now."""
    if model.files.tokenizer is None:
        raise AccessError(f"{model.files.mlb.name}: there is no tokenizer beside it")
    chat = ChatFormat.of(model.chat_template) if model.template is not None else None
    api, _ = engine(model.isa)
    tokenizer = SharedTokenizer(api, model.files.tokenizer, model.config.vocab)
    vocabulary = Vocabulary(tokenizer, model.config.vocab)
    grammars = None
    if tokenizer.eos:
        eos = sorted(tokenizer.eos, key=lambda i: (i != tokenizer.first_eos, i))
        grammars = Grammars(vocabulary.pieces, sorted(vocabulary.silent), eos, vocabulary.encode)
    digest = _digest(model.files.mlb, report)
    rounding = "fused" if any(facts.fused for facts in isas() if facts.name == model.isa) else "unfused"
    kv = KV_TYPES[model.config.kv_type]
    fingerprint = f"krafla-{__version__}-{rounding}-kv_{kv}-{digest}"
    return Loaded(model, tokenizer, vocabulary, grammars, chat, fingerprint, int(time.time()))


def _digest(path: Path, report: progress.Report) -> str:
    """The hash of the model's file, shortened."""
    state = hashlib.sha256()
    with access(path, "read"), path.open("rb") as file:
        total, done = path.stat().st_size, 0
        while block := file.read(8 << 20):
            state.update(block)
            done += len(block)
            report(f"hashing {path.name}", done, total)
    return state.hexdigest()[:16]
