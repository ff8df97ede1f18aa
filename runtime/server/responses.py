"""POST /v1/responses: translated to a chat, and back. Nothing is kept, so every request brings its conversation."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from krafla.runtime.server import schema
from krafla.runtime.server import schema_responses as own
from krafla.runtime.server.answer import TokenText
from krafla.runtime.server.chat import chat_job, chat_logprobs
from krafla.runtime.server.errors import renamed, translated
from krafla.runtime.server.jobs import Job, Step
from krafla.runtime.server.service import Service

#: The names that fields of a chat have here.
NAMES = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
}


async def response_job(service: Service, body: own.ResponsesRequest, name: str) -> Job:
    """The job of a response, started."""
    with renamed(NAMES):
        return await chat_job(service, as_chat(body), name)


def as_chat(body: own.ResponsesRequest) -> schema.ChatRequest:
    """The same request as a chat."""
    chosen = body.tool_choice
    return translated(
        {
            "model": body.model,
            "messages": _messages(body),
            "max_tokens": body.max_output_tokens,
            "temperature": body.temperature,
            "top_p": body.top_p,
            "logprobs": bool(body.include),
            "top_logprobs": body.top_logprobs,
            "tools": [_tool(tool) for tool in body.tools] if body.tools else None,
            "tool_choice": {"type": "function", "function": {"name": chosen.name}}
            if isinstance(chosen, own.NamedFunction)
            else chosen,
            "parallel_tool_calls": body.parallel_tool_calls,
            "response_format": _format(body.text),
            "reasoning_effort": body.reasoning.effort if body.reasoning else None,
        }
    )


def _tool(tool: own.ResponseTool) -> dict[str, Any]:
    return {"type": "function", "function": tool.model_dump(exclude={"type"})}


def _format(text: own.TextOptions | None) -> dict[str, Any] | None:
    if text is None or text.format is None:
        return None
    if isinstance(text.format, own.SchemaFormat):
        return {"type": "json_schema", "json_schema": {"schema": text.format.schema_}}
    return {"type": text.format.type}


def _text(content: str | Sequence[own.InputText]) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)


def _messages(body: own.ResponsesRequest) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if body.instructions is not None:
        messages.append({"role": "system", "content": body.instructions})
    items = [own.InputMessage(role="user", content=body.input)] if isinstance(body.input, str) else body.input
    thought: str | None = None
    for item in items:
        if isinstance(item, own.InputMessage):
            message: dict[str, Any] = {"role": item.role, "content": _text(item.content)}
            if item.role == "assistant":
                message["reasoning_content"], thought = thought, None
            messages.append(message)
        elif isinstance(item, own.InputReasoning):
            thought = "".join(part.text for part in item.content or ())
        elif isinstance(item, own.InputCallOutput):
            content = _text(item.output)
            messages.append({"role": "tool", "tool_call_id": item.call_id, "content": content})
        else:
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": None, "reasoning_content": thought})
                thought = None
            function = {"name": item.name, "arguments": item.arguments}
            calls = messages[-1].setdefault("tool_calls", [])
            calls.append({"id": item.call_id, "type": "function", "function": function})
    return messages


@dataclass
class _Output:
    """An item of the answer that is being made."""

    kind: str  # reasoning, message or function_call
    id: str
    text: str = ""
    name: str = ""
    tokens: list[TokenText] = field(default_factory=list)


class Writer:
    """Turns steps into events, and the items so far into the response."""

    def __init__(self, service: Service, job: Job, body: own.ResponsesRequest, name: str) -> None:
        self._service = service
        self._job = job
        self._body = body
        self._name = name
        self._created = int(time.time())
        self._outputs: list[_Output] = []
        self._sequence = 0
        self._reasoning_steps = 0
        self.finish: str | None = None

    def response(self, status: str) -> dict[str, Any]:
        """The whole object as it is now."""
        body = self._body
        incomplete = {"reason": "max_output_tokens"} if status == "incomplete" else None
        chosen = body.tool_choice
        running = status == "in_progress"
        text = body.text.model_dump(by_alias=True, exclude_none=True) if body.text else {}
        return {
            "id": self._name,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "model": self._service.model_name(),
            "system_fingerprint": self._service.loaded().fingerprint,
            "output": [self._item(i, "completed") for i in range(len(self._outputs))],
            "error": None,
            "incomplete_details": incomplete,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "previous_response_id": None,
            "reasoning": {"effort": body.reasoning.effort if body.reasoning else None, "summary": None},
            "store": False,
            "background": False,
            "temperature": self._service.options.temperature
            if body.temperature is None
            else body.temperature,
            "top_p": 1.0 if body.top_p is None else body.top_p,
            "text": {"format": {"type": "text"}, **text},
            "tool_choice": chosen.model_dump() if isinstance(chosen, own.NamedFunction) else chosen or "auto",
            "tools": [
                {"parameters": None, "strict": True, **t.model_dump(exclude_none=True)}
                for t in body.tools or ()
            ],
            "truncation": "disabled",
            "metadata": body.metadata or {},
            "user": body.user,
            "usage": None if running else self._usage(),
        }

    def _usage(self) -> dict[str, Any]:
        usage = self._job.usage
        return {
            "input_tokens": usage.prompt,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.completion,
            "output_tokens_details": {"reasoning_tokens": self._reasoning_steps},
            "total_tokens": usage.prompt + usage.completion,
        }

    def _item(self, index: int, status: str) -> dict[str, Any]:
        output = self._outputs[index]
        item: dict[str, Any] = {"id": output.id, "type": output.kind, "status": status}
        if output.kind == "function_call":
            return {
                **item,
                "call_id": output.id.replace("fc_", "call_", 1),
                "name": output.name,
                "arguments": output.text,
            }
        if output.kind == "reasoning":
            content = [{"type": "reasoning_text", "text": output.text}] if output.text else []
            return {**item, "summary": [], "content": content}
        content = [self._part(index)] if output.text or status == "completed" else []
        return {**item, "role": "assistant", "content": content}

    def _part(self, index: int) -> dict[str, Any]:
        output = self._outputs[index]
        logprobs = chat_logprobs(self._service, output.tokens) if self._body.include else []
        return {"type": "output_text", "text": output.text, "annotations": [], "logprobs": logprobs}

    def event(self, kind: str, **rest: Any) -> tuple[str, dict[str, Any]]:
        """The next event of a stream."""
        self._sequence += 1
        return kind, {"type": kind, "sequence_number": self._sequence - 1, **rest}

    def add(self, step: Step) -> list[tuple[str, dict[str, Any]]]:
        """Take a step; the events that it makes."""
        events: list[tuple[str, dict[str, Any]]] = []
        said = step.said
        if said.reasoning:
            self._reasoning_steps += 1
            events += self._more("reasoning", said.reasoning)
        if said.content:
            events += self._more("message", said.content, step.tokens)
        for part in said.calls:
            if part.name is not None:
                events += self._open("function_call", part.name)
            if part.arguments:
                events += self._more("function_call", part.arguments)
        if step.finish:
            events += self._close()
            self.finish = step.finish
            if not self._outputs:  # an empty answer is a message too
                events += self._open("message") + self._close()
        return events

    def _more(
        self, kind: str, text: str, tokens: Sequence[TokenText] = ()
    ) -> list[tuple[str, dict[str, Any]]]:
        events = []
        if not self._outputs or self._outputs[-1].kind != kind:
            events = self._open(kind)
        output = self._outputs[-1]
        output.text += text
        output.tokens += tokens
        where: dict[str, Any] = {"item_id": output.id, "output_index": len(self._outputs) - 1, "delta": text}
        if kind != "function_call":
            where["content_index"] = 0
        if kind == "message":
            where["logprobs"] = chat_logprobs(self._service, tokens) if self._body.include else []
        events.append(self.event(f"response.{_TEXT_EVENTS[kind]}.delta", **where))
        return events

    def _open(self, kind: str, name: str = "") -> list[tuple[str, dict[str, Any]]]:
        events = self._close()
        prefix = {"reasoning": "rs", "message": "msg", "function_call": "fc"}[kind]
        stem = self._name.partition("_")[2]
        self._outputs.append(_Output(kind, f"{prefix}_{stem}_{len(self._outputs)}", name=name))
        index = len(self._outputs) - 1
        item = self._item(index, "in_progress")
        events.append(self.event("response.output_item.added", output_index=index, item=item))
        if kind == "message":
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            events.append(self._part_event("added", index, part))
        return events

    def _part_event(self, what: str, index: int, part: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return self.event(
            f"response.content_part.{what}",
            item_id=self._outputs[index].id,
            output_index=index,
            content_index=0,
            part=part,
        )

    def _close(self) -> list[tuple[str, dict[str, Any]]]:
        """End the last item."""
        if not self._outputs or self.finish:
            return []
        index, output = len(self._outputs) - 1, self._outputs[-1]
        where: dict[str, Any] = {"item_id": output.id, "output_index": index}
        events = []
        done = f"response.{_TEXT_EVENTS[output.kind]}.done"
        if output.kind == "function_call":
            events.append(self.event(done, **where, name=output.name, arguments=output.text))
        elif output.kind == "reasoning":
            events.append(self.event(done, **where, content_index=0, text=output.text))
        else:
            part = self._part(index)
            events.append(
                self.event(done, **where, content_index=0, text=output.text, logprobs=part["logprobs"])
            )
            events.append(self._part_event("done", index, part))
        item = self._item(index, "completed")
        events.append(self.event("response.output_item.done", output_index=index, item=item))
        return events


_TEXT_EVENTS = {
    "reasoning": "reasoning_text",
    "message": "output_text",
    "function_call": "function_call_arguments",
}


async def response_json(service: Service, job: Job, body: own.ResponsesRequest, name: str) -> dict[str, Any]:
    """The answer as one object."""
    writer = Writer(service, job, body, name)
    async for step in job.steps():
        if step is not None:
            writer.add(step)
    return writer.response("incomplete" if writer.finish == "length" else "completed")


async def response_stream(
    service: Service, job: Job, body: own.ResponsesRequest, name: str
) -> AsyncIterator[Any]:
    """The answer as events; None is a sign of life."""
    writer = Writer(service, job, body, name)
    for kind in ("response.created", "response.in_progress"):
        yield writer.event(kind, response=writer.response("in_progress"))
    async for step in job.steps():
        if step is None:
            yield None
            continue
        for event in writer.add(step):
            yield event
    status = "incomplete" if writer.finish == "length" else "completed"
    yield writer.event(f"response.{status}", response=writer.response(status))
