"""What happens around every request: its id, the key, the size of its body, the log and the counts."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from krafla.runtime.server.errors import ApiError

log = logging.getLogger("krafla.access")
#: How long a body may take to arrive.
BODY_SECONDS = 60
_ID = re.compile(r"[\x21-\x7e]{1,128}")


@dataclass
class HttpCounts:
    """Requests that were answered, by path, method and status."""

    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    active: int = 0


def error_response(error: ApiError, anthropic: bool = False) -> JSONResponse:
    """The error as an answer; Anthropic's clients expect another shape."""
    body = anthropic_body(error) if anthropic else error.body()
    return JSONResponse(body, error.status, error.headers)


def anthropic_body(error: ApiError) -> dict[str, Any]:
    """The error in Anthropic's shape."""
    return {"type": "error", "error": {"type": error.type, "message": error.message}}


def is_anthropic(scope: Scope) -> bool:
    """Whether a request speaks Anthropic's language."""
    return str(scope["path"]).startswith("/v1/messages")


class Guard:
    """An ASGI middleware: gives ids, asks for the key, reads bodies up to a limit, logs and counts.

    What endpoints put into scope["notes"] (tokens, reasons) goes into the log line.
    """

    def __init__(self, app: ASGIApp, keys: tuple[str, ...], max_body: int, counts: HttpCounts) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]
        self._max_body = max_body
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        scope["request_id"] = given if _ID.fullmatch(given) else f"req-{uuid.uuid4().hex}"
        scope["notes"] = {}
        status, started = 0, time.perf_counter()

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = scope["request_id"]
                headers["x-content-type-options"] = "nosniff"
            await send(message)

        self._counts.active += 1
        try:
            self._check_key(scope)
            body = await self._timely_body(scope, receive)
            await self._app(scope, _replay(body, receive), answer)
        except ApiError as error:
            await error_response(error, is_anthropic(scope))(scope, receive, answer)
        except Exception as error:
            if status:
                raise
            log.exception("%s %s failed", scope["method"], scope["path"])
            wrong = ApiError(500, f"internal error: {type(error).__name__}")
            await error_response(wrong, is_anthropic(scope))(scope, receive, answer)
        finally:
            self._counts.active -= 1
            self._note(scope, status, time.perf_counter() - started)

    def _check_key(self, scope: Scope) -> None:
        public = scope["path"] == "/health" or scope.get("public") or not _is_api(scope["path"])
        if not self._keys or public:
            return
        headers = Headers(scope=scope)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        # Every key is compared, so that the time tells nothing.
        if not sum(hmac.compare_digest(given.encode(), key) for key in self._keys):
            sentence = "the API key is missing or wrong (Authorization: Bearer KEY, or x-api-key: KEY)"
            raise ApiError(401, sentence, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})

    async def _timely_body(self, scope: Scope, receive: Receive) -> bytes:
        try:
            return await asyncio.wait_for(self._body(scope, receive), BODY_SECONDS)
        except asyncio.TimeoutError as error:
            sentence = f"the body did not come within {BODY_SECONDS} seconds"
            raise ApiError(408, sentence, code="timeout", headers={"Connection": "close"}) from error

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        declared = Headers(scope=scope).get("content-length", "0")
        if declared.isdecimal() and int(declared) > self._max_body:
            raise self._too_large()
        parts, size, more = [], 0, scope["method"] not in ("GET", "HEAD", "OPTIONS")
        while more:
            message = await receive()
            if message["type"] != "http.request":
                break
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._max_body:
                raise self._too_large()
            more = message.get("more_body", False)
        body = b"".join(parts)
        if b"\\ud" in body or b"\\uD" in body:
            _check_surrogates(body)
        return body

    def _too_large(self) -> ApiError:
        return ApiError(413, f"the body is larger than {self._max_body} bytes", code="body_too_large")

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = scope.get("route")
        path = getattr(route, "path", None) or "other"
        self._counts.requests[path, scope["method"], status] += 1
        notes: dict[str, Any] = {
            "request_id": scope["request_id"],
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "seconds": round(seconds, 4),
            **scope["notes"],
        }
        log.info("%s %s %d", scope["method"], scope["path"], status, extra={"notes": notes})


def _is_api(path: str) -> bool:
    return path.startswith("/v1/") or path in PROTECTED


#: Paths outside /v1/ that need the key; the page's own files and /health do not.
PROTECTED = frozenset(
    ("/tokenize", "/detokenize", "/apply-template", "/props", "/metrics", "/slots", "/openapi.json")
)


def _check_surrogates(body: bytes) -> None:
    """ApiError for half a character (a lone \\ud800): no answer could repeat it."""
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ApiError(400, "the body has half a surrogate pair in a string", code="invalid_json") from error
    except (ValueError, RecursionError):
        return  # what else is wrong is said where it is read


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replay


class JsonLines(logging.Formatter):
    """Log lines as JSON objects."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "notes", {}),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


class PlainLines(logging.Formatter):
    """Log lines for people."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback if there is one."""
        when = time.strftime("%H:%M:%S", time.localtime(record.created))
        notes = getattr(record, "notes", {})
        shown = {key: value for key, value in notes.items() if key not in ("method", "path", "status")}
        line = " ".join([when, record.getMessage(), *(f"{key}={value}" for key, value in shown.items())])
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line
