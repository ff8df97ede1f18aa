"""The small endpoints: health, models, tokens, templates, properties, slots and metrics."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from krafla import __version__
from krafla.runtime.server import schema
from krafla.runtime.server.chat import chat_format, template_messages, tools_of
from krafla.runtime.server.errors import ApiError, refuse
from krafla.runtime.server.middleware import HttpCounts
from krafla.runtime.server.service import Loaded, Service
from krafla.runtime.server.statistics import BOUNDS, Counters, Histogram
from krafla.runtime.server.templates import ChatFormat


def health(service: Service) -> tuple[dict[str, Any], int]:
    """What /health says, and its status."""
    state = service.state
    if state == "ready":
        return {"status": "ok"}, 200
    message = service.error or f"the model is {state}"
    return {"status": state, **ApiError(503, message, code=state).body()}, 503


def model_card(service: Service) -> dict[str, Any]:
    """The loaded model, as lists of models show it."""
    loaded = service.loaded()
    config = loaded.model.config
    meta = {
        "n_ctx": config.context,
        "n_ctx_train": config.max_seq,
        "n_vocab": config.vocab,
        "n_embd": config.dim,
        "size": config.file_bytes,
    }
    return {
        "id": service.model_name(),
        "object": "model",
        "created": loaded.created,
        "owned_by": "krafla",
        "meta": meta,
    }


def tokenize(loaded: Loaded, body: schema.TokenizeRequest) -> dict[str, Any]:
    """The tokens of a text."""
    tokenizer = loaded.tokenizer
    if body.add_special and tokenizer.bos < 0:
        raise refuse("add_special", "this model has no begin-of-text token")
    ids = tokenizer.encode(body.content, bos=bool(body.add_special), added=body.parse_special is not False)
    if not body.with_pieces:
        return {"tokens": ids}
    return {"tokens": [{"id": i, "piece": _piece(loaded.vocabulary.pieces[i])} for i in ids]}


def _piece(data: bytes) -> str | list[int]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)


def detokenize(loaded: Loaded, body: schema.DetokenizeRequest) -> dict[str, Any]:
    """The text of tokens."""
    tokenizer = loaded.tokenizer
    for i, token in enumerate(body.tokens):
        if token >= tokenizer.vocab:
            raise refuse(f"tokens[{i}]", f"is {token}, this model has tokens 0 to {tokenizer.vocab - 1}")
    return {"content": tokenizer.decode(body.tokens)}


def apply_template(loaded: Loaded, body: schema.TemplateRequest) -> dict[str, Any]:
    """The prompt that a chat would make."""
    chat = chat_format(loaded)
    variables = chat.values(body.chat_template_kwargs, body.reasoning_effort)
    return {"prompt": chat.render(template_messages(body.messages), tools_of(body.tools), variables)}


def props(service: Service) -> dict[str, Any]:
    """How the server is set up."""
    loaded, options = service.loaded(), service.options
    chat = loaded.chat
    return {
        "build_info": f"krafla {__version__}",
        "model_alias": service.model_name(),
        "system_fingerprint": loaded.fingerprint,
        "total_slots": options.scheduler.parallel,
        "default_generation_settings": {
            "n_ctx": loaded.model.config.context,
            "params": {"temperature": options.temperature, "max_tokens": options.max_tokens},
        },
        "isa": loaded.model.isa,
        "threads": loaded.model.config.threads,
        "kv": options.scheduler.kv,
        "bos_token": loaded.tokenizer.bos,
        "eos_tokens": sorted(loaded.tokenizer.eos),
        "chat_template": chat.template.source if chat else None,
        "chat_template_variables": chat.variables if chat else [],
        # Where the model is told of tools: by its template, or by the server.
        "tools": _tools_note(chat),
    }


def _tools_note(chat: ChatFormat | None) -> str | None:
    if chat is None or chat.calls is None:
        return None
    if chat.tools is not None:
        return "template"
    return "system message" if chat.writes_system else "first message"


def slots(service: Service) -> list[dict[str, Any]]:
    """What runs right now."""
    service.loaded()
    assert service.scheduler is not None
    return [asdict(slot) for slot in service.scheduler.snapshot().slots]


def metrics(service: Service, http: HttpCounts) -> str:
    """Everything that is counted, in the text form of Prometheus."""
    page = _Page()
    page.add("up", "gauge", "1 if the model is loaded", [({}, int(service.state == "ready"))])
    page.add("uptime_seconds", "gauge", "since the start", [({}, round(time.time() - service.started, 3))])
    answered = [
        ({"path": path, "method": method, "status": str(status)}, count)
        for (path, method, status), count in sorted(http.requests.items())
    ]
    page.add("http_requests_total", "counter", "HTTP requests that were answered", answered)
    page.add("http_requests_active", "gauge", "HTTP requests being answered", [({}, http.active)])
    if service.scheduler is not None:
        _scheduler_metrics(page, service)
    return page.text()


_GAUGES = {
    "waiting": ("queue_waiting", "requests in the queue"),
    "queue": ("queue_limit", "requests that the queue holds"),
    "parallel": ("slots", "requests that can run at once"),
    "pages": ("kv_pages", "pages of KV memory, of 64 positions"),
    "pages_used": ("kv_pages_used", "of these, in use by requests or the prefix cache"),
    "pages_cached": ("kv_pages_cached", "of these, held by the prefix cache"),
}
_COUNTERS = {
    "submitted": ("requests_submitted_total", "requests that came into the queue"),
    "rejected": ("requests_rejected_total", "requests that the full queue refused"),
    "prompt_tokens": ("prompt_tokens_total", "tokens of prompts"),
    "cached_tokens": ("cached_tokens_total", "of these, taken from the prefix cache"),
    "completion_tokens": ("completion_tokens_total", "tokens of answers"),
    "steps": ("steps_total", "forward steps"),
    "rows": ("rows_total", "tokens that went through the model"),
    "preemptions": ("preemptions_total", "requests that lost their memory for a while"),
    "evicted_pages": ("evicted_pages_total", "pages that the prefix cache gave up"),
    "drafted": ("drafted_tokens_total", "tokens that speculation proposed"),
    "accepted": ("accepted_tokens_total", "of these, those that were right"),
}
_HISTOGRAMS = {
    "first_token": ("time_to_first_token_seconds", "from a request to its first token"),
    "per_token": ("time_per_token_seconds", "between the tokens of an answer"),
}


def _scheduler_metrics(page: _Page, service: Service) -> None:
    assert service.scheduler is not None
    state = service.scheduler.snapshot()
    for name, (metric, text) in _GAUGES.items():
        page.add(metric, "gauge", text, [({}, getattr(state, name))])
    page.add("slots_busy", "gauge", "requests that run", [({}, len(state.slots))])
    counters: Counters = state.counters
    finished = [({"reason": reason}, count) for reason, count in sorted(counters.finished.items())]
    page.add("requests_finished_total", "counter", "requests that ended, by reason", finished)
    known = {field.name for field in fields(counters)}
    for name, (metric, text) in _COUNTERS.items():
        if name in known:
            page.add(metric, "counter", text, [({}, getattr(counters, name))])
    for name, (metric, text) in _HISTOGRAMS.items():
        page.histogram(metric, text, getattr(counters, name))


class _Page:
    """Lines of metrics."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, name: str, kind: str, text: str, samples: Sequence[tuple[dict[str, str], float]]) -> None:
        self._lines += [f"# HELP krafla_{name} {text}", f"# TYPE krafla_{name} {kind}"]
        self._lines += [f"krafla_{name}{_labels(labels)} {value}" for labels, value in samples]

    def histogram(self, name: str, text: str, values: Histogram) -> None:
        total, samples = 0, []
        for bound, count in zip([*map(str, BOUNDS), "+Inf"], values.counts, strict=True):
            total += count
            samples.append(f'krafla_{name}_bucket{{le="{bound}"}} {total}')
        self._lines += [f"# HELP krafla_{name} {text}", f"# TYPE krafla_{name} histogram", *samples]
        self._lines += [f"krafla_{name}_sum {values.total}", f"krafla_{name}_count {total}"]

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
