"""The HTTP application: routes, errors and streams around a service."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse

from krafla import __version__
from krafla.runtime.server import chat, completions, embeddings, info, messages, responses, schema
from krafla.runtime.server.errors import ApiError, from_validation
from krafla.runtime.server.jobs import Gone, Job, as_api_error, while_connected
from krafla.runtime.server.middleware import Guard, HttpCounts, anthropic_body, error_response, is_anthropic
from krafla.runtime.server.schema_messages import CountRequest, MessagesRequest
from krafla.runtime.server.schema_responses import ResponsesRequest
from krafla.runtime.server.service import Service

log = logging.getLogger("krafla.server")
PAGE = Path(__file__).resolve().parent / "page"
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
CLIENT_CLOSED = 499


def create_app(service: Service) -> FastAPI:
    """The application; its lifespan starts and closes the service."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.close()

    counts = HttpCounts()
    guard = Middleware(Guard, keys=service.options.api_keys, max_body=service.options.max_body, counts=counts)
    outer = []
    if service.options.cors:
        outer.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(service.options.cors),
                allow_methods=["GET", "POST", "OPTIONS"],
                allow_headers=["*"],
                expose_headers=["x-request-id", "retry-after"],
            )
        )
    app = FastAPI(
        title="Krafla",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        middleware=[*outer, guard],
    )
    _add_errors(app)
    _add_chat(app, service)
    _add_completions(app, service)
    _add_others(app, service)
    _add_info(app, service, counts)
    _add_page(app)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The interface as a schema, with our errors in the place of FastAPI's."""
    if app.openapi_schema is None:
        described = FastAPI.openapi(app)
        text: dict[str, Any] = {"type": ["string", "null"]}
        fields = {"message": {"type": "string"}, "type": {"type": "string"}, "param": text, "code": text}
        error = {"type": "object", "properties": {"error": {"type": "object", "properties": fields}}}
        answer = {"description": "An error", "content": {"application/json": {"schema": error}}}
        for path in described["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
                operation["responses"]["default"] = answer
    assert app.openapi_schema is not None
    return app.openapi_schema


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> Response:
        return error_response(error, is_anthropic(request.scope))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return error_response(from_validation(error.errors(), error.body), is_anthropic(request.scope))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        sentences = {
            404: f"there is no {request.url.path}",
            405: f"{request.method} is not for {request.url.path}",
        }
        sentence = sentences.get(error.status_code, str(error.detail))
        wrong = ApiError(error.status_code, sentence, headers=error.headers)
        return error_response(wrong, is_anthropic(request.scope))

    @app.exception_handler(Gone)
    async def gone(request: Request, error: Gone) -> Response:
        return Response(status_code=CLIENT_CLOSED)


def answer_id(request: Request, prefix: str) -> str:
    """The id of an answer, which follows from the request's."""
    return prefix + str(request.scope["request_id"]).removeprefix("req-")


def note(request: Request, job: Job) -> None:
    """Put what a job did into the log line of its request."""
    request.scope["notes"].update(
        prompt_tokens=job.usage.prompt,
        cached_tokens=job.usage.cached,
        completion_tokens=job.usage.completion,
        finish=",".join(job.finishes.get(i, "cancelled") for i in range(job.count)),
    )


async def whole(request: Request, job: Job, work: Any) -> Response:
    """The answer as one JSON object, given up if the client leaves."""
    try:
        return JSONResponse(await while_connected(request, work))
    finally:
        job.cancel()
        note(request, job)


def stream(request: Request, job: Job, chunks: AsyncIterator[Any], done: bool = True) -> Response:
    """The answer as server-sent events: objects, or (event, object) pairs; None is a comment."""

    def failed(error: Exception) -> str:
        wrong = as_api_error(error)
        if wrong.status == 500:
            log.error("an answer failed", exc_info=error)
        if is_anthropic(request.scope):
            return _event(("error", anthropic_body(wrong)))
        # The form of /v1/responses has named events.
        return _event(wrong.body() if done else ("error", {"type": "error", **wrong.body()["error"]}))

    async def lines() -> AsyncIterator[str]:
        try:
            async for chunk in chunks:
                yield ": keep-alive\n\n" if chunk is None else _event(chunk)
        except Exception as error:
            yield failed(error)
        finally:
            job.cancel()  # first: a client that is gone cancels what is awaited here
            note(request, job)
            await chunks.aclose()  # type: ignore[attr-defined]
        if done:
            yield "data: [DONE]\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream", headers=STREAM_HEADERS)


