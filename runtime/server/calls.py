"""Tool calls as the model families write them: how they are asked for, held to a schema, and read from a stream."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from krafla.runtime.server.errors import refuse

NEWLINE = "\n"
ANY_OBJECT: dict[str, Any] = {"type": "object"}


@dataclass(frozen=True)
class Tool:
    """A function that the model may call, and the JSON schema of its arguments."""

    name: str
    parameters: dict[str, Any]
    description: str | None = None

    def as_openai(self) -> dict[str, Any]:
        """The form that chat templates expect."""
        function: dict[str, Any] = {"name": self.name}
        if self.description is not None:
            function["description"] = self.description
        return {"type": "function", "function": {**function, "parameters": self.parameters}}


@dataclass(frozen=True)
class CallPart:
    """What became known of call number `index`: its name, or some more of its arguments (a piece of JSON)."""

    index: int
    name: str | None = None
    arguments: str = ""


class CallReader(Protocol):
    """Reads calls from text that comes in pieces; from the trigger on."""

    def push(self, text: str) -> list[CallPart]:
        """What the piece tells."""

    @property
    def rest(self) -> str | None:
        """None inside a call; after one, the text that followed it, which is not read yet."""


@dataclass(frozen=True)
class JsonCalls:
    """Calls as JSON objects between two marks: {"name": …, "arguments": {…}}.

    `opening` begins with `trigger`, the text by which a reader knows a call. With `listed` all calls are in
    one array. `between` stands between calls.
    """

    trigger: str
    opening: str
    closing: str
    arguments: str = "arguments"
    between: str = "\n"
    listed: bool = False
    leading: bool = False  # calls can only be the whole answer
    single: bool = False  # templates take no more than one

    def body(self, number: int, tool: Tool, rules: list[str]) -> str:
        """The name of the rule for a call of `tool`; adds rules."""
        start = quoted(f'{{"name": {json.dumps(tool.name)}, "{self.arguments}": ')
        schema = json_rule(tool.parameters, f"tools[{number}].function.parameters")
        rules.append(f'call_{number}: {start} {schema} "}}"')
        return f"call_{number}"

    def reader(self, index: int, tools: Sequence[Tool]) -> CallReader:
        """A reader for the call with that number and, if they are listed, those after it."""
        return _JsonReader(self, index)


@dataclass(frozen=True)
class XmlCalls:
    """Qwen3-Coder's and Qwen3.5's calls: <function=NAME> with one <parameter=NAME> per argument, values as text."""

    trigger: str = "<tool_call>"
    opening: str = "<tool_call>\n"
    closing: str = "\n</tool_call>"
    between: str = "\n"
    listed: bool = False
    leading: bool = False
    single: bool = False

    def body(self, number: int, tool: Tool, rules: list[str]) -> str:
        """The name of the rule for a call of `tool`; adds rules."""
        where = f"tools[{number}].function.parameters"
        parts = [quoted(f"<function={tool.name}>\n")]
        required = tool.parameters.get("required", [])
        for key in tool.parameters.keys() - {"type", "properties", "required", "description", "title"}:
            if key != "additionalProperties" and not key.startswith("$"):
                raise refuse(f"{where}.{key}", "cannot be enforced in this model's form of tool calls")
        for i, (name, schema) in enumerate(tool.parameters.get("properties", {}).items()):
            shared = {key: value for key, value in tool.parameters.items() if key.startswith("$")}
            value = _xml_value(schema, shared, f"{where}.properties.{name}")
            rules.append(f"call_{number}_{i}: {quoted(f'<parameter={name}>' + NEWLINE)} {value}")
            parts.append(f"call_{number}_{i}" + ("" if name in required else "?"))
        rules.append(f'call_{number}: {" ".join(parts)} "</function>"')
        return f"call_{number}"

    def reader(self, index: int, tools: Sequence[Tool]) -> CallReader:
        """A reader for the call with that number."""
        return _XmlReader(index, {tool.name: tool.parameters for tool in tools})


def _xml_value(schema: Any, shared: dict[str, Any], where: str) -> str:
    end = quoted("\n</parameter>\n")
    if isinstance(schema, dict) and schema.get("type") == "string":
        extra = schema.keys() - {"type", "description", "title", "default", "enum", "const", "examples"}
        if extra:
            raise refuse(f"{where}.{min(extra)}", "cannot be enforced in this model's form of tool calls")
        choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
        if choices:
            return f"({' | '.join(quoted(str(choice)) for choice in choices)}) {end}"
        return "xml_text"
    if isinstance(schema, dict):  # what it refers to is above it
        schema = {**shared, **schema}
    return f"{json_rule(schema, where)} {end}"


CallFormat = JsonCalls | XmlCalls
HERMES = JsonCalls("<tool_call>", "<tool_call>\n", "\n</tool_call>")
MISTRAL = JsonCalls("[TOOL_CALLS]", "[TOOL_CALLS][", "]", between=", ", listed=True)
LLAMA = JsonCalls('{"name": ', "", "", arguments="parameters", between="", leading=True, single=True)
QWEN_XML = XmlCalls()


def quoted(text: str) -> str:
    """A string of the grammar."""
    return json.dumps(text, ensure_ascii=False)


def json_rule(schema: Any, where: str) -> str:
    """A schema inside a grammar; whitespace is bounded, for small models like to go on with it."""
    if not isinstance(schema, dict):
        raise refuse(where, "must be an object")
    return "%json " + json.dumps({**schema, "x-guidance": {"whitespace_pattern": r"[ \n\t]{0,16}"}})


_HEAD = re.compile(
    r'\s*(?:\[\s*|[,;]\s*)?\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*'
)


@dataclass
class _JsonReader:
    """States: before a call's arguments, inside them, after them."""

    form: JsonCalls
    index: int
    rest: str | None = None
    _held: str = ""
    _state: str = "head"
    _depth: int = 0
    _in_string: bool = False
    _escaped: bool = False
    _started: bool = False

    def push(self, text: str) -> list[CallPart]:
        self._held += text
        parts: list[CallPart] = []
        while self.rest is None and getattr(self, f"_{self._state}")(parts):
            pass
        return parts

    def _head(self, parts: list[CallPart]) -> bool:
        self._strip_opening()
        found = _HEAD.match(self._held)
        if not found:
            return False
        parts.append(CallPart(self.index, json.loads(found[1])))
        self._held = self._held[found.end() :]
        self._state, self._depth = "value", 0
        return True

    def _strip_opening(self) -> None:
        if not self._started and self._held.startswith(self.form.trigger) and not self.form.leading:
            self._held = self._held[len(self.form.trigger) :]
            self._started = True

    def _value(self, parts: list[CallPart]) -> bool:
        if self._depth == 0:  # space before the value is not part of it
            self._held = self._held.lstrip()
        end = self._end_of_value()
        piece, self._held = self._held[:end], self._held[end:]
        if piece:
            parts.append(CallPart(self.index, arguments=piece))
        return self._state == "tail"

    def _end_of_value(self) -> int:
        for i, letter in enumerate(self._held):
            if self._in_string:
                if self._escaped:
                    self._escaped = False
                elif letter == "\\":
                    self._escaped = True
                elif letter == '"':
                    self._in_string = False
            elif letter == '"':
                self._in_string = True
            elif letter in "{[":
                self._depth += 1
            elif letter in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self._state = "tail"
                    return i + 1
        return len(self._held)

    def _tail(self, parts: list[CallPart]) -> bool:
        """What follows the arguments: `}`, then the closing mark or the next call."""
        text = self._held.lstrip()
        if not text:
            return False
        text = text[1:].lstrip() if text.startswith("}") else text
        closing = self.form.closing.strip()
        if closing:
            if text.startswith(closing):
                self.rest = text[len(closing) :]
                return True
            if self.form.listed and text.startswith(","):
                return self._next_call(text)
            return False
        return self._next_call(text) if text.startswith((";", ",")) else False

    def _next_call(self, text: str) -> bool:
        self._held, self._state, self.index = text, "head", self.index + 1
        return True


@dataclass
class _XmlReader:
    """A whole call at once: only its end tells that a value is complete."""

    index: int
    schemas: dict[str, dict[str, Any]]
    rest: str | None = None
    _held: str = ""

    def push(self, text: str) -> list[CallPart]:
        self._held += text
        before, closed, after = self._held.partition("</tool_call>")
        if not closed:
            return []
        self.rest = after
        named = re.search(r"<function=([^>]*)>", before)
        name = named[1] if named else ""
        properties = self.schemas.get(name, {}).get("properties", {})
        found = re.findall(r"<parameter=([^>]*)>\n(.*?)\n</parameter>", before, re.S)
        values = {key: _typed(properties.get(key), value) for key, value in found}
        arguments = json.dumps(values, ensure_ascii=False)
        return [CallPart(self.index, name), CallPart(self.index, arguments=arguments)]


def _typed(schema: Any, value: str) -> Any:
    if isinstance(schema, dict) and schema.get("type") == "string":
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value
