"""One client's request on its way through the scheduler: made of any endpoint's fields, streamed to any of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fastapi import Request as HttpRequest

from krafla.runtime.model import Sampling
from krafla.runtime.server import schema
from krafla.runtime.server.answer import Answer, Said, Splitter, TokenText
from krafla.runtime.server.errors import ApiError, refuse
from krafla.runtime.server.grammar import Constraint, Shape
from krafla.runtime.server.request import (
    Event,
    Finished,
    Penalties,
    PromptLogprobs,
    Request,
    Started,
    Ticket,
    Token,
)
from krafla.runtime.server.service import Loaded, Service
from krafla.tools.errors import KraflaError

Result = TypeVar("Result")


class Gone(Exception):  # noqa: N818 - named after what happened
    """The client went away."""


@dataclass
class Usage:
    """Tokens of a whole request."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0

    def as_openai(self) -> dict[str, object]:
        """The form of chats and completions."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }


@dataclass(frozen=True)
class Step:
    """Something that happened to choice `index`; `finish` is set once, at its end."""

    index: int
    said: Said
    tokens: Sequence[TokenText] = ()
    prompt_logprobs: PromptLogprobs | None = None
    finish: str | None = None


def token_request(
    loaded: Loaded,
    service: Service,
    body: schema.Sampled,
    ids: Sequence[int],
    max_tokens: int | None,
    name: str,
) -> Request:
    """The scheduler's request for a prompt: what all endpoints that generate have in common."""
    options = service.options
    if options.max_tokens is not None:
        if max_tokens is not None and max_tokens > options.max_tokens:
            raise refuse("max_tokens", f"is {max_tokens}, this server gives {options.max_tokens} at most")
        max_tokens = options.max_tokens if max_tokens is None else max_tokens
    vocab = loaded.model.config.vocab
    bias = {int(key): value for key, value in (body.logit_bias or {}).items()}
    wrong = next((token for token in bias if token >= vocab), None)
    if wrong is not None:
        raise refuse("logit_bias", f"{wrong} is no token of this model (0 to {vocab - 1})")
    temperature = options.temperature if body.temperature is None else body.temperature
    return Request(
        prompt=tuple(ids),
        max_tokens=max_tokens,
        sampling=Sampling(temperature, _or(body.top_p, 1.0), _or(body.top_k, 0), _or(body.min_p, 0.0)),
        penalties=Penalties(
            _or(body.repeat_penalty, 1.0), _or(body.presence_penalty, 0.0), _or(body.frequency_penalty, 0.0)
        ),
        logit_bias=bias,
        seed=body.seed,
        stop_ids=loaded.tokenizer.eos,
        ignore_eos=bool(body.ignore_eos),
        deadline=service.deadline(),
        id=name,
    )


def _or(value: Result | None, default: Result) -> Result:
    return default if value is None else value


