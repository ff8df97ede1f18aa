"""Chat templates: the Jinja text beside a model, rendered in a sandbox."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from krafla.tools.errors import FormatError

Message = Mapping[str, Any]


def render(template: str, messages: Sequence[Message], bos: str = "", eos: str = "", **variables: Any) -> str:
    """The prompt that asks the model for the next message of the conversation."""
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _now
    values = {"add_generation_prompt": True, **variables}
    try:
        compiled = environment.from_string(template)
        return compiled.render(messages=messages, bos_token=bos, eos_token=eos, **values)
    except (TemplateError, TypeError, ValueError) as error:
        raise FormatError(f"the chat template cannot be rendered: {error}") from error


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    from jinja2 import TemplateError

    raise TemplateError(message)


def _now(layout: str) -> str:
    return datetime.now().astimezone().strftime(layout)
