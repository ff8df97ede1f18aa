"""What goes wrong over HTTP, in OpenAI's shape: {"error": {message, type, param, code}}."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from krafla.runtime.server.request import ContextOverflow, NotReady, QueueFull
from krafla.runtime.server.schema import ChatRequest
from krafla.tools.errors import KraflaError, UsageError

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    503: "unavailable_error",
}


class ApiError(Exception):
    """An answer that is an error: HTTP status, sentence, the field at fault and a code for programs."""

    def __init__(
        self,
        status: int,
        message: str,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    @property
    def type(self) -> str:
        """The kind of error, in OpenAI's words."""
        return TYPES.get(self.status, "server_error")

    def body(self) -> dict[str, Any]:
        """The JSON that the client gets."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


def refuse(param: str, message: str, code: str | None = None) -> ApiError:
    """A 400 about one field, whose name the sentence begins with."""
    return ApiError(400, f"{param}: {message}", param, code)


@contextmanager
def renamed(names: Mapping[str, str]) -> Iterator[None]:
    """Errors from inside the block name the fields of another interface: {what is known inside: its name outside}."""
    try:
        yield
    except ApiError as error:
        for inside, outside in names.items():
            if error.param is not None and re.match(rf"{inside}(?![a-z_])", error.param):
                error.param = outside + error.param[len(inside) :]
                error.message = re.sub(rf"^{inside}(?![a-z_])", outside, error.message)
                error.args = (error.message,)
        raise


def translated(fields: dict[str, Any]) -> ChatRequest:
    """A chat made of another interface's fields; ApiError if they do not go together."""
    try:
        return ChatRequest.model_validate(fields)
    except ValidationError as error:
        located = [{**entry, "loc": ("body", *entry["loc"])} for entry in error.errors()]
        raise from_validation(located, fields) from error


def from_core(error: KraflaError, prompt_field: str = "messages") -> ApiError:
    """What the scheduler or the engine refused; the prompt came from `prompt_field`."""
    if isinstance(error, ContextOverflow):
        sentence = (
            f"This model's maximum context length is {error.context} tokens, "
            f"but {prompt_field} makes a prompt of {error.tokens} tokens"
        )
        return ApiError(400, sentence, prompt_field, "context_length_exceeded")
    if isinstance(error, QueueFull):
        wait = {"Retry-After": str(max(1, round(error.retry_after)))}
        return ApiError(429, error.message, code="queue_full", headers=wait)
    if isinstance(error, NotReady):
        return ApiError(503, error.message, code="not_ready", headers={"Retry-After": "2"})
    if isinstance(error, UsageError):
        return ApiError(400, error.message, prompt_field)
    return ApiError(500, error.message)


def from_validation(errors: Sequence[Any], body: Any) -> ApiError:
    """The 400 for a body that does not fit its schema: it names the field that is most at fault."""
    if any(error["type"] == "json_invalid" for error in errors):
        detail = next(error for error in errors if error["type"] == "json_invalid")["ctx"]["error"]
        return ApiError(400, f"the body is not JSON: {detail}", code="invalid_json")
    # A value may be tried as several types: the error deepest in it is of the type that was meant.
    located = [(_path(error, body), error) for error in errors]
    path, error = max(located, key=lambda pair: len(pair[0]))
    alternatives = [e for p, e in located if p == path]
    name = _name(path)
    if error["type"] == "value_error":
        name = _name([*path, getattr(error["ctx"]["error"], "param", None) or ""])
    if error["type"] == "extra_forbidden":
        return ApiError(
            400,
            f"{name}: no such field here, or one that this server does not support",
            name,
            "unknown_field",
        )
    if not path and error["type"] != "value_error":
        sentence = "the body must be a JSON object, with the header content-type: application/json"
        return ApiError(400, sentence, code="invalid_json")
    sentence = " or ".join(dict.fromkeys(_sentence(e) for e in alternatives))
    return ApiError(400, f"{name or 'the body'}: {sentence}", name or None, "invalid_value")


def _path(error: Any, body: Any) -> list[str | int]:
    """The error's place in the body, without pydantic's words for the types that it tried."""
    path: list[str | int] = []
    at, (source, *location) = body, error["loc"]
    if source != "body":
        return [str(piece) for piece in location] or [str(source)]
    last = len(location) - 1
    for i, piece in enumerate(location):
        if _has(at, piece):
            path.append(piece)
            at = at[piece]
        elif i == last and error["type"] == "missing":
            path.append(piece)
    if error["type"].startswith("union_tag"):
        path.append(error["ctx"]["discriminator"].strip("'"))
    return path


def _has(at: Any, piece: str | int) -> bool:
    if isinstance(piece, int):
        return isinstance(at, list) and piece < len(at)
    return isinstance(at, dict) and piece in at


def _name(path: Sequence[str | int]) -> str:
    parts = [f"[{piece}]" if isinstance(piece, int) else f".{piece}" for piece in path]
    return "".join(parts).strip(".")


def _sentence(error: Any) -> str:
    if error["type"] == "missing":
        return "is missing"
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    return f"{error['msg'][0].lower()}{error['msg'][1:]}"
