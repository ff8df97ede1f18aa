"""The scheduler: many requests on one engine, each with the bits that it has alone."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from krafla.runtime.model import Model, Sampling
from krafla.runtime.server.loading import default_positions
from krafla.runtime.server.request import (
    ContextOverflow,
    Embedding,
    Event,
    Finished,
    NotReady,
    Penalties,
    PromptLogprobs,
    QueueFull,
    Request,
    Started,
    Ticket,
    Token,
)
from krafla.runtime.server.scheduler import Scheduler, SchedulerOptions
from krafla.tools.errors import UsageError
from krafla.tools.gen_random import write_random
from krafla.tools.mlb import Header
from tests.models import _BASE as BASE
from tests.models import model

VOCAB = 263
WARM = Sampling(temperature=0.9, top_p=0.95)


@contextmanager
def scheduler(name: str = "llama", **options: Any) -> Iterator[Scheduler]:
    settings = {"isa": "scalar", "threads": 2, "ctx": 320, **options}
    opened = Scheduler(SchedulerOptions(model(name), **settings))
    opened.start()
    try:
        opened.wait_ready(60)
        yield opened
    finally:
        opened.close()


def tokens(count: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(random.Random(seed).randrange(VOCAB) for _ in range(count))


def collect(ticket: Ticket) -> list[Event]:
    events = []
    while not events or not isinstance(events[-1], Finished):
        events.append(ticket.get(60))
    return events


def run(used: Scheduler, *requests: Request) -> list[list[Event]]:
    return [collect(ticket) for ticket in [used.submit(request) for request in requests]]


def answer(events: list[Event]) -> list[Event]:
    """What must not depend on anything else: tokens, log-probabilities, vectors, the reason."""
    kept = [event for event in events if isinstance(event, Token | PromptLogprobs)]
    end = events[-1]
    assert isinstance(end, Finished) and end.error is None, end
    return [*kept, replace(end, cached_tokens=0)]


def cached(events: list[Event]) -> int:
    assert isinstance(events[0], Started)
    return events[0].cached_tokens


def various(count: int, prompt: int = 70) -> list[Request]:
    """Requests of all kinds; some begin alike."""
    made = []
    for i in range(count):
        ids = tokens(prompt, i % 5)[: prompt - i % 7] + tokens(i, 100 + i)
        made.append(
            Request(
                ids,
                max_tokens=20 + i % 13,
                sampling=WARM if i % 3 else Sampling(),
                penalties=Penalties(1.2, 0.5, 0.1) if i % 4 == 1 else Penalties(),
                logit_bias={5: 2.0, 9: -100.0} if i % 5 == 2 else {},
                seed=i,
                logprobs=i % 4 if i % 2 else None,
                prompt_logprobs=2 if i % 8 == 3 else None,
            )
        )
    return made


def solo(name: str, requests: list[Request]) -> list[list[Event]]:
    """Each in a scheduler that has seen no other."""
    out = []
    for request in requests:
        with scheduler(name, threads=1, parallel=1) as used:
            out.append(answer(run(used, request)[0]))
    return out


@pytest.mark.parametrize("name", ["llama", "qwen35", "gemma2"])
def test_the_same_bits_alone_and_among_others(name: str) -> None:
    """Alone; beside 15 others on 3 threads; after cache hits; and with so few pages that answers must wait,
    give up their place and come back."""
    requests = various(16)
    long = [replace(request, max_tokens=150) for request in requests[:4]]
    expected = solo(name, [*requests, *long])
    with scheduler(name, threads=3, positions=16 * 320) as used:
        for _ in range(2):
            together = run(used, *requests)
            assert [answer(events) for events in together] == expected[:16]
        hits = [cached(e) for e, r in zip(together, requests, strict=True) if r.prompt_logprobs is None]
        assert min(hits) >= (64 if name == "qwen35" else 69)
    with scheduler(name, threads=2, positions=448, batch=40) as used:
        assert [answer(events) for events in run(used, *requests, *long)] == expected
        counters = used.snapshot().counters
        assert counters.preemptions > 0
        assert counters.evicted_pages > 0
        assert used.snapshot().pages_used == used.snapshot().pages_cached


@pytest.mark.parametrize("settings", [{"speculate": "ngram"}, {"draft": "self"}, {"draft": "other"}])
def test_guesses_change_nothing(settings: dict[str, str], tmp_path: Path) -> None:
    """With guesses from the text, from the model itself (mostly right) and from another (mostly wrong)."""
    loop = (7, 9, 11, 13, 15, 17) * 8
    requests = [replace(request, max_tokens=60) for request in various(8)]
    requests += [
        Request(loop + loop, max_tokens=100, logit_bias=dict.fromkeys(loop, 30.0), seed=i) for i in range(2)
    ]
    expected = solo("llama", requests)
    if settings.get("draft") == "self":
        settings = {"draft": str(model("llama"))}
    elif "draft" in settings:
        write_random(tmp_path / "other.mlb", Header(**{**BASE, "n_layers": 1}), seed=5)
        settings = {"draft": str(tmp_path / "other.mlb")}
    with scheduler(**settings) as used:
        assert [answer(events) for events in run(used, *requests)] == expected
        counters = used.snapshot().counters
        assert 0 < counters.accepted < counters.drafted
        one = run(used, requests[-1])[0]
        assert answer(one) == expected[-1]
    with scheduler(positions=320, **settings) as used:
        assert [answer(events) for events in run(used, *requests)] == expected


def test_guesses_are_refused_where_nothing_can_be_taken_back() -> None:
    for settings in ({"speculate": "ngram"}, {"draft": str(model("llama"))}):
        with (
            pytest.raises(NotReady, match="linear attention, which cannot take guesses back"),
            scheduler("qwen35", **settings),
        ):
            pass
    with pytest.raises(UsageError, match="speculate is maybe, must be ngram or off"):
        SchedulerOptions(speculate="maybe")


def test_a_short_prompt_is_not_kept_waiting_by_a_long_one() -> None:
    with scheduler(batch=8) as used:
        long = used.submit(Request(tokens(300, 1), max_tokens=1))
        short = used.submit(Request(tokens(8, 2), max_tokens=1))
        ends = {}
        for name, ticket in (("short", short), ("long", long)):
            collect(ticket)
            ends[name] = time.monotonic()
        steps = used.snapshot().counters.steps
    assert ends["short"] < ends["long"]
    assert steps >= 37


def test_one_prompt_that_many_share_is_read_once() -> None:
    prompt = tokens(200)
    with scheduler() as used:
        results = run(used, *(Request((*prompt, i), max_tokens=3, sampling=WARM, seed=i) for i in range(6)))
        assert [cached(events) for events in results] == [0] + [192] * 5
        assert used.snapshot().counters.rows < 200 + 6 * 12 + 6 * 3


def test_without_a_prefix_cache() -> None:
    with scheduler(prefix_cache=False) as used:
        first, second = (run(used, Request(tokens(100), max_tokens=5))[0] for _ in range(2))
        assert (cached(first), cached(second)) == (0, 0)
        assert answer(first) == answer(second)
        assert used.snapshot().pages_used == 0


def test_a_conversation_goes_on_where_it_ended() -> None:
    """To the token in a plain model; to the page in one with a state."""
    for name in ("llama", "qwen35"):
        with scheduler(name) as used:
            first = run(used, Request(tokens(100), max_tokens=40, seed=1))[0]
            said = tuple(event.id for event in first if isinstance(event, Token))
            again = run(used, Request(tokens(100) + said + tokens(20, 9), max_tokens=4))[0]
            assert cached(again) == (139 if name == "llama" else 128)


def test_a_side_request_leaves_a_long_conversation_alone() -> None:
    """The pool is full with one conversation; many one-page requests take turns on a few pages."""
    talk = tokens(270)
    with scheduler(positions=448) as used:  # 7 pages: 5 of the conversation
        run(used, Request(talk, max_tokens=8))
        for i in range(12):
            run(used, Request(tokens(40, 50 + i), max_tokens=8))
        again = run(used, Request(talk, max_tokens=1))[0]
        assert cached(again) >= 256


def test_a_cancelled_request_stops_and_disturbs_nobody() -> None:
    requests = [replace(request, max_tokens=200) for request in various(4, 30)]
    expected = solo("llama", requests)
    with scheduler() as used:
        kept = [used.submit(request) for request in requests]
        gone = [used.submit(replace(request, prompt=request.prompt[::-1])) for request in requests]
        waiting = used.submit(Request(tokens(5)))
        for ticket in gone:
            while not isinstance(ticket.get(60), Token):
                pass
            ticket.cancel()
        waiting.cancel()
        for ticket in gone:
            rest = collect(ticket)
            assert isinstance(rest[-1], Finished)
            assert rest[-1].reason == "cancelled"
            assert rest[-1].completion_tokens < 200
        assert [answer(collect(ticket)) for ticket in kept] == expected
        assert used.snapshot().pages_used == used.snapshot().pages_cached


def test_deadlines_and_the_queue() -> None:
    with scheduler(parallel=1, queue=2) as used:
        busy = used.submit(Request(tokens(4), max_tokens=300))
        busy.get(60)
        late = used.submit(Request(tokens(5), deadline=time.monotonic() - 1))
        assert collect(late)[-1] == Finished("timeout", 5)
        waiting = [used.submit(Request(tokens(5), max_tokens=1)) for _ in range(2)]
        with pytest.raises(
            QueueFull, match="2 requests are waiting, which is all that the queue holds"
        ) as full:
            used.submit(Request(tokens(5)))
        assert full.value.retry_after >= 1
        busy.cancel()
        for ticket in waiting:
            end = collect(ticket)[-1]
            assert isinstance(end, Finished) and end.reason == "length"
        counters = used.snapshot().counters
        assert (counters.rejected, counters.submitted) == (1, 4)
        assert counters.finished == {"timeout": 1, "cancelled": 1, "length": 2}


def test_stop_tokens() -> None:
    ban = Request(tokens(10), max_tokens=12)
    with scheduler() as used:
        events = run(used, ban)[0]
        said = [event.id for event in events if isinstance(event, Token)]
        stop, first = next((token, i) for i, token in enumerate(said) if i > 2 and said.index(token) == i)
        ended, ignored = run(
            used,
            replace(ban, stop_ids=frozenset([stop])),
            replace(ban, stop_ids=frozenset([stop]), ignore_eos=True),
        )
    assert [event.id for event in ended if isinstance(event, Token)] == said[:first]
    assert ended[-1] == Finished("stop", 10, ended[-1].cached_tokens, first)  # type: ignore[union-attr]
    other = [event.id for event in ignored if isinstance(event, Token)]
    assert len(other) == 12
    assert stop not in other
    assert other[:first] == said[:first]


class EvenThenOdd:
    """Tokens of one parity, then of the other, six in all."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def mask(self) -> npt.NDArray[np.uint32]:
        return np.full(9, 0x55555555 << (len(self.seen) % 2), np.uint32)

    def accept(self, token: int) -> None:
        self.seen.append(token)

    @property
    def finished(self) -> bool:
        return len(self.seen) == 6


