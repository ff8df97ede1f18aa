"""POST /v1/chat/completions."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from krafla.runtime.server import calls, schema
from krafla.runtime.server.answer import Said, TokenText
from krafla.runtime.server.errors import refuse, renamed
from krafla.runtime.server.grammar import Shape
from krafla.runtime.server.jobs import Job, Step, token_request
from krafla.runtime.server.service import Loaded, Service
from krafla.runtime.server.templates import ChatFormat


def text_of(content: str | Sequence[schema.TextPart] | None) -> str:
    """The text of a message's content."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text for part in content)


def template_messages(messages: Sequence[schema.Message]) -> list[dict[str, Any]]:
    """The conversation in the form that chat templates expect: contents are text, arguments objects."""
    plain: list[dict[str, Any]] = []
    names: dict[str, str] = {}  # of the functions, by call
    for i, message in enumerate(messages):
        role = "system" if message.role == "developer" else message.role
        entry: dict[str, Any] = {"role": role, "content": text_of(message.content)}
        if message.name is not None:
            entry["name"] = message.name
        if isinstance(message, schema.AssistantMessage):
            if message.reasoning_content is not None:
                entry["reasoning_content"] = message.reasoning_content
            if message.tool_calls:
                entry["tool_calls"] = [
                    _call(c, f"messages[{i}].tool_calls[{j}]") for j, c in enumerate(message.tool_calls)
                ]
                names |= {call.id: call.function.name for call in message.tool_calls}
        elif isinstance(message, schema.ToolMessage):
            if message.tool_call_id not in names:
                raise refuse(f"messages[{i}].tool_call_id", "no assistant message before it has that call")
            entry["tool_call_id"] = message.tool_call_id
            entry.setdefault("name", names[message.tool_call_id])
        plain.append(entry)
    return plain


def _call(call: schema.ToolCall, where: str) -> dict[str, Any]:
    try:
        arguments = json.loads(call.function.arguments or "{}")
    except (ValueError, RecursionError) as error:
        raise refuse(f"{where}.function.arguments", f"is not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise refuse(f"{where}.function.arguments", "is not a JSON object")
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.function.name, "arguments": arguments},
    }


def tools_of(tools: Sequence[schema.Tool] | None) -> list[calls.Tool]:
    """The functions with their schemas; one without parameters takes none."""
    nothing = {"type": "object", "properties": {}, "additionalProperties": False}
    return [
        calls.Tool(
            tool.function.name,
            nothing if tool.function.parameters is None else {"type": "object", **tool.function.parameters},
            tool.function.description,
        )
        for tool in tools or ()
    ]


def chat_format(loaded: Loaded) -> ChatFormat:
    """How this model chats; ApiError if it does not."""
    if loaded.chat is None:
        name = loaded.model.files.mlb.name
        raise refuse("messages", f"{name} has no chat template; use /v1/completions", "no_chat_template")
    return loaded.chat


def shape_of(loaded: Loaded, body: schema.ChatRequest, tools: list[calls.Tool], prompt: str) -> Shape:
    """What the answer must look like."""
    wanted: dict[str, Any] | None = None
    if isinstance(body.response_format, schema.JsonObject):
        wanted = calls.ANY_OBJECT
    elif isinstance(body.response_format, schema.JsonSchemaFormat):
        wanted = body.response_format.json_schema.schema_
    chat = chat_format(loaded)
    form = chat.calls if tools else None
    if tools and form is None:
        raise refuse("tools", "how this model's chat template writes calls is not known")
    if isinstance(body.tool_choice, schema.NamedTool):
        tools = [tool for tool in tools if tool.name == body.tool_choice.function.name]
    must = isinstance(body.tool_choice, schema.NamedTool) or body.tool_choice == "required"
    parallel = body.parallel_tool_calls is not False and not isinstance(body.tool_choice, schema.NamedTool)
    return Shape(chat.thinking(prompt), wanted, tools, form, must, parallel)


async def chat_prompt(service: Service, body: schema.ChatRequest) -> tuple[str, list[int]]:
    """The prompt of a chat as text and tokens."""
    loaded = service.loaded()
    service.check_model(body.model)
    chat = chat_format(loaded)
    variables = chat.values(body.chat_template_kwargs, body.reasoning_effort)

    def prepare() -> tuple[str, list[int]]:
        prompt = chat.render(template_messages(body.messages), offered(body), variables)
        return prompt, loaded.tokenizer.encode(prompt, bos=False)

    return await service.prepare(prepare)


def offered(body: schema.ChatRequest) -> list[calls.Tool]:
    """The tools that the model is told of: none if it must not call any."""
    return tools_of(body.tools) if body.tool_choice != "none" else []


async def chat_job(service: Service, body: schema.ChatRequest, name: str) -> Job:
    """The job of a chat, started."""
    loaded = service.loaded()
    prompt, ids = await chat_prompt(service, body)
    limit = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    with renamed({} if body.max_completion_tokens is None else {"max_tokens": "max_completion_tokens"}):
        request = token_request(loaded, service, body, ids, limit, name)
    if body.logprobs:
        request = replace(request, logprobs=body.top_logprobs or 0)
    job = Job(
        service, loaded, [request], shape_of(loaded, body, offered(body), prompt), body.stops(), "messages"
    )
    await job.start(body.n or 1)
    return job


