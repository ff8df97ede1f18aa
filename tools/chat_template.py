"""Chat templates: the Jinja text beside a model, compiled once and rendered in a sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from krafla.tools.errors import FormatError

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

Message = Mapping[str, Any]
Result = TypeVar("Result")

#: What the renderer gives itself, so that nobody else may.
RESERVED = frozenset(
    [
        "messages",
        "tools",
        "bos_token",
        "eos_token",
        "add_generation_prompt",
        "raise_exception",
        "strftime_now",
    ]
)
_PROBE = ({"role": "user", "content": "Hello"},)


class ChatTemplate:
    """A template that compiles, and that renders a conversation of one message; `where` is named in errors."""

    def __init__(self, source: str, bos: str = "", eos: str = "", where: str = "") -> None:
        self.source = source
        self._bos, self._eos = bos, eos
        self._where = f"{where}: " if where else ""
        self._template = self._guard("compiled")(lambda: _environment().from_string(source))

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names that the template looks up and does not set itself."""
        from jinja2 import meta

        return frozenset(meta.find_undeclared_variables(_environment().parse(self.source)))

    def render(self, messages: Sequence[Message], **variables: Any) -> str:
        """The prompt that asks the model for the next message of the conversation."""
        values = {"add_generation_prompt": True, "bos_token": self._bos, "eos_token": self._eos, **variables}
        return self._guard("rendered")(lambda: self._template.render(messages=messages, **values))

    def check(self) -> ChatTemplate:
        """Raise FormatError unless it can ask for the answer to a single message."""
        if not self.render(_PROBE).strip():
            raise FormatError(f"{self._where}the chat template makes nothing of a message")
        return self

    def _guard(self, done: str) -> Callable[[Callable[[], Result]], Result]:
        from jinja2 import TemplateError

        # A template is a program: what it does with values of another type fails in many ways.
        failures = (
            TemplateError,
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        )

        def run(work: Callable[[], Result]) -> Result:
            try:
                return work()
            except failures as error:
                sentence = f"the chat template cannot be {done}: {str(error) or type(error).__name__}"
                raise FormatError(self._where + sentence) from error

        return run


def _environment() -> ImmutableSandboxedEnvironment:
    from jinja2 import nodes
    from jinja2.ext import Extension
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}` marks the assistant's words for training; here it changes nothing."""

        tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _now
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _refuse(message: str) -> NoReturn:
    from jinja2 import TemplateError

    raise TemplateError(message)


def _now(layout: str) -> str:
    return datetime.now().astimezone().strftime(layout)
