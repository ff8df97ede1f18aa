"""What a model's chat template can do, found out by rendering it: tools, calls, system messages, thoughts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from krafla.runtime.server.answer import THINK
from krafla.runtime.server.calls import HERMES, LLAMA, MISTRAL, QWEN_XML, CallFormat, Tool
from krafla.runtime.server.errors import refuse
from krafla.runtime.server.grammar import Thinking
from krafla.tools.chat_template import RESERVED, ChatTemplate
from krafla.tools.errors import FormatError

#: The variables in which templates take tools; SmolLM3 has another name for them.
TOOL_VARIABLES = ("tools", "xml_tools")
_PROBE = Tool("probe", {"type": "object", "properties": {"city": {"type": "string"}}}, "probes")
_CALL = {"name": "probe", "arguments": {"city": "Paris"}}
_WRITTEN: tuple[tuple[str, CallFormat], ...] = (
    ('[TOOL_CALLS][{"name": "probe", "arguments": {"city": "Paris"}', MISTRAL),
    ('[TOOL_CALLS] [{"name": "probe", "arguments": {"city": "Paris"}', MISTRAL),
    (
        "<tool_call>\n<function=probe>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>",
        QWEN_XML,
    ),
    ('<tool_call>\n{"name": "probe", "arguments": {"city": "Paris"}}\n</tool_call>', HERMES),
    ('{"name": "probe", "parameters": {"city": "Paris"}}', LLAMA),
)
_HERMES_PROMPT = """You can call functions. The functions are described in <tools></tools> as JSON:
<tools>
{tools}
</tools>
For each call, answer with a JSON object with the function's name and arguments within <tool_call></tool_call>:
<tool_call>
{{"name": "function's name", "arguments": {{"argument": "value"}}}}
</tool_call>"""


@dataclass(frozen=True)
class ChatFormat:
    """A template and how it is used.

    `tools` is the variable that takes tools; None: it has none, and the server tells the model of them. `calls`
    is how the model calls; None: in a way that is not known. `writes_calls` and `writes_system` say whether the
    template takes tool calls and their results, and a system message.
    """

    template: ChatTemplate
    tools: str | None
    calls: CallFormat | None
    writes_calls: bool
    writes_system: bool

    @classmethod
    def of(cls, template: ChatTemplate) -> ChatFormat:
        """Find out what the template can do; FormatError if it cannot ask for an answer."""
        template.check()
        tools = next((name for name in TOOL_VARIABLES if name in template.variables), None)
        system = _renders(template, [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}])
        if tools is None:
            return cls(template, None, HERMES, False, system)
        asked: list[dict[str, Any]] = [{"role": "user", "content": "U"}]
        call = {"id": "abcdefghi", "type": "function", "function": _CALL}
        called = {"role": "assistant", "content": "", "tool_calls": [call]}
        text = _try(
            template, [*asked, called, {"role": "tool", "tool_call_id": "abcdefghi", "content": "R"}], tools
        )
        for written, form in _WRITTEN:
            if written in (text or ""):
                return cls(template, tools, form, True, system)
        offered = _try(template, asked, tools) or ""
        # It tells how to call, but does not repeat calls.
        known = "Paris" not in (text or "") and "<tool_call>\n{" in offered and '"arguments"' in offered
        return cls(template, tools, HERMES if known else None, False, system)

    def thinking(self, prompt: str) -> Thinking:
        """Whether the answer to a prompt begins with thoughts."""
        if THINK not in self.template.source:
            return "no"
        return "open" if prompt.rstrip().endswith(THINK) else "may"

    @property
    def variables(self) -> list[str]:
        """The variables that requests may set."""
        return sorted(self.template.variables - RESERVED - set(TOOL_VARIABLES))

    def values(self, given: dict[str, Any] | None, effort: str | None) -> dict[str, Any]:
        """The variables that a request sets; ApiError names one that the template does not have."""
        values = dict(given or {})
        for name in values:
            if name not in self.variables:
                listed = ", ".join(self.variables) or "none"
                raise refuse(
                    f"chat_template_kwargs.{name}", f"is no variable of the chat template ({listed})"
                )
        if effort is not None:
            if "reasoning_effort" in self.variables:
                values.setdefault("reasoning_effort", effort)
            elif "enable_thinking" in self.variables:
                values.setdefault("enable_thinking", effort not in ("none", "minimal"))
            else:
                raise refuse("reasoning_effort", "this model's chat template does not know it")
        return values

    def render(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[Tool], variables: dict[str, Any]
    ) -> str:
        """The prompt; ApiError if the template refuses the conversation."""
        plain = list(messages)
        if self.calls is MISTRAL:  # its template insists on the form of ids
            plain = [_with_short_ids(message) for message in plain]
        if not self.writes_calls:
            plain = [_as_text(message) for message in plain]
        if self.tools is None and tools:
            plain = self._told(plain, tools)
        elif self.tools is not None:
            variables = {**variables, self.tools: [tool.as_openai() for tool in tools] or None}
        try:
            return self.template.render(plain, **variables)
        except FormatError as error:
            raise refuse("messages", error.message, "template_error") from error

    def _told(self, messages: list[dict[str, Any]], tools: Sequence[Tool]) -> list[dict[str, Any]]:
        """The conversation with a description of the tools before it."""
        listed = "\n".join(json.dumps(tool.as_openai(), ensure_ascii=False) for tool in tools)
        prompt = _HERMES_PROMPT.format(tools=listed)
        place = "system" if self.writes_system else "user"
        if messages[0]["role"] != place:
            return [{"role": place, "content": prompt}, *messages]
        text = [messages[0]["content"], prompt] if place == "system" else [prompt, messages[0]["content"]]
        return [{**messages[0], "content": "\n\n".join(text)}, *messages[1:]]


def _try(template: ChatTemplate, messages: Sequence[dict[str, Any]], tools: str) -> str | None:
    try:
        return template.render(messages, **{tools: [_PROBE.as_openai()]})
    except FormatError:
        return None


def _renders(template: ChatTemplate, messages: Sequence[dict[str, Any]]) -> bool:
    try:
        template.render(messages)
    except FormatError:
        return False
    return True


def _as_text(message: dict[str, Any]) -> dict[str, Any]:
    """Calls and their results as text, in Hermes' form."""
    if message["role"] == "tool":
        return {"role": "user", "content": f"<tool_response>\n{message['content']}\n</tool_response>"}
    plain = {key: value for key, value in message.items() if key != "tool_calls"}
    if calls := message.get("tool_calls"):
        written = [json.dumps(call["function"], ensure_ascii=False) for call in calls]
        texts = [f"<tool_call>\n{text}\n</tool_call>" for text in written]
        plain["content"] = "\n".join([*filter(None, [message["content"]]), *texts])
    return plain


def _with_short_ids(message: dict[str, Any]) -> dict[str, Any]:
    changed = dict(message)
    if "tool_call_id" in message:
        changed["tool_call_id"] = _short(message["tool_call_id"])
    if "tool_calls" in message:
        changed["tool_calls"] = [{**call, "id": _short(call["id"])} for call in message["tool_calls"]]
    return changed


def _short(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:9]
