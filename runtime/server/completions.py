"""POST /v1/completions: text goes on. With `echo` and `logprobs` the prompt is judged too, as evaluations need it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from krafla.runtime.server import schema
from krafla.runtime.server.answer import TokenText
from krafla.runtime.server.chat import Head
from krafla.runtime.server.errors import refuse
from krafla.runtime.server.grammar import Shape
from krafla.runtime.server.jobs import Job, Step, token_request
from krafla.runtime.server.request import PromptLogprobs
from krafla.runtime.server.service import Loaded, Service
from krafla.runtime.text import TextStream

DEFAULT_TOKENS = 16
MAX_PROMPTS = 2048


def token_lists(loaded: Loaded, given: Any, field: str) -> list[list[int]]:
    """The ids of a text, of token ids, or of a list of either."""
    several = isinstance(given, list) and not (given and isinstance(given[0], int))
    items: list[Any] = given if several else [given]
    if not items:
        raise refuse(field, "is empty")
    if len(items) > MAX_PROMPTS:
        raise refuse(field, f"has {len(items)} texts, at most {MAX_PROMPTS} are taken")
    tokenizer = loaded.tokenizer
    vocab, lists = loaded.model.config.vocab, []
    for i, item in enumerate(items):
        where = f"{field}[{i}]" if several else field
        ids = tokenizer.encode(item) if isinstance(item, str) else list(item)
        wrong = next((at for at, token in enumerate(ids) if token >= vocab), None)
        if wrong is not None:
            raise refuse(f"{where}[{wrong}]", f"is {ids[wrong]}, this model has tokens 0 to {vocab - 1}")
        if not ids and tokenizer.bos >= 0:
            ids = [tokenizer.bos]
        if not ids:
            raise refuse(where, "is empty")
        lists.append(ids)
    return lists


async def completion_job(service: Service, body: schema.CompletionRequest, name: str) -> Job:
    """The job of a completion, started."""
    loaded = service.loaded()
    service.check_model(body.model)
    prompts = await service.prepare(lambda: token_lists(loaded, body.prompt, "prompt"))
    limit = DEFAULT_TOKENS if body.max_tokens is None else body.max_tokens
    requests = [token_request(loaded, service, body, ids, limit, name) for ids in prompts]
    if body.logprobs is not None:
        judged = body.logprobs if body.echo else None
        requests = [replace(r, logprobs=body.logprobs, prompt_logprobs=judged) for r in requests]
    job = Job(service, loaded, requests, Shape(), body.stops(), "prompt")
    await job.start(body.n or 1)
    return job


class Echo:
    """The prompt as the beginning of an answer."""

    def __init__(self, service: Service, prompt: Sequence[int], given: Any) -> None:
        tokenizer = service.loaded().tokenizer
        stream, previous, length = TextStream(), -1, 0
        # A begin-of-text token that encoding put there is no part of a text.
        implied = isinstance(given, str) or (isinstance(given, list) and given and isinstance(given[0], str))
        self.pieces: list[tuple[bytes, int]] = []
        texts = []
        for i, token in enumerate(prompt):
            data = tokenizer.piece(previous, token)
            shown = b"" if i == 0 and implied and token == tokenizer.bos else data
            self.pieces.append((data, length))
            texts.append(stream.push(shown))
            length += len(texts[-1])
            previous = token
        texts.append(stream.finish())
        self.text = "".join(texts)

    def tokens(self, judged: PromptLogprobs) -> list[TokenText]:
        """The prompt's tokens with their log-probabilities."""
        return [
            TokenText(data, logprob, offset)
            for (data, offset), logprob in zip(self.pieces, judged.tokens, strict=True)
        ]


def logprobs_of(service: Service, tokens: Sequence[TokenText], shift: int) -> dict[str, Any]:
    """The form of completions; `shift` is where the text of these tokens begins."""
    pieces = service.loaded().vocabulary.pieces
    return {
        "tokens": [_shown(token.data) for token in tokens],
        "token_logprobs": [token.logprob and _finite(token.logprob.logprob) for token in tokens],
        "top_logprobs": [
            token.logprob and {_shown(pieces[i]): _finite(value) for i, value in reversed(token.logprob.top)}
            for token in tokens
        ],
        "text_offset": [shift + token.offset for token in tokens],
    }


def _shown(data: bytes) -> str:
    """The token's text; what is no text by itself is shown as OpenAI does."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def _finite(value: float) -> float:
    return max(value, -9999.0)  # JSON has no infinity


async def _pieces(
    service: Service, job: Job, body: schema.CompletionRequest
) -> AsyncIterator[tuple[Step, str, dict[str, Any] | None] | None]:
    """Steps with the text and logprobs that they add, the echoed prompt first."""
    n = body.n or 1
    echoes = [Echo(service, prompt, body.prompt) for prompt in job.prompts] if body.echo else []
    waiting = set(range(job.count)) if body.echo else set()
    async for step in job.steps():
        if step is None:
            yield None
            continue
        text, shift, logprobs = step.said.content, 0, None
        tokens = list(step.tokens)
        if echoes:
            echo = echoes[step.index // n]
            shift = len(echo.text)
            if step.prompt_logprobs is not None:
                waiting.discard(step.index)
                yield step, echo.text, logprobs_of(service, echo.tokens(step.prompt_logprobs), 0)
                continue
            if step.index in waiting:
                waiting.discard(step.index)
                text = echo.text + text
        if body.logprobs is not None:
            logprobs = logprobs_of(service, tokens, shift)
        yield step, text, logprobs


async def completion_json(
    service: Service, job: Job, body: schema.CompletionRequest, name: str
) -> dict[str, Any]:
    """The answer as one object."""
    head = Head(name, "text_completion", service.model_name(), service.loaded().fingerprint)
    choices: list[dict[str, Any]] = [
        {"index": i, "text": "", "logprobs": None, "finish_reason": None} for i in range(job.count)
    ]
    async for piece in _pieces(service, job, body):
        if piece is None:
            continue
        step, text, logprobs = piece
        choice = choices[step.index]
        choice["text"] += text
        choice["finish_reason"] = step.finish or choice["finish_reason"]
        if logprobs is not None:
            old = choice["logprobs"] or {}
            choice["logprobs"] = {key: old.get(key, []) + value for key, value in logprobs.items()}
    return head(choices=choices, usage=job.usage.as_openai())


async def completion_stream(
    service: Service, job: Job, body: schema.CompletionRequest, name: str
) -> AsyncIterator[Any]:
    """The answer as chunks; None is a sign of life."""
    head = Head(name, "text_completion", service.model_name(), service.loaded().fingerprint)
    with_usage = body.stream_options is not None and body.stream_options.include_usage
    extra = {"usage": None} if with_usage else {}
    async for piece in _pieces(service, job, body):
        if piece is None:
            yield None
            continue
        step, text, logprobs = piece
        choice = {"index": step.index, "text": text, "logprobs": logprobs, "finish_reason": step.finish}
        yield head(choices=[choice], **extra)
    if with_usage:
        yield head(choices=[], usage=job.usage.as_openai())
