"""Measures what the server's core gains: many streams against one, a cached prefix, guesses.

python -m krafla.runtime.server.measure [-m MODEL]; docs/server-tuning.md has the figures.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from krafla.runtime import options
from krafla.runtime.server.request import Finished, Request, Token
from krafla.runtime.server.scheduler import Scheduler, SchedulerOptions
from krafla.tools.errors import KraflaError

ROUNDS = 3
TEXT = (
    "The harbour lay still in the early light. A grey gull walked along the wall and looked into each boat, and "
    "the man who mended nets nodded to it as he would have done to a neighbour. Nothing in the village hurried "
    "before the bell of the ferry rang, and on some days, when the fog stood thick between the islands, it did "
    "not ring at all. "
)


@dataclass(frozen=True)
class Measured:
    """What was measured: tokens per second, seconds, and how many times better."""

    model: str
    isa: str
    threads: int
    one_stream: float
    streams: int
    many_streams: float
    streams_gain: float
    prefix_tokens: int
    uncached_seconds: float
    cached_seconds: float
    cache_gain: float
    plain_seconds: float
    ngram_seconds: float
    ngram_gain: float
    accepted: float  # of the guessed tokens


@contextmanager
def opened(settings: SchedulerOptions) -> Iterator[Scheduler]:
    """A scheduler that is ready."""
    scheduler = Scheduler(settings)
    scheduler.start()
    try:
        scheduler.wait_ready()
        yield scheduler
    finally:
        scheduler.close()


def run(scheduler: Scheduler, requests: Sequence[Request]) -> tuple[float, list[list[int]]]:
    """Seconds until all are answered, and the answers."""
    started = time.perf_counter()
    tickets = [scheduler.submit(request) for request in requests]
    answers = []
    for ticket in tickets:
        events = list(ticket)
        end = events[-1]
        if isinstance(end, Finished) and end.error:
            raise KraflaError(end.error)
        answers.append([event.id for event in events if isinstance(event, Token)])
    return time.perf_counter() - started, answers


def _streams(scheduler: Scheduler, count: int, tokens: int) -> float:
    """Tokens per second of so many answers at once, prompts included; the best of some rounds."""
    model = scheduler.model
    best = float("inf")
    for i in range(ROUNDS):
        prompts = [tuple(model.encode(f"{i}.{j}. {TEXT[:150]}")) for j in range(count)]
        seconds, _ = run(
            scheduler, [Request(p, tokens, ignore_eos=True, stop_ids=_eos(scheduler)) for p in prompts]
        )
        best = min(best, seconds)
    return count * tokens / best


def _prefix(scheduler: Scheduler, length: int) -> tuple[float, float]:
    """Seconds to the first token after a prompt of `length` tokens that is new, and after one that is known."""
    ids = scheduler.model.encode(TEXT * (length // 40))
    new: list[float] = []
    known: list[float] = []
    for i in range(ROUNDS):
        prompt = (*scheduler.model.encode(f"{i}. "), *ids)[:length]
        for times in (new, known):
            ticket = scheduler.submit(Request((*prompt, i, 7), 1))
            started = time.perf_counter()
            next(event for event in ticket if isinstance(event, Token))
            times.append(time.perf_counter() - started)
    return min(new), min(known)


def _eos(scheduler: Scheduler) -> frozenset[int]:
    tokenizer = scheduler.model.tokenizer
    return tokenizer.eos if tokenizer else frozenset()


def _copying(scheduler: Scheduler, tokens: int) -> Request:
    """A task that copies: the text again, word for word."""
    ask = f"Repeat this text word for word, twice:\n\n{TEXT * 2}"
    model = scheduler.model
    if model.template is None:
        return Request(tuple(model.encode(TEXT * 3)), tokens)
    return Request(
        tuple(model.chat_ids([{"role": "user", "content": ask}])), tokens, stop_ids=_eos(scheduler)
    )


def measure(settings: SchedulerOptions, streams: int, tokens: int, prefix: int) -> Measured:
    """All of it, in some tens of seconds for a small model."""
    with opened(settings) as scheduler:
        model = scheduler.model
        name, isa, threads = model.files.mlb.name, model.isa, model.config.threads
        one, many = _streams(scheduler, 1, tokens), _streams(scheduler, streams, tokens)
        new, known = _prefix(scheduler, prefix)
        task = _copying(scheduler, 2 * tokens)
        plain = [run(scheduler, [task]) for _ in range(ROUNDS)]
    with opened(replace(settings, speculate="ngram")) as scheduler:
        guessed = [run(scheduler, [task]) for _ in range(ROUNDS)]
        counters = scheduler.snapshot().counters
    if any(answers != plain[0][1] for _, answers in plain + guessed):
        raise KraflaError("guesses changed an answer")
    slow, fast = (min(seconds for seconds, _ in runs) for runs in (plain, guessed))
    accepted = counters.accepted / max(counters.drafted, 1)
    return Measured(
        name, isa, threads, one, streams, many, many / one, prefix, new, known, new / known, slow, fast, slow / fast,
        accepted,
    )  # fmt: skip


@click.command()
@options.model_option
@options.isa_option
@click.option("-t", "--threads", type=click.IntRange(1), help="Threads [default: the physical cores].")
@click.option(
    "--kv", type=click.Choice(["f32", "f16", "q8"]), default="f32", help="KV memory [default: f32]."
)
@click.option("--streams", type=click.IntRange(2, 64), default=8, help="Streams at once [default: 8].")
@click.option("--tokens", type=click.IntRange(8), default=128, help="Tokens of each answer [default: 128].")
@click.option("--prefix", type=click.IntRange(64), default=1000, help="Tokens of the prefix [default: 1000].")
@options.json_option
def main(streams: int, tokens: int, prefix: int, as_json: bool, **given: Any) -> None:
    """Measure what the server's core gains: many streams against one, a cached prefix, guesses."""
    model = given.pop("model")
    settings = SchedulerOptions(None if model is None else Path(model), parallel=streams, **given)
    try:
        found = measure(settings, streams, tokens, prefix)
    except KraflaError as error:
        click.echo(f"measure: {error.message}", err=True)
        sys.exit(error.exit_code)
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return
    m = found
    click.echo(
        f"{m.model} ({m.isa}, {m.threads} threads)\n"
        f"{m.streams} streams: {m.many_streams:.0f} tokens/s, one: {m.one_stream:.0f}: {m.streams_gain:.2f} times\n"
        f"first token after {m.prefix_tokens} tokens: {1e3 * m.uncached_seconds:.1f} ms, cached "
        f"{1e3 * m.cached_seconds:.1f} ms: {m.cache_gain:.1f} times sooner\n"
        f"copying: {m.plain_seconds:.2f} s, with n-gram guesses {m.ngram_seconds:.2f} s: {m.ngram_gain:.2f} times "
        f"faster ({m.accepted:.0%} of guesses right)"
    )


if __name__ == "__main__":
    main()
