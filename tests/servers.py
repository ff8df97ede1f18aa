"""Live servers for tests, over the real scheduler or over one that says what the test tells it to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn

from krafla.runtime.model import Model
from krafla.runtime.server.app import create_app
from krafla.runtime.server.request import (
    ContextOverflow,
    Embedding,
    Finished,
    NotReady,
    PromptLogprobs,
    QueueFull,
    Request,
    Started,
    Ticket,
    Token,
    TokenLogprob,
)
from krafla.runtime.server.scheduler import SchedulerOptions
from krafla.runtime.server.service import Service, ServiceOptions
from krafla.runtime.server.statistics import Counters, Slot, Snapshot
from krafla.tools import mlt
from krafla.tools.gen_random import write_random
from tests.models import header

ADDED = ("<|start|>", "<|end|>", "<|stop|>", "<think>", "</think>", "<tool_call>", "</tool_call>")
STOP = 258
#: Templates of the families, as short as they can be.
PLAIN = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
_TOOLS = "{% if tools %}<|start|>system\n{{ tools | tojson }}<|end|>{% endif %}"
_CALLS = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}"
    "CALL{% endfor %}<|end|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def _family(call: str) -> str:
    return _TOOLS + _CALLS.replace("CALL", call)


HERMES = _family("<tool_call>\n{{ c.function | tojson }}\n</tool_call>")
THINKING = HERMES + "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
QWEN_XML = _family(
    "<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments.items() %}<parameter={{ k }}>\n"
    "{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>"
)
LLAMA = _family('{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}')
MISTRAL = _family(
    "{% if c.id | length != 9 %}{{ raise_exception('id') }}{% endif %}[TOOL_CALLS][{{ c.function | tojson }}]"
)
UNKNOWN = _family("<call>{{ c.function.name }}{{ c.function.arguments.city }}</call>")
#: SmolLM3: its own name for tools, and no way to write calls. Gemma: no system message.
SMOLLM3 = (
    _TOOLS.replace("tools", "xml_tools")
    + PLAIN
    + '{# #}{% if xml_tools %}<tool_call>\n{"arguments"{% endif %}'
)
GEMMA = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + PLAIN


def small(folder: Path, template: str | None = PLAIN) -> Path:
    """A random model of 256 bytes and the added tokens."""
    path = folder / "small.mlb"
    write_random(path, header("llama", max_seq=2048), 0)
    tokens = [mlt.Token(bytes([byte])) for byte in range(256)]
    tokens += [mlt.Token(text.encode(), mlt.ADDED) for text in ADDED]
    empty = np.empty((0, 3), np.uint32)
    mlt.write(path.with_suffix(".mlt"), mlt.Mlt(mlt.BYTE_LEVEL, tokens, empty, eos_ids=(STOP,)))
    if template is not None:
        path.with_suffix(".jinja").write_text(template, encoding="utf-8")
    return path


@dataclass
class Script:
    """What the scripted scheduler answers: a text, None to be silent until cancelled, or an exception.

    Each request is one more of `requests`. `full` refuses requests; `pause` is between tokens, in seconds.
    """

    answer: Callable[[Request], str | None] = lambda request: "Hello"
    requests: list[Request] = field(default_factory=list)
    tickets: list[Ticket] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)  # tokens that a grammar would not have let through
    full: bool = False
    pause: float = 0.0
    loading: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.loading.set()

    def scheduler(self, options: SchedulerOptions, *_: Any) -> Any:
        """Stands in for the Scheduler."""
        return _Scripted(self, options)


class _Scripted:
    def __init__(self, script: Script, options: SchedulerOptions) -> None:
        self._script = script
        self._options = options
        self.model: Model

    def start(self) -> None:
        pass

    def wait_ready(self) -> None:
        self._script.loading.wait()
        self.model = Model.load(self._options.model, threads=1, ctx=self._options.ctx)

    def submit(self, request: Request) -> Ticket:
        if self._script.full:
            raise QueueFull(3, 2.4)
        if len(request.prompt) > self.model.config.context:
            raise ContextOverflow(len(request.prompt), self.model.config.context)
        self._script.requests.append(request)
        ticket = Ticket(request, len(self._script.requests))
        self._script.tickets.append(ticket)
        threading.Thread(target=self._run, args=(ticket,), daemon=True).start()
        return ticket

    def snapshot(self) -> Snapshot:
        counters = Counters(submitted=len(self._script.requests), finished={"stop": 1})
        counters.first_token.add(0.03)
        slot = Slot(1, "req-1", "decode", 4, 0, 4, 2, 0.5)
        return Snapshot("ready", 16, 1, 64, (slot,), 40, 3, 1, counters)

    def close(self, drain: float | None = 0.0) -> None:
        for ticket in self._script.tickets:
            ticket.cancel()
        if hasattr(self, "model"):
            self.model.close()

    def _run(self, ticket: Ticket) -> None:
        request, n = ticket.request, len(ticket.request.prompt)
        ticket.put(Started(1, n))
        if request.embed:
            vector = np.zeros(self.model.config.dim, np.float32)
            vector[n % 2] = 1
            ticket.put(Embedding(vector), Finished("stop", n))
            return
        if request.prompt_logprobs is not None:
            judged = [TokenLogprob(-0.5, ((65, -0.25), (token, -0.5))) for token in request.prompt[1:]]
            ticket.put(PromptLogprobs((None, *judged)))
        try:
            reason, count = self._say(ticket)
        except NotReady as error:
            ticket.put(Finished("failed", n, 1, 0, error.message))
        else:
            ticket.put(Finished(reason, n, 1, count))

    def _say(self, ticket: Ticket) -> tuple[Any, int]:
        request = ticket.request
        text = self._script.answer(request)
        while text is None:
            time.sleep(0.01)
            if ticket.cancel_wanted:
                return "cancelled", 0
            if request.deadline is not None and time.monotonic() > request.deadline:
                return "timeout", 0
        assert self.model.tokenizer is not None
        ids = self.model.tokenizer.encode(text, bos=False)
        for count, token in enumerate(ids):
            if ticket.cancel_wanted:
                return "cancelled", count
            if request.max_tokens is not None and count >= request.max_tokens:
                return "length", count
            if token == STOP:
                return "stop", count
            if request.grammar is not None:
                self._hold_to_grammar(request, token)
            logprob = None if request.logprobs is None else TokenLogprob(-1.5, ((token, -1.5), (66, -2.0)))
            ticket.put(Token(token, logprob))
            time.sleep(self._script.pause)
        return "stop", len(ids)

    def _hold_to_grammar(self, request: Request, token: int) -> None:
        assert request.grammar is not None
        words = request.grammar.mask()
        if not words[token // 32] >> np.uint32(token % 32) & np.uint32(1):
            self._script.refused.append(token)
            raise NotReady(f"the grammar refuses {token}")
        request.grammar.accept(token)


@contextmanager
def live(service: Service, wait: bool = True) -> Iterator[str]:
    """The address of a server in a thread of this process."""
    config = uvicorn.Config(
        create_app(service), port=0, log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        if wait:
            service.wait_ready()
        (listener,) = server.servers[0].sockets
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def scripted(path: Path, script: Script, wait: bool = True, **options: Any) -> Iterator[str]:
    """The address of a server that answers by the script."""
    scheduler = SchedulerOptions(model=path, ctx=options.pop("ctx", None))
    service = Service(ServiceOptions(scheduler=scheduler, **options), scheduler=script.scheduler)
    with live(service, wait) as url:
        yield url


def events(text: str) -> list[Any]:
    """The objects of a stream; "[DONE]" as it is, comments left out."""
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    data = [next(line[6:] for line in block.split("\n") if line.startswith("data: ")) for block in blocks]
    return [item if item == "[DONE]" else json.loads(item) for item in data]
