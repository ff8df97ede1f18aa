"""Runs many requests at once for some time, some of which are cancelled at random, and checks every answer.

python -m krafla.runtime.server.stress [-m MODEL] [--seconds N]; docs/server-tuning.md has a result.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from krafla.runtime import options, progress
from krafla.runtime.model import Sampling
from krafla.runtime.server.measure import opened
from krafla.runtime.server.request import Event, Finished, Penalties, Request, Ticket, Token
from krafla.runtime.server.scheduler import Scheduler, SchedulerOptions
from krafla.tools.errors import KraflaError

KINDS = 48  # different requests; each runs alone once and many times among others
PATIENCE = 120.0  # seconds in which a request must make some progress


@dataclass
class Outcome:
    """What happened. `wrong` are answers that differ from their solo run, `leaked` pages that nobody accounts for."""

    model: str = ""
    seconds: float = 0.0
    streams: int = 0
    finished: int = 0
    cancelled: int = 0
    failed: int = 0
    wrong: int = 0
    leaked: int = 0
    tokens: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    evicted_pages: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether nothing went wrong."""
        return not (self.failed or self.wrong or self.leaked)


@dataclass
class _Stream:
    """One of the streams: its request now, and when its reader will go away."""

    kind: int
    ticket: Ticket
    leave_after: int | None
    got: list[Event] = field(default_factory=list)


