"""The engine: equal to the reference forward pass, and to itself however a run is cut, split or stored."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from krafla.codegen.registry import machines
from krafla.tools.errors import OutOfMemoryError, UsageError
from krafla.tools.gen_random import write_random
from krafla.tools.mlb import (
    ACT_GELU,
    LAYER_LOCAL_ROPE,
    LAYER_NO_ROPE,
    LAYER_WINDOW,
    Header,
    Model,
)
from krafla.tools.ref_forward import forward
from tests.engines import KV_TYPES, Engine, Logits, usable_isas
from tests.models import MODELS, header, model
from tests.native import CSRC, ROOT, build_program, write_source

UNFUSED = [name for name, machine in machines().items() if not machine.fused]
# Large enough that products and attention are split over the pool, also for a single row.
PARALLEL: dict[str, Any] = {
    "dim": 256,
    "n_layers": 2,
    "n_heads": 6,
    "n_kv_heads": 3,
    "head_dim": 32,
    "hidden_dim": 1056,
    "vocab": 1500,
    "max_seq": 1024,
}


def tokens(count: int, vocab: int = 256, seed: int = 0) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(0, vocab, count)]


def best_isa() -> str:
    return usable_isas()[-1]


@pytest.fixture(scope="module")
def parallel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parallel") / "parallel.mlb"
    write_random(path, Header(**PARALLEL), seed=1)
    return path


@cache
def reference(path: Path, count: int, kv: str) -> Logits:
    logits: Logits = forward(Model(path), tokens(count), "exact", kv)  # type: ignore[arg-type]
    return logits


@pytest.mark.parametrize("kv", KV_TYPES)
@pytest.mark.parametrize("name", MODELS)
def test_scalar_equals_the_reference(name: str, kv: str) -> None:
    with Engine(model(name), kv=kv, batch=16) as engine:
        got = engine.logits(tokens(40))
    assert np.array_equal(got, reference(model(name), 40, kv))


@pytest.mark.parametrize("isa", ["scalar", "sse2", "sse41", "avx"])
def test_unfused_isas_equal_the_reference(isa: str) -> None:
    if isa not in usable_isas():
        pytest.skip(f"this CPU does not run {isa}")
    for name in ("wide", "q4_f16_scales", "qwen3", "mixed_shared"):
        with Engine(model(name), isa=isa, batch=16) as engine:
            assert np.array_equal(engine.logits(tokens(40)), reference(model(name), 40, "f32")), name


def test_fused_isas_equal_each_other() -> None:
    for name in ("wide", "q4_f16_scales", "qwen3", "mixed_shared"):
        results = []
        for isa in usable_isas():
            if isa in UNFUSED:
                continue
            for kv in KV_TYPES:
                with Engine(model(name), isa=isa, kv=kv, batch=16) as engine:
                    results.append((isa, kv, engine.logits(tokens(40))))
        for isa, kv, logits in results:
            first = next(other for _, same, other in results if same == kv)
            assert np.array_equal(logits, first), (name, isa, kv)


GEMMA = {"act": ACT_GELU, "post_norms": 1, "embed_scale": 8.0, "attn_scale": 0.2, "qk_norm": 1}
FEATURES: dict[str, tuple[dict[str, Any], bytes]] = {
    "gemma": (
        {**GEMMA, "sliding_window": 9, "rope_local_theta": 100.0},
        bytes([LAYER_WINDOW | LAYER_LOCAL_ROPE, 0]),
    ),
    "partial_rotation": ({"rot_dim": 4}, b""),
    "everything": (
        {
            **GEMMA,
            "qkv_bias": 1,
            "sliding_window": 5,
            "rope_local_theta": 100.0,
            "scale_f16": 1,
            "rot_dim": 8,
        },
        bytes([LAYER_NO_ROPE | LAYER_WINDOW, LAYER_LOCAL_ROPE]),
    ),
}


@pytest.mark.parametrize("name", FEATURES)
def test_features_of_other_families_equal_the_reference(name: str, tmp_path: Path) -> None:
    changes, flags = FEATURES[name]
    path = tmp_path / "model.mlb"
    write_random(path, header("llama", layer_flags=int(bool(flags)), **changes), 3, flags)
    with Engine(path, batch=16) as engine:
        assert np.array_equal(engine.logits(tokens(40)), reference(path, 40, "f32"))


@pytest.mark.parametrize(("isa", "kv"), [*(("best", kv) for kv in KV_TYPES), ("scalar", "f32")])
def test_threads_batches_and_packing_do_not_show(isa: str, kv: str, parallel: Path) -> None:
    isa = best_isa() if isa == "best" else isa
    ids = tokens(150)
    with Engine(parallel, isa=isa, kv=kv) as engine:
        expected = engine.logits(ids)
    for pack in (0, 1) if isa != "scalar" else (1,):
        for threads in (1, 2, 3):
            for batch in (1, 7, 32, 128):
                with Engine(parallel, isa, kv, threads=threads, batch=batch, pack=pack) as engine:
                    assert engine.info.packed == (pack and isa != "scalar")
                    got = engine.logits(ids)
                assert np.array_equal(got, expected), (pack, threads, batch)


@pytest.mark.parametrize("kv", KV_TYPES)
def test_long_contexts_split_over_threads_do_not_show(kv: str, parallel: Path) -> None:
    """One row at a depth where its attention alone is worth the pool, and only the last rows want logits."""
    ids, results = tokens(760), []
    for threads in (1, 2, 3):
        with Engine(parallel, best_isa(), kv, threads=threads) as engine:
            sequence = engine.open()
            engine.extend(sequence, ids[:750], wants=False)
            steps = [engine.extend(sequence, [token]) for token in ids[750:]]
            results.append(np.concatenate(steps))
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])
    assert np.isfinite(results[0]).all()


def test_wanted_logits_do_not_depend_on_which_others_are_wanted() -> None:
    ids = tokens(50)
    with Engine(model("qwen2"), best_isa(), batch=16) as engine:
        everything = engine.logits(ids)
        for wanted in ({49}, {0, 20, 21, 49}, {15, 16}, set()):
            sequence = engine.open()
            got = engine.forward((sequence, i, token, i in wanted) for i, token in enumerate(ids))
            engine.close(sequence)
            assert np.array_equal(got, everything[sorted(wanted)])


def alone(path: Path, ids: list[int], kv: str = "f32") -> Logits:
    with Engine(path, best_isa(), kv) as engine:
        return engine.logits(ids)


@pytest.mark.parametrize("kv", KV_TYPES)
def test_interleaved_sequences_equal_single_runs(kv: str) -> None:
    path = model("mistral")
    lists = [tokens(length, seed=length) for length in (90, 70, 3)]
    with Engine(path, best_isa(), kv, sequences=3, batch=32, threads=2) as engine:
        opened = [engine.open() for _ in lists]
        rows, owners = [], []
        for position in range(90):
            for sequence, ids in zip(opened, lists, strict=True):
                if position < len(ids):
                    rows.append((sequence, position, ids[position], True))
                    owners.append(sequence)
        logits = engine.forward(rows)
    for sequence, ids in zip(opened, lists, strict=True):
        mine = logits[[i for i, owner in enumerate(owners) if owner == sequence]]
        assert np.array_equal(mine, alone(path, ids, kv))


@pytest.mark.parametrize("kv", KV_TYPES)
@pytest.mark.parametrize("shared", [0, 1, 63, 64, 65, 100])
def test_forks_share_a_prefix_and_go_their_own_ways(shared: int, kv: str) -> None:
    path = model("qwen3")
    first, second = tokens(130), tokens(130, seed=1)
    second[:shared] = first[:shared]
    with Engine(path, best_isa(), kv, sequences=3) as engine:
        one = engine.open()
        engine.extend(one, first[:100], wants=False)
        two = engine.fork(one, shared)
        assert engine.length(two) == shared
        # Both write into the page that they share, in turns.
        tail_two = [engine.extend(two, second[shared : shared + 10])]
        tail_one = engine.extend(one, first[100:])
        tail_two.append(engine.extend(two, second[shared + 10 :]))
    assert np.array_equal(tail_one, alone(path, first, kv)[100:])
    assert np.array_equal(np.concatenate(tail_two), alone(path, second, kv)[shared:])


@pytest.mark.parametrize("length", [0, 1, 63, 64, 99])
def test_truncating_forgets(length: int) -> None:
    path = model("llama")
    first, second = tokens(100), tokens(100, seed=1)
    second[:length] = first[:length]
    with Engine(path, best_isa(), "q8") as engine:
        sequence = engine.open()
        engine.extend(sequence, first, wants=False)
        engine.truncate(sequence, length)
        got = engine.extend(sequence, second[length:])
    assert np.array_equal(got, alone(path, second, "q8")[length:])


def test_a_full_context_is_usable_to_the_last_position() -> None:
    with Engine(model("llama"), context=70, sequences=2) as engine:
        sequences = [engine.open(), engine.open()]
        for sequence in sequences:
            assert engine.extend(sequence, tokens(70)).shape == (70, engine.info.vocab)
            with pytest.raises(UsageError, match="row 0: position 70 is beyond the context of 70 positions"):
                engine.extend(sequence, [1])


BAD_ROWS = [
    ([(5, 10, 1, True)], "row 0: sequence 5 is not open"),
    ([(-1, 10, 1, True)], "row 0: sequence -1 is not open"),
    ([(1, 0, 1, True)], "row 0: sequence 1 is not open"),
    ([(0, 10, 1, False), (0, 11, 263, True)], "row 1: token is 263, the model has tokens 0 to 262"),
    ([(0, 10, -1, True)], "row 0: token is -1, the model has tokens 0 to 262"),
    ([(0, 9, 1, True)], "row 0: position is 9, sequence 0 continues at 10"),
    ([(0, 10, 1, True), (0, 10, 1, True)], "row 1: position is 10, sequence 0 continues at 11"),
]


@pytest.mark.parametrize(("rows", "message"), BAD_ROWS, ids=[message for _, message in BAD_ROWS])
def test_bad_rows_change_nothing(rows: list[Any], message: str) -> None:
    ids = tokens(14)
    with Engine(model("llama"), sequences=2) as engine:
        sequence = engine.open()
        engine.extend(sequence, ids[:10], wants=False)
        with pytest.raises(UsageError, match=f"^{message}$"):
            engine.forward(rows)
        assert engine.length(sequence) == 10
        assert np.array_equal(engine.extend(sequence, ids[10:]), reference(model("llama"), 14, "f32")[10:])


def test_a_prompt_beyond_the_context_is_refused_whole() -> None:
    with Engine(model("llama"), context=64, batch=16) as engine:
        sequence = engine.open()
        with pytest.raises(UsageError, match="row 64: position 64 is beyond the context of 64 positions"):
            engine.extend(sequence, tokens(65))
        assert engine.length(sequence) == 0


def test_logits_need_room() -> None:
    with Engine(model("llama")) as engine:
        rows = (engine.api.types.ml_row * 1)((engine.open(), 0, 1, 1))
        with pytest.raises(UsageError, match="row 0 wants logits"):
            engine.api.fn.ml_forward(engine.handle, rows, 1, None)
        with pytest.raises(UsageError, match="n_rows is -1"):
            engine.api.fn.ml_forward(engine.handle, rows, -1, None)
        assert engine.forward([]).shape == (0, engine.info.vocab)


def test_sequence_errors() -> None:
    with Engine(model("llama"), sequences=2) as engine:
        assert [engine.open(), engine.open()] == [0, 1]
        with pytest.raises(OutOfMemoryError, match="all 2 sequences are open"):
            engine.open()
        with pytest.raises(OutOfMemoryError, match="all 2 sequences are open"):
            engine.fork(0, 0)
        with pytest.raises(UsageError, match="length is 1, sequence 0 has 0 positions"):
            engine.fork(0, 1)
        with pytest.raises(UsageError, match="length is -1, sequence 1 has 0 positions"):
            engine.truncate(1, -1)
        engine.close(0)
        engine.close(0)
        assert engine.length(0) == -1
        with pytest.raises(UsageError, match="sequence 0 is not open"):
            engine.truncate(0, 0)
        assert engine.open() == 0


BAD_OPTIONS = [
    ({"threads": -1}, "threads is -1, must be 0"),
    ({"threads": 1025}, "threads is 1025"),
    ({"batch": 5000}, "batch is 5000"),
    ({"sequences": -3}, "sequences is -3"),
    ({"context": 321}, "context is 321, .*llama-0-0.mlb allows 1 to 320 positions"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS, ids=[message for _, message in BAD_OPTIONS])
def test_bad_options_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Engine(model("llama"), **options)


def test_what_can_never_fit_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "long.mlb"
    write_random(path, header("llama", max_seq=1 << 24))
    with pytest.raises(
        OutOfMemoryError,
        match=r"long.mlb: needs .* GB .* keys and values of 68719476736 positions .* this machine has .* GB",
    ):
        Engine(path, sequences=4096, context=1 << 24)


def test_prediction_equals_what_is_opened(parallel: Path) -> None:
    with Engine(parallel, best_isa(), "f16", threads=2, context=500, batch=50, sequences=3) as engine:
        predicted = engine.api.types.ml_info()
        arguments = (ctypes.byref(predicted), bytes(parallel), ctypes.byref(engine.options))
        engine.api.fn.ml_engine_predict(*arguments)
        assert bytes(predicted) == bytes(engine.info)
        assert predicted.kv_bytes == 3 * 512 * 2 * 2 * 3 * 32 * 2
        assert predicted.peak_bytes >= predicted.kv_bytes + predicted.arena_bytes + predicted.weight_bytes


def test_defaults() -> None:
    with Engine(model("llama"), threads=0) as engine:
        info = engine.info
        assert (info.context, info.batch, info.sequences, info.kv_type) == (320, 128, 1, 0)
        assert info.threads >= 1
        assert engine.api.fn.ml_engine_notice(engine.handle) == b""


def test_profile_names_where_time_goes(parallel: Path) -> None:
    with Engine(parallel, profile=1) as engine:
        names = [engine.api.fn.ml_profile_stage_name(i).decode() for i in range(6)]
        assert names == ["qkv", "attention", "wo", "ffn", "classifier", "other"]
        assert engine.api.fn.ml_profile_stage_name(6) is None
        seconds = (ctypes.c_double * 6)()
        engine.logits(tokens(40))
        engine.api.fn.ml_profile_read(engine.handle, seconds)
        assert all(second > 0 for second in seconds)
        engine.api.fn.ml_profile_reset(engine.handle)
        engine.api.fn.ml_profile_read(engine.handle, seconds)
        assert list(seconds) == [0.0] * 6
    with Engine(parallel) as engine:
        engine.logits(tokens(4))
        engine.api.fn.ml_profile_read(engine.handle, seconds)
        assert list(seconds) == [0.0] * 6


# Counts what the C library is asked for between open and close; glibc's own functions do the work.
ALLOCATIONS = """
#define _GNU_SOURCE
#include "krafla.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int counting, calls;
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