class Broken(EvenThenOdd):
    def mask(self) -> npt.NDArray[np.uint32]:
        if len(self.seen) == 2:
            raise ValueError("no such rule")
        return np.zeros(9, np.uint32) if len(self.seen) == 4 else super().mask()


class Dead(EvenThenOdd):
    def mask(self) -> npt.NDArray[np.uint32]:
        return np.zeros(9, np.uint32)


@pytest.mark.parametrize("speculate", ["off", "ngram"])
def test_grammars(speculate: str) -> None:
    with scheduler(speculate=speculate) as used:
        good = run(used, Request((4, 5) * 20, sampling=WARM, seed=1, grammar=EvenThenOdd()))[0]
        said = [event.id for event in good if isinstance(event, Token)]
        assert [token % 2 for token in said] == [0, 1, 0, 1, 0, 1]
        assert good[-1].reason == "stop"  # type: ignore[union-attr]
        broken, dead, beside = run(
            used,
            Request(tokens(20), grammar=Broken()),
            Request(tokens(20), grammar=Dead()),
            Request(tokens(20), max_tokens=5),
        )
        assert broken[-1].error == "the grammar failed: no such rule"  # type: ignore[union-attr]
        assert dead[-1].error == "the grammar allows no token here"  # type: ignore[union-attr]
        assert beside[-1].reason == "length"  # type: ignore[union-attr]