class Job:
    """The n answers to one or several prompts. `start` may fail with a status; after that there are only steps."""

    def __init__(
        self,
        service: Service,
        loaded: Loaded,
        requests: Sequence[Request],
        shape: Shape,
        stops: Sequence[str],
        prompt_field: str,
    ) -> None:
        self._service = service
        self._loaded = loaded
        self._requests = requests
        self._shape = shape
        self._stops = stops
        self._prompt_field = prompt_field
        self._tickets: list[Ticket] = []
        self._n = 1
        self.prompts = [request.prompt for request in requests]
        self.usage = Usage()
        self.finishes: dict[int, str] = {}
        self.stops_hit: dict[int, str] = {}

    @property
    def count(self) -> int:
        """How many answers there are."""
        return len(self._tickets)

    async def start(self, n: int = 1) -> None:
        """Compile the grammar and put every prompt into the queue n times."""
        grammar = self._shape.grammar()
        requests = [self._sample(request, i) for request in self._requests for i in range(n)]
        if grammar is not None:
            requests = await self._service.prepare(lambda: [self._constrained(r, grammar) for r in requests])
        self._tickets = self._service.submit(requests, self._prompt_field)
        self._n = n

    def _sample(self, request: Request, i: int) -> Request:
        return request if request.seed is None else replace(request, seed=(request.seed + i) % 2**64)

    def _constrained(self, request: Request, grammar: str) -> Request:
        grammars = self._loaded.grammars
        param = "response_format" if self._shape.schema is not None else "tools"
        if grammars is None:
            raise refuse(param, "this model has no end-of-text token, so no grammar can end")
        matcher = grammars.compile(grammar, param)
        return replace(request, grammar=Constraint(matcher, self._loaded.model.config.vocab))

    async def steps(self) -> AsyncIterator[Step | None]:
        """What happens to all answers, as it happens; None when nothing did for a while."""
        queue: asyncio.Queue[Step | BaseException | None] = asyncio.Queue()
        readers = [
            asyncio.create_task(self._read(i, ticket, queue)) for i, ticket in enumerate(self._tickets)
        ]
        open_answers = len(readers)
        try:
            while open_answers:
                try:
                    step = await asyncio.wait_for(queue.get(), self._service.options.keep_alive)
                except asyncio.TimeoutError:
                    yield None
                    continue
                if isinstance(step, BaseException):
                    raise step
                if step is None:
                    open_answers -= 1
                else:
                    yield step
        finally:
            self.cancel()
            for reader in readers:
                reader.cancel()

    def cancel(self) -> None:
        """Stop all answers."""
        for ticket in self._tickets:
            ticket.cancel()

    async def _read(
        self, index: int, ticket: Ticket, queue: asyncio.Queue[Step | BaseException | None]
    ) -> None:
        splitter = Splitter(self._shape.thinking, self._shape.calls, self._shape.tools)
        answer = Answer(self._loaded.vocabulary, splitter, self._stops, ticket.request.prompt[-1])
        try:
            async for event in ticket:
                if step := self._step(index, answer, event):
                    queue.put_nowait(step)
                    if step.finish:
                        ticket.cancel()
                        break
        except Exception as error:
            queue.put_nowait(error)
        finally:
            queue.put_nowait(None)

    def _step(self, index: int, answer: Answer, event: Event) -> Step | None:
        if isinstance(event, Started):
            if index % self._n == 0:
                self.usage.prompt += event.prompt_tokens
            self.usage.cached += event.cached_tokens if index % self._n == 0 else 0
        elif isinstance(event, PromptLogprobs):
            return Step(index, Said(), prompt_logprobs=event)
        elif isinstance(event, Token):
            self.usage.completion += 1
            said = answer.push(event)
            if answer.stopped is not None:
                self.stops_hit[index] = answer.stopped
                return self._end(index, answer, said, "stop")
            if said.content or said.reasoning or said.calls:
                return Step(index, said, answer.take_tokens())
        elif isinstance(event, Finished):
            return self._finished(index, answer, event)
        return None

    def _finished(self, index: int, answer: Answer, event: Finished) -> Step:
        if event.reason not in ("stop", "length"):
            raise self._service.ended(event)
        said = answer.finish()
        if answer.stopped is not None:  # its last letter was held back until now
            self.stops_hit[index] = answer.stopped
        reason = "tool_calls" if answer.calls and event.reason == "stop" else event.reason
        return self._end(index, answer, said, reason)

    def _end(self, index: int, answer: Answer, said: Said, reason: str) -> Step:
        self.finishes[index] = reason
        return Step(index, said, answer.take_tokens(), finish=reason)


async def while_connected(http: HttpRequest, work: Awaitable[Result]) -> Result:
    """The result of `work`, which is cancelled if the client goes away; then Gone."""
    task = asyncio.ensure_future(work)
    watcher = asyncio.create_task(_disconnected(http))
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Gone
        return task.result()
    finally:
        watcher.cancel()
        task.cancel()


async def _disconnected(http: HttpRequest) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass


def as_api_error(error: Exception) -> ApiError:
    """What to tell a client whose answer failed in the middle."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, KraflaError):
        return ApiError(500, error.message)
    return ApiError(500, f"internal error: {type(error).__name__}")