void *malloc(size_t bytes)
{
    calls += counting;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    calls += counting;
    return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    calls += counting;
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    calls += counting;
    return __libc_memalign(alignment, bytes);
}

void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    calls += counting;
    return (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
}

static ml_row rows[100];
static float logits[100 * 2000];
static uint32_t scratch[2 * 2000];

int main(int argc, char **argv)
{
    ml_error error;
    ml_engine *engine;
    ml_options options = {.threads = 2, .batch = 32, .sequences = 2, .pack = 1, .kv_type = ML_KV_Q8};
    if (argc != 2 || ml_engine_open(&engine, argv[1], &options, &error) != ML_OK)
        return 1;
    counting = argc > 1;
    int32_t one, two;
    ml_status status = ml_sequence_open(engine, &one, &error);
    for (int32_t i = 0; i < 100; i++)
        rows[i] = (ml_row){one, i, i, 1};
    status |= ml_forward(engine, rows, 100, logits, &error);
    status |= ml_sequence_fork(engine, one, 90, &two, &error);
    rows[0] = (ml_row){two, 90, 7, 1};
    status |= ml_forward(engine, rows, 1, logits, &error);
    ml_sampler sampler = {.temperature = 1, .top_p = 0.9f, .min_p = 0.01f, .top_k = 50};
    ml_sampler_seed(&sampler, 1);
    int32_t token = ml_sample(&sampler, logits, 1500, scratch);
    status |= ml_sequence_truncate(engine, one, 3, &error);
    ml_sequence_close(engine, two);
    counting = 0;
    void *volatile proof = (counting = 1, malloc(1));
    counting = 0;
    free(proof);
    ml_engine_close(engine);
    printf("%d %d\\n", (int)status, calls);
    return token < 0;
}
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts glibc's allocations")
def test_nothing_is_allocated_after_load(parallel: Path) -> None:
    """The program counts one allocation of its own, which shows that it can count."""
    isa = "sse2" if "sse2" in usable_isas() else "scalar"
    sources = [*engine_sources(), *kernels(isa), write_source("allocations.c", ALLOCATIONS)]
    program = build_program(sources, isa)
    done = subprocess.run([program, parallel], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["0", "1"]


def engine_sources() -> list[Path]:
    tokenizer = ("tokenizer", "bpe", "unicode", "pretokenize", "mlt", "llama2")
    sources = [path for folder in ("core", "ops", "model") for path in sorted((CSRC / folder).glob("*.c"))]
    return [path for path in sources if not path.name.startswith(tokenizer)]


def kernels(isa: str) -> list[Path]:
    folders = {isa, "scalar"}
    return [path for folder in sorted(folders) for path in sorted((ROOT / "generated" / folder).glob("*.c"))]