@dataclass
class Choice:
    """One answer, collected."""

    content: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[TokenText] = field(default_factory=list)
    finish: str = "stop"

    def add(self, step: Step, call_id: str) -> None:
        """Take what a step adds."""
        self.content += step.said.content
        self.reasoning += step.said.reasoning
        self.tokens += step.tokens
        self.finish = step.finish or self.finish
        for part in step.said.calls:
            if part.name is not None:
                function = {"name": part.name, "arguments": ""}
                self.calls.append({"id": f"{call_id}_{part.index}", "type": "function", "function": function})
            self.calls[part.index]["function"]["arguments"] += part.arguments

    def message(self) -> dict[str, Any]:
        """The assistant's message."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = self.calls
            message["content"] = self.content or None
        return message


@dataclass(frozen=True)
class Head:
    """What every object of an answer begins with."""

    id: str
    object: str
    model: str
    fingerprint: str
    created: int = field(default_factory=lambda: int(time.time()))

    def __call__(self, **rest: Any) -> dict[str, Any]:
        """The object."""
        return {
            "id": self.id,
            "object": self.object,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            **rest,
        }


async def collect(job: Job, name: str, count: int) -> list[Choice]:
    """All answers, whole."""
    choices = [Choice() for _ in range(count)]
    async for step in job.steps():
        if step is not None:
            choices[step.index].add(step, call_id(name, step.index))
    return choices


def call_id(name: str, index: int) -> str:
    """What the ids of a choice's calls begin with."""
    return f"call_{name.rpartition('-')[2]}_{index}"


async def chat_json(service: Service, job: Job, body: schema.ChatRequest, name: str) -> dict[str, Any]:
    """The answer as one object."""
    head = Head(name, "chat.completion", service.model_name(), service.loaded().fingerprint)
    choices = await collect(job, name, body.n or 1)
    listed = [
        {
            "index": i,
            "message": choice.message(),
            "logprobs": {"content": chat_logprobs(service, choice.tokens), "refusal": None}
            if body.logprobs
            else None,
            "finish_reason": choice.finish,
        }
        for i, choice in enumerate(choices)
    ]
    return head(choices=listed, usage=job.usage.as_openai())


async def chat_stream(service: Service, job: Job, body: schema.ChatRequest, name: str) -> AsyncIterator[Any]:
    """The answer as chunks; None is a sign of life."""
    head = Head(name, "chat.completion.chunk", service.model_name(), service.loaded().fingerprint)
    with_usage = body.stream_options is not None and body.stream_options.include_usage
    extra = {"usage": None} if with_usage else {}
    for i in range(body.n or 1):
        yield head(choices=[_chunk(i, {"role": "assistant", "content": ""})], **extra)
    async for step in job.steps():
        if step is None:
            yield None
            continue
        logprobs = None
        if body.logprobs and step.tokens:
            logprobs = {"content": chat_logprobs(service, step.tokens), "refusal": None}
        for delta in _deltas(step.said, call_id(name, step.index)) or ([{}] if logprobs else []):
            yield head(choices=[_chunk(step.index, delta, logprobs)], **extra)
            logprobs = None
        if step.finish:
            yield head(choices=[_chunk(step.index, {}, finish=step.finish)], **extra)
    if with_usage:
        yield head(choices=[], usage=job.usage.as_openai())


def _chunk(
    index: int, delta: dict[str, Any], logprobs: Any = None, finish: str | None = None
) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}


def _deltas(said: Said, prefix: str) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = []
    if said.reasoning:
        deltas.append({"reasoning_content": said.reasoning})
    if said.content:
        deltas.append({"content": said.content})
    for part in said.calls:
        call: dict[str, Any] = {"index": part.index, "function": {"arguments": part.arguments}}
        if part.name is not None:
            call = {
                "index": part.index,
                "id": f"{prefix}_{part.index}",
                "type": "function",
                "function": {"name": part.name, "arguments": part.arguments},
            }
        deltas.append({"tool_calls": [call]})
    return deltas


def chat_logprobs(service: Service, tokens: Sequence[TokenText]) -> list[dict[str, Any]]:
    """Each token's log-probability in the form of a chat."""
    pieces = service.loaded().vocabulary.pieces
    listed = []
    for token in tokens:
        assert token.logprob is not None
        entry = _logprob(token.data, token.logprob.logprob)
        entry["top_logprobs"] = [_logprob(pieces[i], value) for i, value in token.logprob.top]
        listed.append(entry)
    return listed


def _logprob(data: bytes, value: float) -> dict[str, Any]:
    return {
        "token": data.decode("utf-8", "replace"),
        "logprob": max(value, -9999.0),  # JSON has no infinity
        "bytes": list(data),
    }
