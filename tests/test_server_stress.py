"""Many streams for a while, with readers that leave: every answer equals its solo run, no page is lost."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from krafla.runtime.server.scheduler import SchedulerOptions
from krafla.runtime.server.stress import stress
from tests.models import model


@pytest.mark.parametrize(("name", "speculate"), [("llama", "off"), ("llama", "ngram"), ("qwen35", "off")])
def test_streams_with_disconnects(name: str, speculate: str) -> None:
    """A pool of three contexts for 16 streams, so that answers also give up their places."""
    settings = SchedulerOptions(
        model(name), isa="scalar", threads=2, ctx=320, positions=960, speculate=speculate
    )
    outcome = stress(settings, 16, 6.0)
    assert outcome.good, outcome
    assert outcome.finished > 50
    assert outcome.cancelled > 10
    assert outcome.cached_tokens > 0
    assert outcome.evicted_pages > 0


@pytest.mark.slow
def test_the_command() -> None:
    program = [
        sys.executable,
        "-m",
        "krafla.runtime.server.stress",
        "-m",
        str(model("llama")),
        "--isa",
        "scalar",
    ]
    options = ["--seconds", "3", "-c", "320", "--positions", "640", "--json", "-q", "--streams", "4"]
    done = subprocess.run([*program, *options], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["failed"], record["wrong"], record["leaked"]) == (0, 0, 0)
    assert record["finished"] > 10