def requests(vocab: int, longest: int, seed: int) -> list[Request]:
    """Requests of many kinds; a third begins like another."""
    rng = random.Random(seed)
    made: list[Request] = []
    for i in range(KINDS):
        prompt = [rng.randrange(vocab) for _ in range(rng.randint(1, longest))]
        if made and i % 3 == 0:
            prompt = [*rng.choice(made).prompt[: longest // 2], *prompt[: longest // 2]]
        made.append(
            Request(
                tuple(prompt),
                max_tokens=rng.randint(1, 48),
                sampling=Sampling(rng.choice([0.0, 0.7, 1.0]), rng.choice([1.0, 0.9]), rng.choice([0, 40])),
                penalties=Penalties(frequency=rng.choice([0.0, 0.4])),
                seed=i,
                logprobs=rng.choice([None, 0, 3]),
            )
        )
    return made


class Stress:
    """Keeps streams going on a scheduler until the time is over."""

    def __init__(
        self, scheduler: Scheduler, kinds: list[Request], expected: list[list[Event]], seed: int
    ) -> None:
        self.outcome = Outcome()
        self._scheduler = scheduler
        self._kinds = kinds
        self._expected = expected
        self._rng = random.Random(seed)

    def run(self, streams: int, seconds: float, report: Callable[[float], None]) -> Outcome:
        """All streams from this thread: each takes what there is, and a new request after its last."""
        started = time.monotonic()
        going = [self._begin() for _ in range(streams)]
        while going:
            report(time.monotonic() - started)
            over = time.monotonic() - started >= seconds
            for i, stream in reversed(list(enumerate(going))):
                if self._read(stream):
                    continue
                self._check(stream)
                if over:
                    del going[i]
                else:
                    going[i] = self._begin()
        snapshot = self._scheduler.snapshot()
        counters = snapshot.counters
        return replace(
            self.outcome,
            seconds=round(time.monotonic() - started, 1),
            streams=streams,
            leaked=snapshot.pages_used - snapshot.pages_cached,
            tokens=counters.completion_tokens,
            cached_tokens=counters.cached_tokens,
            preemptions=counters.preemptions,
            evicted_pages=counters.evicted_pages,
        )

    def _begin(self) -> _Stream:
        kind = self._rng.randrange(len(self._kinds))
        leave = self._rng.randint(0, 20) if self._rng.random() < 0.3 else None
        return _Stream(kind, self._scheduler.submit(self._kinds[kind]), leave)

    def _read(self, stream: _Stream) -> bool:
        """Take events for a moment; False after the last."""
        if stream.leave_after is not None and len(stream.got) >= stream.leave_after:
            stream.ticket.cancel()
        try:
            stream.got.append(stream.ticket.get(0.002))
        except TimeoutError:
            if time.monotonic() - stream.ticket.submitted > PATIENCE:
                raise KraflaError(f"request {stream.ticket.number} makes no progress") from None
            return True
        return not isinstance(stream.got[-1], Finished)

    def _check(self, stream: _Stream) -> None:
        end = stream.got[-1]
        assert isinstance(end, Finished)
        if end.error or end.reason not in ("cancelled", "stop", "length"):
            self.outcome.failed += 1
            self.outcome.errors.append(f"request {stream.ticket.number}: {end.error or end.reason}")
            return
        said, expected = _tokens(stream.got), self._expected[stream.kind]
        if end.reason == "cancelled":
            self.outcome.cancelled += 1
            expected = expected[: len(said)]
        else:
            self.outcome.finished += 1
        if said != expected:
            self.outcome.wrong += 1
            self.outcome.errors.append(
                f"request {stream.ticket.number} of kind {stream.kind} has other tokens"
            )


def _tokens(events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, Token)]


def stress(
    settings: SchedulerOptions,
    streams: int,
    seconds: float,
    seed: int = 0,
    report: progress.Report = progress.silent,
) -> Outcome:
    """Every kind of request alone, without a prefix cache, then all together for so many seconds."""
    with opened(replace(settings, parallel=1, speculate="off", draft=None, prefix_cache=False)) as alone:
        config, name = alone.model.config, alone.model.files.mlb.name
        kinds = requests(config.vocab, min(config.context // 3, 200), seed)
        expected = []
        for i, request in enumerate(kinds):
            report("alone", i, len(kinds))
            expected.append(_tokens(list(alone.submit(request))))
    with opened(replace(settings, parallel=streams)) as scheduler:
        test = Stress(scheduler, kinds, expected, seed)
        outcome = test.run(streams, seconds, lambda done: report("together", int(done), int(seconds)))
    return replace(outcome, model=name)


@click.command()
@options.model_option
@options.isa_option
@click.option("-t", "--threads", type=click.IntRange(1), help="Threads [default: the physical cores].")
@click.option(
    "-c", "--ctx", type=click.IntRange(64), default=640, help="Positions of a request [default: 640]."
)
@click.option("--positions", type=click.IntRange(64), default=2048, help="Positions of all [default: 2048].")
@click.option("--streams", type=click.IntRange(1, 256), default=16, help="Streams at once [default: 16].")
@click.option("--seconds", type=click.FloatRange(0), default=300.0, help="How long [default: 300].")
@click.option(
    "--speculate", type=click.Choice(["off", "ngram"]), default="off", help="Guesses [default: off]."
)
@click.option("--seed", type=int, default=0, help="Of the requests and cancellations [default: 0].")
@options.quiet_option
@options.json_option
def main(streams: int, seconds: float, seed: int, quiet: bool, as_json: bool, **given: Any) -> None:
    """Run many requests at once, cancel some at random, and check every answer against its solo run.

    Exit code 1 if an answer differs, fails, or a page is lost.
    """
    model = given.pop("model")
    settings = SchedulerOptions(None if model is None else Path(model), **given)
    try:
        with progress.console(quiet) as report:
            outcome = stress(settings, streams, seconds, seed, report)
    except KraflaError as error:
        click.echo(f"stress: {error.message}", err=True)
        sys.exit(error.exit_code)
    o = outcome
    click.echo(
        json.dumps(asdict(o))
        if as_json
        else f"{o.model}: {o.streams} streams for {o.seconds:.0f} s: {o.finished} answers finished, {o.cancelled} "
        f"cancelled, {o.failed} failed, {o.wrong} differ from their solo run, {o.leaked} pages lost; "
        f"{o.tokens} tokens, {o.cached_tokens} prompt tokens from the cache, {o.preemptions} answers moved, "
        f"{o.evicted_pages} pages evicted"
    )
    for line in o.errors[:20]:
        click.echo(f"stress: {line}", err=True)
    sys.exit(0 if o.good else 1)


if __name__ == "__main__":
    main()
