"""`Model`: logits, generation, streaming, stopping, and staying right after an interruption."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import krafla
from krafla.runtime.model import Model
from krafla.tools.errors import AccessError, FormatError, IsaError, KraflaError, UsageError
from tests.toys import toy

PROMPT = "Some prompt of a few dozen bytes, öäü included."


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[Model]:
    with Model.load(path, threads=1) as model:
        yield model


def test_the_public_name_is_the_class() -> None:
    assert krafla.Model is Model
    assert krafla.KraflaError is KraflaError
    with pytest.raises(AttributeError, match="no attribute 'Modell'"):
        krafla.Modell  # noqa: B018


def test_config_and_text(model: Model) -> None:
    assert (model.config.dim, model.config.n_layers, model.config.vocab) == (64, 2, 263)
    assert model.config.threads == 1
    assert model.encode("hö<|end|>") == [104, 0xC3, 0xB6, 257]
    assert model.decode([104, 0xC3, 0xB6, 257]) == "hö<|end|>"


def test_logits_do_not_depend_on_batch_or_threads(path: Path, model: Model) -> None:
    ids = model.encode(PROMPT * 4)
    expected = model.logits(ids)
    assert expected.shape == (len(ids), 263)
    assert expected.dtype == np.float32
    assert np.isfinite(expected).all()
    assert len(np.unique(expected.argmax(1))) > 3
    for batch in (1, 7, 500):
        assert np.array_equal(model.logits(ids, batch), expected)
    with Model.load(path, threads=2, batch=32) as other:
        assert other.config.batch == 32
        assert np.array_equal(other.logits(ids), expected)


def test_greedy_generation_follows_the_logits(model: Model) -> None:
    generation = model.generate(PROMPT, max_tokens=30)
    text = "".join(generation)
    ids = model.encode(PROMPT) + generation.ids
    best = model.logits(ids).argmax(1)[len(generation.prompt) - 1 : -1]
    assert generation.ids == best.tolist()
    assert (generation.finish, len(generation.ids)) == ("length", 30)
    kept = [token for token in generation.ids if token < 256]
    assert text == bytes(kept).decode("utf-8", "replace")


def test_characters_are_never_split(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = "aé€😀".encode()
    feed = iter([*wanted, 257])
    monkeypatch.setattr(model._api.fn, "ml_sample", lambda *arguments: next(feed))
    assert list(model.generate("x", max_tokens=len(wanted) + 1)) == ["a", "é", "€", "😀"]


def test_generation_stops_at_every_end_of_text_id(tmp_path: Path, model: Model) -> None:
    free = model.generate(PROMPT, max_tokens=20)
    list(free)
    for place in (0, 7, 19):
        token = free.ids[place]
        with Model.load(toy(tmp_path, eos=(261, token)), threads=1) as stopping:
            generation = stopping.generate(PROMPT, max_tokens=20)
            list(generation)
            assert generation.finish == "stop"
            assert generation.ids == free.ids[: free.ids.index(token)]


def test_a_full_context_ends_the_text(path: Path) -> None:
    with Model.load(path, ctx=20, threads=1) as model:
        generation = model.generate("12345", max_tokens=None)
        list(generation)
        assert generation.finish == "context"
        assert len(generation.ids) == 20 - 5 + 1  # the last one needs no place
        whole = model.generate("x" * 20)
        list(whole)
        assert len(whole.ids) == 1
        with pytest.raises(UsageError, match=r"the prompt has 21 tokens, the context holds 20 .*at most 320"):
            model.generate("x" * 21)
        with pytest.raises(UsageError, match="the prompt has 21 tokens"):
            model.logits([1] * 21)


def test_no_tokens_are_wanted(model: Model) -> None:
    generation = model.generate("x", max_tokens=0)
    assert (list(generation), generation.finish) == ([], "length")


def test_generations_may_take_turns(model: Model) -> None:
    first, second = ("".join(model.generate(p, max_tokens=20)) for p in ("one", "another"))
    a, b = model.generate("one", max_tokens=20), model.generate("another", max_tokens=20)
    pieces: tuple[list[str], list[str]] = ([], [])
    for left, right in itertools.zip_longest(a, b, fillvalue=""):
        pieces[0].append(left)
        pieces[1].append(right)
        model.logits([1, 2, 3])
    assert ("".join(pieces[0]), "".join(pieces[1])) == (first, second)


def test_a_shared_prefix_is_not_computed_again(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = "".join(model.generate(PROMPT + "!", max_tokens=5))
    counts: list[int] = []
    forward = model._api.fn.ml_forward

    def counting(engine: Any, rows: Any, count: int, logits: Any) -> None:
        counts.append(count)
        forward(engine, rows, count, logits)

    monkeypatch.setattr(model._api.fn, "ml_forward", counting)
    model.logits([9])
    list(model.generate(PROMPT, max_tokens=1))
    counts.clear()
    assert "".join(model.generate(PROMPT + "!", max_tokens=5)) == expected
    assert counts == [1] * 5


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupted_step_spoils_nothing(
    model: Model, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    expected = "".join(model.generate(PROMPT, max_tokens=12))
    forward, calls = model._api.fn.ml_forward, itertools.count()

    def interrupted(*arguments: Any) -> None:
        if next(calls) == 3:
            if after:
                forward(*arguments)
            raise KeyboardInterrupt
        forward(*arguments)

    monkeypatch.setattr(model._api.fn, "ml_forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(model.generate(PROMPT, max_tokens=12))
    assert "".join(model.generate(PROMPT, max_tokens=12)) == expected


def test_the_seed_decides(model: Model) -> None:
    def sample(seed: int | None) -> str:
        return "".join(model.generate(PROMPT, max_tokens=20, temperature=1.5, top_p=0.95, seed=seed))

    assert sample(1) == sample(1) != sample(2)
    assert sample(None) != sample(None)
    assert "".join(model.generate(PROMPT, max_tokens=9, seed=1)) == "".join(
        model.generate(PROMPT, max_tokens=9, temperature=1.5, top_k=1)
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"temperature": -1.0}, "temperature is -1.0, must be at least 0"),
        ({"temperature": float("nan")}, "temperature is nan, must be at least 0"),
        ({"top_p": 0.0}, "top_p is 0.0, must be above 0 and at most 1"),
        ({"top_k": -1}, "top_k is -1, must be at least 0"),
        ({"min_p": 1.5}, "min_p is 1.5, must be between 0 and 1"),
        ({"max_tokens": -1}, "max_tokens is -1, must be at least 0"),
    ],
)
def test_sampling_out_of_range(model: Model, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        model.generate("x", **options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kv": "f8"}, "kv is f8, must be one of f32, f16, q8"),
        ({"threads": 0}, "threads is 0, must be at least 1"),
        ({"isa": "mmx"}, "--isa mmx: no such ISA, there are scalar, "),
        ({"ctx": 1000}, "320"),
    ],
)
def test_loading_out_of_range(path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Model.load(path, **options)


def test_an_empty_prompt_is_refused(model: Model) -> None:
    with pytest.raises(UsageError, match="the prompt is empty"):
        model.generate("")


def test_chat(tmp_path: Path, model: Model) -> None:
    with Model.load(toy(tmp_path, template=True), threads=1) as chatty:
        ids = chatty.chat_ids([{"role": "user", "content": "Hi"}])
        assert chatty.decode(ids) == "<|start|>user\nHi<|end|><|start|>assistant\n"
        assert ids[0] == 256
    with pytest.raises(UsageError, match=r"toy\.mlb: the model has no chat template"):
        model.chat_ids([])


def test_every_kv_type_and_row_major_weights(path: Path) -> None:
    logits = {}
    for kv, pack in (("f32", True), ("f32", False), ("f16", True), ("q8", True)):
        with Model.load(path, kv=kv, pack=pack, threads=1) as model:
            logits[kv, pack] = model.logits(model.encode(PROMPT))
    assert np.array_equal(logits["f32", True], logits["f32", False])
    for kv in ("f16", "q8"):
        assert not np.array_equal(logits[kv, True], logits["f32", True])
        assert np.abs(logits[kv, True] - logits["f32", True]).max() < 0.5


def test_the_pack_cache(path: Path) -> None:
    expected = None
    for hit in (0, 1):
        with Model.load(path, threads=1, pack_cache=True) as model:
            logits = model.logits([1, 2, 3])
            assert not model.config.packed or model.config.pack_cache_hit == hit
        assert expected is None or np.array_equal(logits, expected)
        expected = logits


def test_memory_is_announced(path: Path) -> None:
    said: list[str] = []
    Model.load(path, threads=1, announce=said.append).close()
    assert len(said) == 1
    assert said[0].startswith("toy.mlb takes at most ")


def test_profile(path: Path) -> None:
    with Model.load(path, threads=1, profile=True) as model:
        model.logits([1, 2, 3])
        seconds = model.profile()
    assert {"attention", "ffn", "classifier"} <= set(seconds)
    assert sum(seconds.values()) > 0


def test_an_interruption_while_loading(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("krafla.runtime.model.PATIENCE", -1.0)
    with pytest.raises(KeyboardInterrupt):
        Model.load(path, threads=1, report=interrupt)


def test_files_that_are_missing_or_wrong(tmp_path: Path) -> None:
    path = toy(tmp_path)
    path.with_suffix(".mlt").unlink()
    with Model.load(path, threads=1) as model:
        assert len(model.logits([1, 2])) == 2
        assert list(model.generate([1, 2], max_tokens=3)) == []
        with pytest.raises(AccessError, match=r"toy\.mlb: there is no tokenizer beside it \(toy\.mlt or"):
            model.generate("x")
    path.with_suffix(".mlt").write_bytes(b"MLT1 and nonsense")
    with pytest.raises(FormatError, match=r"toy\.mlt"):
        Model.load(path, threads=1)
    with pytest.raises(AccessError, match="no such file, and no known model"):
        Model.load(tmp_path / "missing.mlb")
    (tmp_path / "other.mlb").write_bytes(b"MLB1")
    with pytest.raises(FormatError, match=r"other\.mlb"):
        Model.load(tmp_path / "other.mlb")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(FormatError, match=r"text: is neither an \.mlb nor a \.gguf file"):
        Model.load(tmp_path / "text")


def test_a_cpu_without_the_feature_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from krafla.runtime import host

    found = host.survey()
    less = (*found[:-1], host.HostIsa(found[-1].facts, "AVX-9000"))
    monkeypatch.setattr(host, "survey", lambda: less)
    with pytest.raises(IsaError, match=f"this CPU cannot run {found[-1].facts.name}, which needs AVX-9000"):
        Model.load(path, isa=found[-1].facts.name)


def test_closing_twice(path: Path) -> None:
    model = Model.load(path, threads=1)
    model.close()
    model.close()