def test_logprobs_are_those_of_model_logits() -> None:
    ids = tokens(90)
    with Model.load(model("llama"), isa="scalar", threads=1) as plain:
        logits = plain.logits(ids).astype(np.float64)
    exact = logits - np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True))
    exact -= logits.max(1, keepdims=True)
    with scheduler(batch=32) as used:
        run(used, Request(ids, max_tokens=1))  # so that it could come from the cache
        events = run(used, Request(ids, max_tokens=1, logprobs=3, prompt_logprobs=2))[0]
        nothing = run(
            used, Request(ids, max_tokens=0, prompt_logprobs=0), Request(ids[:1], 0, prompt_logprobs=1)
        )
    prompt = next(event for event in events if isinstance(event, PromptLogprobs)).tokens
    assert prompt[0] is None and len(prompt) == 90
    for i, one in enumerate(prompt[1:]):
        assert one is not None
        assert abs(one.logprob - exact[i, ids[i + 1]]) < 1e-5
        assert [token for token, _ in one.top] == [int(t) for t in np.argsort(-exact[i], kind="stable")[:2]]
    token = next(event for event in events if isinstance(event, Token))
    assert token.logprob is not None and abs(token.logprob.logprob - exact[-1].max()) < 1e-5
    assert token.logprob.top[0] == (token.id, token.logprob.logprob)
    assert len(token.logprob.top) == 3
    assert [type(event) for event in nothing[0]] == [Started, PromptLogprobs, Finished]
    assert [event.tokens for event in nothing[1] if isinstance(event, PromptLogprobs)] == [(None,)]


