"""A server for the page's tests: it speaks as much of the API as the page asks for, and says what a test wants."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "runtime" / "server" / "page"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# As strict as the page's own policy, and set by the header: what the page does must be possible under it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PROMPT_TOKENS = 20
MODELS = {"data": [{"id": "test-model", "meta": {"n_ctx": 2048}}]}
PROPS = {"default_generation_settings": {"params": {"temperature": 0.0, "max_tokens": None}}}


@dataclass
class Reply:
    """What the next answers are."""

    pieces: list[str] = field(default_factory=lambda: ["Hello", ", ", "world."])
    hold_after: int | None = None  # so many pieces, then wait for `release`
    cut: bool = False  # close the connection after the pieces, without an end
    status: int = 200
    message: str = ""
    retry_after: int | None = None
    error: str = ""  # as an event, after the pieces
    finish: str = "stop"
    thinking: list[str] = field(default_factory=list)


class PageServer(ThreadingHTTPServer):
    """Serves the page and scripted answers; `asked` has the bodies of all chat requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.reset()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def reset(self) -> None:
        """As it was at first."""
        self.reply = Reply()
        self.key: str | None = None
        self.state = "ready"
        self.asked: list[dict[str, Any]] = []
        self.release = threading.Event()
        self.client_left = threading.Event()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that closes a connection is no error."""


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: PageServer

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the tests' output is their own."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].lstrip("/") or "index.html"
        if path == "health":
            state = self.server.state
            body = {"error": {"message": "the model cannot be read", "code": state}}
            self.send_json(200 if state == "ready" else 503, body)
        elif path in ("v1/models", "props"):
            if self.allowed():
                self.send_json(200, MODELS if path == "v1/models" else PROPS)
        elif (file := PAGE / path).is_file():
            self.send_body(200, file.read_bytes(), TYPES[file.suffix])
        else:
            self.send_json(404, {"error": {"message": f"there is no {path}"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        if not self.allowed():
            return
        reply = self.server.reply
        if reply.status != 200:
            headers = {} if reply.retry_after is None else {"Retry-After": str(reply.retry_after)}
            self.send_json(reply.status, {"error": {"message": reply.message}}, headers)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for data in self.events(reply):
                self.wfile.write(f"data: {data}\n\n".encode())
                self.wfile.flush()
        except OSError:
            self.server.client_left.set()
        self.close_connection = True

    def events(self, reply: Reply) -> Iterator[str]:
        yield chunk({"role": "assistant", "content": ""})
        for piece in reply.thinking:
            yield chunk({"reasoning_content": piece})
        for count, piece in enumerate(reply.pieces):
            if count == reply.hold_after:
                self.wait()
            yield chunk({"content": piece})
        if reply.hold_after == len(reply.pieces):
            self.wait()
        if reply.error:
            yield json.dumps({"error": {"message": reply.error}})
        if reply.cut or reply.error:
            return
        yield chunk({}, reply.finish)
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": len(reply.pieces)}
        yield json.dumps({"choices": [], "usage": usage})
        yield "[DONE]"

    def wait(self) -> None:
        while not self.server.release.wait(0.02):
            self.wfile.write(b": keep-alive\n\n")
            self.wfile.flush()

    def allowed(self) -> bool:
        if self.server.key is None or self.headers.get("Authorization") == f"Bearer {self.server.key}":
            return True
        self.send_json(401, {"error": {"message": "this server needs its API key"}})
        return False

    def send_json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        self.send_body(status, json.dumps(value).encode(), "application/json", headers)

    def send_body(self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": POLICY,
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def chunk(delta: dict[str, str], finish: str | None = None) -> str:
    """One event of a streamed answer."""
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


if __name__ == "__main__":  # to look at the page by hand
    print(PageServer().url)
    time.sleep(1e6)
