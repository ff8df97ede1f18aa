"""POST /v1/messages: Anthropic's form, translated to a chat and back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from krafla.runtime.server import schema
from krafla.runtime.server import schema_messages as own
from krafla.runtime.server.chat import Choice, call_id, chat_job, chat_prompt, collect
from krafla.runtime.server.errors import renamed, translated
from krafla.runtime.server.jobs import Job, Step
from krafla.runtime.server.service import Service

STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
NAMES = {"stop": "stop_sequences", "reasoning_effort": "thinking"}


async def message_job(service: Service, body: own.MessagesRequest, name: str) -> Job:
    """The job of a message, started."""
    with renamed(NAMES):
        return await chat_job(service, as_chat(service, body), name)


async def count_tokens(service: Service, body: own.CountRequest) -> dict[str, Any]:
    """How long the prompt would be."""
    with renamed(NAMES):
        _, ids = await chat_prompt(service, as_chat(service, body))
    return {"input_tokens": len(ids)}


def as_chat(service: Service, body: own.CountRequest) -> schema.ChatRequest:
    """The same request as a chat."""
    fields: dict[str, Any] = {
        "model": body.model,
        "messages": _messages(body),
        "tools": [_tool(tool) for tool in body.tools] if body.tools else None,
    }
    if body.tool_choice is not None:
        named = {"type": "function", "function": {"name": body.tool_choice.name}}
        choices = {"auto": "auto", "any": "required", "none": "none", "tool": named}
        fields["tool_choice"] = choices[body.tool_choice.type]
        fields["parallel_tool_calls"] = not body.tool_choice.disable_parallel_tool_use
    if isinstance(body, own.MessagesRequest):
        names = ("max_tokens", "temperature", "top_p", "top_k")
        fields |= {name: getattr(body, name) for name in names}
        fields["stop"] = body.stop_sequences
    chat = service.loaded().chat
    thinks = chat is not None and {"enable_thinking", "reasoning_effort"} & set(chat.variables)
    if body.thinking is not None and body.thinking.type == "disabled" and thinks:
        fields["reasoning_effort"] = "none"
    return translated(fields)


def _tool(tool: own.CustomTool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


def _text(content: str | Sequence[own.TextBlock] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(block.text for block in content)


def _messages(body: own.CountRequest) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if body.system is not None:
        messages.append({"role": "system", "content": _text(body.system)})
    for turn in body.messages:
        if isinstance(turn.content, str):
            messages.append({"role": turn.role, "content": turn.content})
        elif turn.role == "assistant":
            messages.append(_assistant(turn.content))
        else:
            for block in turn.content:
                if isinstance(block, own.ToolResultBlock):
                    tool = {
                        "role": "tool",
                        "tool_call_id": block.tool_use_id,
                        "content": _text(block.content),
                    }
                    messages.append(tool)
            if text := [block.text for block in turn.content if isinstance(block, own.TextBlock)]:
                messages.append({"role": "user", "content": "".join(text)})
    return messages


def _assistant(blocks: Sequence[own.Block]) -> dict[str, Any]:
    calls = [
        {"id": b.id, "type": "function", "function": {"name": b.name, "arguments": json.dumps(b.input)}}
        for b in blocks
        if isinstance(b, own.ToolUseBlock)
    ]
    thoughts = [block.thinking for block in blocks if isinstance(block, own.ThinkingBlock)]
    return {
        "role": "assistant",
        "content": "".join(block.text for block in blocks if isinstance(block, own.TextBlock)),
        "reasoning_content": "".join(thoughts) or None,
        "tool_calls": calls or None,
    }


def _usage(job: Job) -> dict[str, Any]:
    return {
        "input_tokens": job.usage.prompt - job.usage.cached,
        "cache_read_input_tokens": job.usage.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": job.usage.completion,
    }


def _ending(job: Job, finish: str) -> dict[str, Any]:
    hit = job.stops_hit.get(0)
    reason = "stop_sequence" if hit is not None else STOP_REASONS[finish]
    return {"stop_reason": reason, "stop_sequence": hit}


async def message_json(service: Service, job: Job, name: str) -> dict[str, Any]:
    """The answer as one object."""
    (choice,) = await collect(job, name, 1)
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "model": service.model_name(),
        "content": _blocks(choice),
        **_ending(job, choice.finish),
        "usage": _usage(job),
    }


def _blocks(choice: Choice) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if choice.reasoning:
        blocks.append({"type": "thinking", "thinking": choice.reasoning, "signature": ""})
    if choice.content or not choice.calls:
        blocks.append({"type": "text", "text": choice.content})
    for call in choice.calls:
        function = call["function"]
        try:
            arguments = json.loads(function["arguments"])
        except ValueError:  # cut off by max_tokens
            arguments = {}
        blocks.append({"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments})
    return blocks


class _Blocks:
    """The events of a stream's blocks, one open at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._index = -1
        self._kind: str | None = None

    def add(self, step: Step) -> list[Any]:
        events: list[Any] = []
        if step.said.reasoning:
            events += self._more("thinking", {"type": "thinking_delta", "thinking": step.said.reasoning})
        if step.said.content:
            events += self._more("text", {"type": "text_delta", "text": step.said.content})
        for part in step.said.calls:
            if part.name is not None:
                use = {
                    "type": "tool_use",
                    "id": f"{call_id(self._name, 0)}_{part.index}",
                    "name": part.name,
                    "input": {},
                }
                events += self._open("tool_use", use)
            if part.arguments:
                events += self._more("tool_use", {"type": "input_json_delta", "partial_json": part.arguments})
        return events

    def _more(self, kind: str, delta: dict[str, Any]) -> list[Any]:
        events = []
        if self._kind != kind:
            empty = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}}[kind]
            events = self._open(kind, {"type": kind, **empty})
        event = {"type": "content_block_delta", "index": self._index, "delta": delta}
        return [*events, (event["type"], event)]

    def _open(self, kind: str, block: dict[str, Any]) -> list[Any]:
        events = self.close()
        self._index += 1
        self._kind = kind
        event = {"type": "content_block_start", "index": self._index, "content_block": block}
        return [*events, (event["type"], event)]

    def close(self) -> list[Any]:
        if self._kind is None:
            return []
        self._kind = None
        return [("content_block_stop", {"type": "content_block_stop", "index": self._index})]


async def message_stream(service: Service, job: Job, name: str) -> AsyncIterator[Any]:
    """The answer as events; a ping is a sign of life."""
    start: dict[str, Any] = {
        "id": name,
        "type": "message",
        "role": "assistant",
        "model": service.model_name(),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**_usage(job), "input_tokens": len(job.prompts[0])},
    }
    yield "message_start", {"type": "message_start", "message": start}
    blocks, finish = _Blocks(name), "stop"
    async for step in job.steps():
        if step is None:
            yield "ping", {"type": "ping"}
            continue
        for event in blocks.add(step):
            yield event
        finish = step.finish or finish
    for event in blocks.close():
        yield event
    yield "message_delta", {"type": "message_delta", "delta": _ending(job, finish), "usage": _usage(job)}
    yield "message_stop", {"type": "message_stop"}
