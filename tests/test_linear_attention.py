"""Linear attention in the engine: a state that is carried, copied at page boundaries, and gone back to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from krafla import Model
from krafla.codegen.registry import machines
from krafla.tools.errors import UsageError
from krafla.tools.gen_random import write_random
from krafla.tools.mlb import LAYER_LINEAR, Header
from krafla.tools.mlb import Model as File
from krafla.tools.ref_forward import forward
from tests.engines import Engine, Logits, usable_isas
from tests.models import model

NAMES = ("qwen35", "qwen35_q4", "linear_last", "linear_only")
# Large enough that convolution and update are split over the pool.
PARALLEL: dict[str, Any] = {
    "dim": 128,
    "n_layers": 3,
    "n_heads": 4,
    "n_kv_heads": 2,
    "head_dim": 32,
    "hidden_dim": 256,
    "vocab": 300,
    "max_seq": 512,
    "qk_norm": 1,
    "attn_gate": 1,
    "rot_dim": 16,
    "lin_k_heads": 4,
    "lin_v_heads": 8,
    "lin_k_dim": 72,
    "lin_v_dim": 80,
    "lin_conv": 4,
}
FLAGS = bytes([LAYER_LINEAR, 0, LAYER_LINEAR])


def tokens(count: int, seed: int = 0) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(0, 256, count)]


@pytest.fixture(scope="module")
def parallel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("linear") / "parallel.mlb"
    write_random(path, Header(**PARALLEL), 1, FLAGS)
    return path


def alone(path: Path, ids: list[int], isa: str = "scalar") -> Logits:
    with Engine(path, isa) as engine:
        return engine.logits(ids)


@pytest.mark.parametrize("isa", ["scalar", "sse2", "sse41"])
@pytest.mark.parametrize("name", ["qwen35", "gemma2"])
def test_unfused_isas_equal_the_reference(name: str, isa: str) -> None:
    if isa not in usable_isas():
        pytest.skip(f"this CPU does not run {isa}")
    with Engine(model(name), isa, "q8", batch=16) as engine:
        assert np.array_equal(
            engine.logits(tokens(70)), forward(File(model(name)), tokens(70), "exact", "q8")
        )


@pytest.mark.parametrize("name", ["qwen35", "gemma2", "gemma3"])
def test_fused_isas_equal_each_other(name: str) -> None:
    fused = [isa for isa in usable_isas() if machines()[isa].fused]
    results = [alone(model(name), tokens(70), isa) for isa in fused]
    for result in results[1:]:
        assert np.array_equal(result, results[0])


def test_threads_batches_and_packing_do_not_show(parallel: Path) -> None:
    ids, isa = tokens(150), usable_isas()[-1]
    expected = alone(parallel, ids, isa)
    for pack in (0, 1):
        for threads in (1, 2, 3):
            for batch in (1, 7, 128):
                with Engine(parallel, isa, threads=threads, batch=batch, pack=pack) as engine:
                    assert np.array_equal(engine.logits(ids), expected), (pack, threads, batch)


def test_only_wanted_rows_of_a_last_linear_layer(parallel: Path) -> None:
    ids = tokens(50)
    everything = alone(parallel, ids)
    with Engine(parallel, batch=16) as engine:
        for wanted in ({49}, {0, 20, 21, 49}, set()):
            sequence = engine.open()
            got = engine.forward((sequence, i, token, i in wanted) for i, token in enumerate(ids))
            assert np.array_equal(got, everything[sorted(wanted)])
            assert np.array_equal(engine.extend(sequence, [7]), alone(parallel, [*ids, 7])[-1:])
            engine.close(sequence)


def test_interleaved_sequences_equal_single_runs() -> None:
    path = model("qwen35")
    one, two = tokens(90, 1), tokens(80, 2)
    with Engine(path, sequences=2, batch=9) as engine:
        a, b = engine.open(), engine.open()
        rows = [
            (sequence, i, ids[i], True)
            for i in range(90)
            for sequence, ids in ((a, one), (b, two))
            if i < len(ids)
        ]
        got = engine.forward(rows)
    of = np.array([row[0] for row in rows])
    assert np.array_equal(got[of == a], alone(path, one))
    assert np.array_equal(got[of == b], alone(path, two))


@pytest.mark.parametrize("batch", [1, 50, 200])
@pytest.mark.parametrize("name", NAMES)
def test_resumed_from_a_checkpoint(name: str, batch: int) -> None:
    path, ids = model(name), tokens(150)
    expected = alone(path, ids)
    with Engine(path, batch=batch) as engine:
        sequence = engine.open()
        engine.extend(sequence, [*ids[:128], *tokens(20, 5)], wants=False)
        for length in (128, 64, 0):
            engine.truncate(sequence, length)
            got = engine.extend(sequence, ids[length:])
            assert np.array_equal(got, expected[length:]), length


@pytest.mark.parametrize("shared", [0, 64, 100])
def test_forks_go_their_own_ways(shared: int) -> None:
    path = model("qwen35")
    first, other = tokens(100, 1), tokens(100, 2)
    with Engine(path, sequences=2) as engine:
        a = engine.open()
        engine.extend(a, first, wants=False)
        b = engine.fork(a, shared)
        rows = engine.extend(b, other)
        more = engine.extend(a, other)
    assert np.array_equal(rows, alone(path, first[:shared] + other)[shared:])
    assert np.array_equal(more, alone(path, first + other)[100:])


def reachable(engine: Engine, sequence: int, length: int) -> int:
    return int(engine.api.fn.ml_sequence_reachable(engine.handle, sequence, length))


def test_elsewhere_is_refused() -> None:
    with Engine(model("qwen35"), sequences=2) as engine:
        a = engine.open()
        engine.extend(a, tokens(100), wants=False)
        assert [reachable(engine, a, n) for n in (0, 63, 64, 99, 100, 101)] == [0, 0, 64, 64, 100, -1]
        with pytest.raises(UsageError, match=r"length is 70, but this model has a state: .* back to 64"):
            engine.truncate(a, 70)
        with pytest.raises(UsageError, match=r"length is 30, but this model has a state: .* back to 0"):
            engine.fork(a, 30)
        assert engine.length(a) == 100
        engine.truncate(a, 100)
        assert np.array_equal(engine.extend(a, [3]), alone(model("qwen35"), [*tokens(100), 3])[-1:])


def test_any_length_is_reachable_without_a_state() -> None:
    with Engine(model("llama")) as engine:
        a = engine.open()
        engine.extend(a, tokens(100), wants=False)
        assert [reachable(engine, a, n) for n in (0, 63, 99, 101)] == [0, 63, 99, -1]
        assert reachable(engine, 5, 0) == -1


def test_the_checkpoint_least_recently_used_gives_way() -> None:
    path, ids = model("qwen35"), tokens(200)
    with Engine(path, checkpoints=2) as engine:
        a = engine.open()
        engine.extend(a, ids[:130], wants=False)
        engine.truncate(a, 64)  # used: the one at 128 goes first
        engine.extend(a, ids[64:130], wants=False)
        engine.truncate(a, 64)
        engine.extend(a, ids[64:], wants=False)
        assert [reachable(engine, a, n) for n in (100, 150, 199)] == [0, 128, 192]
        engine.truncate(a, 128)
        assert np.array_equal(engine.extend(a, ids[128:]), alone(path, ids)[128:])
        engine.close(a)
        b = engine.open()  # pages of the closed sequence hold nothing of this one
        engine.extend(b, tokens(100, 9), wants=False)
        assert reachable(engine, b, 90) == 64
        engine.truncate(b, 64)
        assert np.array_equal(engine.extend(b, ids[:9]), alone(path, [*tokens(64, 9), *ids[:9]])[64:])


def test_pages_written_anew_lose_their_checkpoint() -> None:
    path = model("qwen35")
    with Engine(path, sequences=1) as engine:
        a = engine.open()
        engine.extend(a, tokens(128, 1), wants=False)
        engine.truncate(a, 0)
        engine.extend(a, tokens(100, 2), wants=False)
        assert reachable(engine, a, 99) == 64
        engine.truncate(a, 64)
        assert np.array_equal(engine.extend(a, [5]), alone(path, [*tokens(64, 2), 5])[-1:])


def test_a_model_goes_back_as_far_as_it_must() -> None:
    """Generation keeps a common prefix; here it starts at the checkpoint before it."""
    ids = tokens(150)
    m = Model.load(model("qwen35"), isa="scalar", threads=1)
    logits = [
        np.array(np.ctypeslib.as_array(m._advance(part)), copy=True) for part in (ids, ids[:100], ids[:70])
    ]
    for part, got in zip((ids, ids[:100], ids[:70]), logits, strict=True):
        assert np.array_equal(got, alone(model("qwen35"), part)[-1])


def test_logits_in_parts() -> None:
    ids = tokens(150)
    with Model.load(model("qwen35"), isa="scalar", threads=1) as m:
        parts = list(m.logits_in_parts(ids, 60))
        assert [len(part) for part in parts] == [60, 60, 30]
        assert np.array_equal(np.concatenate(parts), m.logits(ids))