def _event(chunk: Any) -> str:
    name, data = chunk if isinstance(chunk, tuple) else (None, chunk)
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n"


def _add_chat(app: FastAPI, service: Service) -> None:
    @app.post("/v1/chat/completions")
    async def chat_completions(body: schema.ChatRequest, request: Request) -> Response:
        name = answer_id(request, "chatcmpl-")
        job = await chat.chat_job(service, body, name)
        if body.stream:
            return stream(request, job, chat.chat_stream(service, job, body, name))
        return await whole(request, job, chat.chat_json(service, job, body, name))


def _add_completions(app: FastAPI, service: Service) -> None:
    @app.post("/v1/completions")
    async def text_completions(body: schema.CompletionRequest, request: Request) -> Response:
        name = answer_id(request, "cmpl-")
        job = await completions.completion_job(service, body, name)
        if body.stream:
            return stream(request, job, completions.completion_stream(service, job, body, name))
        return await whole(request, job, completions.completion_json(service, job, body, name))

    @app.post("/v1/embeddings")
    async def text_embeddings(body: schema.EmbeddingRequest, request: Request) -> Response:
        work = embeddings.embeddings(service, body, answer_id(request, "emb-"))
        return JSONResponse(await while_connected(request, work))


def _add_others(app: FastAPI, service: Service) -> None:
    @app.post("/v1/responses")
    async def model_responses(body: ResponsesRequest, request: Request) -> Response:
        name = answer_id(request, "resp_")
        job = await responses.response_job(service, body, name)
        if body.stream:
            chunks = responses.response_stream(service, job, body, name)
            return stream(request, job, chunks, done=False)
        return await whole(request, job, responses.response_json(service, job, body, name))

    @app.post("/v1/messages")
    async def model_messages(body: MessagesRequest, request: Request) -> Response:
        name = answer_id(request, "msg_")
        job = await messages.message_job(service, body, name)
        if body.stream:
            return stream(request, job, messages.message_stream(service, job, name), done=False)
        return await whole(request, job, messages.message_json(service, job, name))

    @app.post("/v1/messages/count_tokens")
    async def count_tokens(body: CountRequest) -> Response:
        return JSONResponse(await messages.count_tokens(service, body))


def _add_info(app: FastAPI, service: Service, counts: HttpCounts) -> None:
    @app.get("/health")
    async def health() -> Response:
        body, status = info.health(service)
        return JSONResponse(body, status, {"Retry-After": "2"} if body["status"] == "loading" else None)

    @app.get("/v1/models")
    async def models() -> Response:
        return JSONResponse({"object": "list", "data": [info.model_card(service)]})

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> Response:
        card = info.model_card(service)
        if name != card["id"]:
            raise ApiError(404, f"the model {name!r} is not here", "model", "model_not_found")
        return JSONResponse(card)

    @app.post("/tokenize")
    async def tokenize(body: schema.TokenizeRequest) -> Response:
        loaded = service.loaded()
        return JSONResponse(await service.prepare(lambda: info.tokenize(loaded, body)))

    @app.post("/detokenize")
    async def detokenize(body: schema.DetokenizeRequest) -> Response:
        loaded = service.loaded()
        return JSONResponse(await service.prepare(lambda: info.detokenize(loaded, body)))

    @app.post("/apply-template")
    async def apply_template(body: schema.TemplateRequest) -> Response:
        loaded = service.loaded()
        return JSONResponse(await service.prepare(lambda: info.apply_template(loaded, body)))

    @app.get("/props")
    async def props() -> Response:
        return JSONResponse(info.props(service))

    @app.get("/slots")
    async def slots() -> Response:
        return JSONResponse(info.slots(service))

    @app.get("/metrics")
    async def metrics() -> Response:
        return PlainTextResponse(info.metrics(service, counts), media_type="text/plain; version=0.0.4")


def _add_page(app: FastAPI) -> None:
    """Serve the page's files, and `/` as its index; each is a route of its own, so that 404 and 405 stay right."""
    for path in sorted(PAGE.rglob("*")):
        name = path.relative_to(PAGE).as_posix()
        if path.is_file() and not name.startswith((".", "__")):
            route = "/" if name == "index.html" else f"/{name}"
            app.add_api_route(route, _file(path), methods=["GET", "HEAD"], include_in_schema=False)


def _file(path: Path) -> Any:
    # The page's own policy is in index.html; this part of it counts only in a header.
    headers = {"Cache-Control": "no-cache", "Content-Security-Policy": "frame-ancestors 'none'"}

    async def send() -> Response:
        return FileResponse(path, headers=headers)

    return send