@pytest.mark.parametrize("name", ["llama", "qwen35"])
def test_embeddings(name: str) -> None:
    """Unit vectors that do not depend on chunks, on others, or on giving up the place."""
    asked = [Request(tokens(20 + 40 * i, i), embed=kind) for i in range(4) for kind in ("mean", "last")]

    def vectors(results: list[list[Event]]) -> list[bytes]:
        found = [event.vector for events in results for event in events if isinstance(event, Embedding)]
        assert all(abs(np.linalg.norm(vector) - 1) < 1e-6 and vector.dtype == np.float32 for vector in found)
        return [vector.tobytes() for vector in found]

    with scheduler(name, threads=1) as used:
        expected = vectors([run(used, request)[0] for request in asked])
        assert used.snapshot().pages_used == 0
    assert len(set(expected)) == 8
    with scheduler(name, batch=17, positions=320) as used:
        mixed = run(used, *various(4), *asked, *various(4))
        assert vectors(mixed) == expected


def test_what_is_refused() -> None:
    with scheduler() as used:
        with pytest.raises(ContextOverflow, match="the prompt has 321 tokens, the context holds 320") as over:
            used.submit(Request(tokens(321)))
        assert (over.value.tokens, over.value.context) == (321, 320)
        full = run(used, Request(tokens(320)))[0]
        assert full[-1] == Finished("length", 320, 0, 1)
        for request in (Request((1, 263)), Request((1,), logit_bias={-1: 1.0})):
            with pytest.raises(UsageError, match="the model has tokens 0 to 262"):
                used.submit(request)
    with pytest.raises(NotReady, match="closed"):
        used.submit(Request((1,)))
    for wrong in ({"prompt": ()}, {"max_tokens": -1}, {"logprobs": 101}):
        with pytest.raises(UsageError):
            Request(**{"prompt": (1,), **wrong})


def test_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "bad.mlb").write_bytes(b"MLB1 and no more")
    failed = Scheduler(SchedulerOptions(tmp_path / "bad.mlb"))
    with pytest.raises(NotReady, match="loading"):
        _ = failed.model
    failed.start()
    with pytest.raises(NotReady, match=r"bad\.mlb: the file has 16 bytes"):
        failed.wait_ready(60)
    assert failed.state == "failed"
    assert failed.error is not None
    failed.close()
    assert failed.state == "closed"


@pytest.mark.parametrize("drain", [0.0, None])
def test_closing(drain: float | None) -> None:
    with scheduler(parallel=2) as used:
        tickets = [used.submit(Request(tokens(20, i), max_tokens=100)) for i in range(5)]
        tickets[0].get(60)
        used.close(drain)
        reasons = [collect(ticket)[-1].reason for ticket in tickets]  # type: ignore[union-attr]
        assert reasons == (["cancelled"] * 5 if drain == 0.0 else ["length"] * 5)
        assert used.state == "closed"


def test_the_pool_fits_the_machine() -> None:
    header = Header(**BASE)  # 512 bytes per position, 320 positions
    assert default_positions(header, None, "f32", 0) == 4 * 320
    assert default_positions(header, 100, "f32", 1 << 40) == 400
    assert default_positions(header, None, "f32", 2 * 512 * 500) == 500
    assert default_positions(header, None, "f16", 2 * 512 * 500) == 1000
    assert default_positions(header, None, "f32", 1) == 320


def test_an_event_loop_reads_many_at_once() -> None:
    requests = various(6, 20)
    expected = solo("llama", requests)

    async def read(used: Scheduler) -> list[list[Event]]:
        async def one(request: Request) -> list[Event]:
            return [event async for event in used.submit(request)]

        return list(await asyncio.gather(*(one(request) for request in requests)))

    with scheduler() as used:
        assert [answer(events) for events in asyncio.run(read(used))] == expected
        assert [answer(list(used.submit(requests[0])))] == expected[:1]
