"""Guesses in a single generation: the same text, from fewer steps; what cannot be guessed at."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from krafla.runtime import cli
from krafla.runtime.draft_model import DraftOfOne, load_draft
from krafla.runtime.model import Model, Sampling
from krafla.runtime.speculate import MOST, NgramDraft, Pace
from krafla.tools.errors import UsageError
from krafla.tools.gen_random import write_random
from krafla.tools.mlb import Header
from tests.models import model
from tests.toys import toy

LOOP = [7, 9, 11, 13, 15, 17]


def guess(draft: NgramDraft, ids: list[int], limit: int = MOST) -> list[int]:
    return draft.guess(ids, limit, Sampling(), None)


def test_ngrams_say_what_followed_last_time() -> None:
    draft = NgramDraft()
    assert guess(draft, [1]) == []
    assert guess(draft, [1, 2, 3, 4, 5]) == []
    assert guess(draft, [1, 2, 3, 4, 5, 6, 1, 2], 3) == [3, 4, 5]
    assert guess(draft, [1, 2, 3, 4, 5, 6, 1, 2, 9, 9, 1, 2], 2) == [9, 9], "the latest"
    assert guess(draft, [1, 2, 3, 4, 5, 6, 1, 2, 9, 9, 1, 2, 3, 4, 5], 2) == [6, 1], "the longest agreement"
    repeating = NgramDraft()
    assert guess(repeating, [0, *LOOP, *LOOP])[:5] == LOOP[:5], "goes on repeating beyond the end"


def test_the_pace_follows_success() -> None:
    pace = Pace(16)
    start = pace.length
    pace.learn(start, start)
    assert pace.length == 2 * start
    pace.learn(pace.length, pace.length)
    assert pace.length == 16
    pace.learn(16, 3)
    assert pace.length == 4
    pace.learn(4, 0)
    assert pace.length == 1
    pace.learn(0, 0)
    assert pace.length == 1
    pace.learn(1, 1)
    assert pace.length == 2


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("draft") / "other.mlb"
    shape: dict[str, Any] = {"dim": 64, "n_layers": 1, "n_heads": 4, "n_kv_heads": 2, "hidden_dim": 96}
    write_random(path, Header(**shape, vocab=263, max_seq=200), seed=5)
    return path


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("kind", ["ngram", "self", "other"])
def test_the_same_tokens_with_guesses(kind: str, temperature: float, other: Path) -> None:
    """From the text, from the model itself, from another; also when the other's context is shorter, and where
    the context or max_tokens end the text within guesses."""
    settings: dict[str, Any] = {"temperature": temperature, "seed": 11, "top_p": 0.9}
    with Model.load(model("llama"), isa="scalar", threads=1) as m:
        for prompt, most in ((LOOP * 8, 40), (LOOP * 8, 41), ([5], None), (LOOP * 50, None)):
            plain = m.generate(prompt, most, **settings)
            expected = "".join(plain), plain.ids, plain.finish
            if kind == "ngram":
                guesser: Any = NgramDraft()
            else:
                path = model("llama") if kind == "self" else other
                guesser = DraftOfOne(load_draft(m, path, 5, isa="scalar", threads=1))
            guessed = m.generate(prompt, most, guesser=guesser, **settings)
            assert ("".join(guessed), guessed.ids, guessed.finish) == expected
            if kind == "self":
                assert guessed.guessed_right > 0.9 * guessed.guessed > 0
            again = m.generate(prompt, 3, **settings)
            assert ("".join(again), again.ids) == (
                "".join(m.generate(prompt, 3, **settings)),
                expected[1][:3],
            )


def test_guesses_save_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that draws what it drew before: with itself as the draft, five guesses and one more per step."""
    with Model.load(model("llama"), isa="scalar", threads=1) as m:
        guesser = DraftOfOne(load_draft(m, model("llama"), 5, isa="scalar", threads=1))
        calls = 0
        forward = m._advance_beyond

        def counted(ids: list[int], guesses: list[int]) -> Any:
            nonlocal calls
            calls += 1
            return forward(ids, guesses)

        monkeypatch.setattr(m, "_advance_beyond", counted)
        generation = m.generate(LOOP, 61, guesser=guesser)
        list(generation)
        assert len(generation.ids) == 61
        assert calls == 10


def test_what_is_refused(other: Path, tmp_path: Path) -> None:
    with Model.load(model("qwen35"), isa="scalar", threads=1) as state:
        with pytest.raises(UsageError, match="linear attention, which cannot take guesses back"):
            state.generate([1], guesser=NgramDraft())
        with pytest.raises(UsageError, match="linear attention"):
            load_draft(state, other, isa="scalar", threads=1)
    with Model.load(model("llama"), isa="scalar", threads=1) as m:
        with pytest.raises(UsageError, match="linear attention"):
            load_draft(m, model("qwen35"), isa="scalar", threads=1)
        shape: dict[str, Any] = {"dim": 64, "n_layers": 1, "n_heads": 4, "n_kv_heads": 2, "hidden_dim": 96}
        write_random(tmp_path / "large.mlb", Header(**shape, vocab=300, max_seq=64))
        with pytest.raises(
            UsageError, match=r"the draft large\.mlb has 300 tokens, .* has 263: they must be the"
        ):
            load_draft(m, tmp_path / "large.mlb", isa="scalar", threads=1)


def test_the_command(other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`krafla run` with either says how many guesses were right, and the same text."""
    small = str(toy(tmp_path))
    results = []
    for more in ([], ["--speculate", "ngram"], ["--draft", str(other)]):
        assert cli.call(["run", "aaaa aaaa aaaa", "--json", "-q", "-n", "30", "-m", small, *more]) == 0
        results.append(json.loads(capsys.readouterr().out))
    assert len({result["text"] for result in results}) == 1
    assert results[0]["guessed"] == 0
    assert results[2]["guessed"] > 0
    assert cli.call(["run", "a", "-n", "9", "-m", small, "--draft", small]) == 0
    assert re.search(r"\d+ of \d+ guesses right", capsys.readouterr().err)
