"""Held pages, resumed sequences, a pool smaller than all contexts, hidden states: the engine below a server."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from krafla.tools.errors import OutOfMemoryError, UsageError
from krafla.tools.mlb import Model
from krafla.tools.ref_forward import ExactArithmetic
from tests.engines import Engine
from tests.models import model

PAGE = 64


def tokens(count: int, seed: int = 0) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, 263, count)]


def alone(name: str, ids: list[int]) -> Any:
    with Engine(model(name)) as engine:
        return engine.logits(ids)


def pages(engine: Engine, sequence: int) -> list[int]:
    out = (ctypes.c_int32 * 64)()
    count = engine.api.fn.ml_sequence_pages(engine.handle, sequence, out, 64)
    return out[:count]


def resume(engine: Engine, held: list[int], length: int) -> int:
    sequence = ctypes.c_int32()
    array = (ctypes.c_int32 * max(len(held), 1))(*held)
    engine.api.fn.ml_sequence_resume(engine.handle, array, length, ctypes.byref(sequence))
    return sequence.value


def hold(engine: Engine, held: list[int]) -> None:
    for page in held:
        engine.api.fn.ml_page_hold(engine.handle, page)


def drop(engine: Engine, held: list[int]) -> None:
    for page in held:
        engine.api.fn.ml_page_drop(engine.handle, page)


def free(engine: Engine) -> int:
    return int(engine.api.fn.ml_pages_free(engine.handle))


@pytest.mark.parametrize(
    ("name", "length"), [("llama", 150), ("llama", 64), ("qwen35", 128), ("qwen35", 150)]
)
def test_a_sequence_resumes_from_held_pages(name: str, length: int) -> None:
    ids, other = tokens(150), tokens(40, 3)
    with Engine(model(name), sequences=1, positions=6 * PAGE) as engine:
        first = engine.open()
        engine.extend(first, ids, wants=False)
        held = pages(engine, first)
        assert len(held) == 3
        hold(engine, held)
        engine.close(first)
        assert free(engine) == 3
        again = resume(engine, held, length)
        start = engine.length(again)
        assert start == (length if name == "llama" else length // PAGE * PAGE)
        got = engine.extend(again, other)
        assert np.array_equal(got, alone(name, ids[:start] + other)[start:])
        engine.close(again)
        unchanged = resume(engine, held, 128)  # what was appended went into a copy
        assert np.array_equal(engine.extend(unchanged, ids[128:]), alone(name, ids)[128:])
        engine.close(unchanged)
        assert free(engine) == 3
        drop(engine, held)
        assert free(engine) == 6


def test_rows_that_find_no_page_change_nothing() -> None:
    ids = tokens(200)
    with Engine(model("llama"), sequences=3, context=128, positions=3 * PAGE) as engine:
        a, b, c = engine.open(), engine.open(), engine.open()
        engine.extend(a, ids[:100], wants=False)
        engine.extend(b, ids[:30], wants=False)
        assert free(engine) == 0
        rows = [(b, 30 + i, ids[30 + i], True) for i in range(34)]
        with pytest.raises(OutOfMemoryError, match="36 rows need 1 free pages of the cache, there are 0"):
            engine.forward([(a, 100, 5, False), *rows, (c, 0, 7, True)])
        assert [engine.length(s) for s in (a, b, c)] == [100, 30, 0]
        assert np.array_equal(engine.forward(rows), alone("llama", ids[:64])[30:])
        engine.close(a)
        assert free(engine) == 2


def test_the_pool_is_what_positions_say() -> None:
    sizes = []
    for positions in (0, 192, 200, 384):
        with Engine(model("llama"), sequences=4, context=128, positions=positions) as engine:
            sizes.append((engine.info.pages, engine.info.kv_bytes))
    assert [pages for pages, _ in sizes] == [8, 3, 4, 6]
    assert len({size / pages for pages, size in sizes}) == 1


def test_pages_are_counted_exactly_where_sequences_share_one() -> None:
    """Of two sequences on one unfinished page the first to write needs a copy, the second does not."""
    ids = tokens(32)
    with Engine(model("llama"), sequences=2, context=PAGE) as engine:
        a = engine.open()
        engine.extend(a, ids, wants=False)
        b = engine.fork(a, 32)
        array = (engine.api.types.ml_row * 2)((a, 32, 1, 1), (b, 32, 2, 1))
        assert engine.api.fn.ml_forward_pages(engine.handle, array, 2) == 1 == free(engine)
        got = engine.forward([(a, 32, 1, True), (b, 32, 2, True)])
        assert np.array_equal(got[0], alone("llama", [*ids, 1])[-1])
        assert np.array_equal(got[1], alone("llama", [*ids, 2])[-1])
        array[0].position = 7
        assert engine.api.fn.ml_forward_pages(engine.handle, array, 2) == -1


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match=r"positions is 100, must be 0 .* or at least the context, 128"):
        Engine(model("llama"), context=128, positions=100)
    with Engine(model("llama"), context=128) as engine:
        a = engine.open()
        engine.extend(a, [1], wants=False)
        (page,) = pages(engine, a)
        for wrong in (-1, 1000, page + 1):
            with pytest.raises(UsageError, match=f"page {wrong} is not in use"):
                hold(engine, [wrong])
        with pytest.raises(UsageError, match=f"page {page} is not held"):
            drop(engine, [page])
        with pytest.raises(UsageError, match="length is 129, the context is 128 positions"):
            resume(engine, [page] * 3, 129)
        with pytest.raises(OutOfMemoryError, match="all 1 sequences are open"):
            resume(engine, [page], 1)
        assert engine.api.fn.ml_page_references(engine.handle, page) == 1
        assert engine.api.fn.ml_sequence_pages(engine.handle, 5, None, 0) == -1


def test_a_long_prompt_keeps_copies_of_its_state_near_and_far() -> None:
    """Its share of the slots, closer together towards its end; another's are left alone."""
    path = model("qwen35")
    with Engine(path, sequences=2, checkpoints=8) as engine:
        a, b = engine.open(), engine.open()
        reach = engine.api.fn.ml_sequence_reachable
        engine.extend(b, tokens(130, 1), wants=False)
        engine.extend(a, tokens(319), wants=False)
        assert reach(engine.handle, b, 129) == 128
        assert [reach(engine.handle, a, n) for n in (256, 255, 200, 100)] == [256, 192, 192, 64]
        engine.truncate(a, 0)
        engine.close(b)
    with Engine(path, sequences=2, checkpoints=4) as engine:
        a, b = engine.open(), engine.open()
        engine.extend(b, tokens(130, 1), wants=False)
        engine.extend(a, tokens(319), wants=False)
        assert reach(engine.handle, b, 129) == 128
        assert [reach(engine.handle, a, n) for n in (256, 255)] == [256, 192]


@pytest.mark.parametrize("name", ["llama", "gemma2", "qwen35"])
def test_hidden_states_are_what_the_classifier_reads(name: str) -> None:
    """The classifier's product with them, quantized as rows are, gives the logits; any batch the same bits."""
    ids = tokens(70)
    states = []
    for batch in (128, 9):
        with Engine(model(name), batch=batch) as engine:
            sequence = engine.open()
            array = (engine.api.types.ml_row * 70)(
                *((sequence, i, token, i % 2) for i, token in enumerate(ids))
            )
            out = np.zeros((35, engine.info.dim), np.float32)
            pointer = out.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
            engine.api.fn.ml_forward_states(engine.handle, array, 70, pointer)
            states.append(out)
            more = engine.extend(sequence, [9])
    assert np.array_equal(*states)
    assert np.array_equal(more, alone(name, [*ids, 9])[-1:])
    exact = ExactArithmetic(Model(model(name)), "f32")
    h = exact.model.header
    logits = exact.softcap(
        exact.linear(states[0], "tok_emb" if h.shared_classifier else "wcls"), h.final_softcap
    )
    assert np.array_equal(logits, alone(name, ids)[1::2])
