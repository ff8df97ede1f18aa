"""Preparing weights in C: the packed layout against NumPy, memory, the pack cache, row-major models."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from krafla.tools.gen_random import write_random
from krafla.tools.mlb import Q8_0, Header, Model, Tensor, layout
from tests.native import build_library, build_program, write_source

OK, FORMAT, ARGUMENT = 0, 2, 7
CORE = ("core/error.c", "core/arena.c", "core/bundle.c", "core/file.c", "core/threads.c", "core/pack.c")
SOURCES = (*CORE, "model/mlb.c", "model/pack_cache.c", "model/pack_model.c")
SANITIZE = ("-pthread", "-fsanitize=undefined", "-fsanitize-trap=undefined")
PROBE = r"""
#include "core/arena.h"
#include "model/pack_model.h"
#include "ml_config.h"
#include <stdlib.h>

typedef struct probe { ml_model model; ml_pool *pool; ml_weights weights; ml_memory memory; } probe;

void constants(int32_t *out)
{
#if defined(ML_HAS_PACK)
    const int32_t all[] = {ML_PACK_GROUP, ML_PACK_STEP, ML_PACK_Q8_OFFSET, ML_PACK_Q4_XOR,
                           ML_PACK_F16_SCALES};
    memcpy(out, all, sizeof all);
#else
    memset(out, 0, 5 * sizeof *out);
#endif
}

int32_t start(probe **out, const char *path, int32_t threads, const ml_weights_how *how, char *message)
{
    ml_error error = {0};
    probe *p = *out = calloc(1, sizeof *p);
    ml_status status = ml_model_map(&p->model, path, &error);
    if (status == ML_OK)
        status = ml_model_predict(&p->model, how->pack, &p->memory, &error);
    if (status == ML_OK)
        status = ml_pool_create(&p->pool, threads, &error);
    if (status == ML_OK)
        status = ml_weights_prepare(&p->weights, &p->model, p->pool, how, &error);
    if (status != ML_OK && (p->weights.pages || p->weights.cache.data))
        status = (ml_status)99; /* something stayed open */
    strcpy(message, error.message);
    return (int32_t)status;
}

void stop(probe *p)
{
    ml_weights_release(&p->weights);
    ml_pool_destroy(p->pool);
    ml_model_close(&p->model);
    free(p);
}

const ml_weights *weights(const probe *p) { return &p->weights; }
const ml_memory *memory(const probe *p) { return &p->memory; }
uint64_t pages_size(uint64_t bytes)
{
    size_t taken = 0;
    return ml_pages_size((size_t)bytes, &taken) ? taken : 0;
}
const void *file_data(const probe *p) { return p->model.file.data; }

typedef struct search { const char *name; ml_matrix *found; } search;
static ml_status look(void *context, ml_matrix *matrix, const char *name, ml_error *error)
{
    search *s = context;
    (void)error;
    if (strcmp(name, s->name) == 0)
        s->found = matrix;
    return ML_OK;
}
const ml_matrix *matrix(probe *p, const char *name)
{
    search s = {name, NULL};
    ml_model_visit(&p->model, look, &s, NULL);
    return s.found;
}
"""
ISAS = ["sse2", "sse41", "avx2", "avxvnni", "avx512vnni"]
Progress = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64
)


class How(ctypes.Structure):
    _fields_: ClassVar[list[Any]] = [
        ("pack", ctypes.c_bool),
        ("cache_path", ctypes.c_char_p),
        ("progress", Progress),
        ("progress_context", ctypes.c_void_p),
    ]


class File(ctypes.Structure):
    _fields_: ClassVar[list[Any]] = [
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("mapped", ctypes.c_bool),
        ("base", ctypes.c_void_p),
        ("base_size", ctypes.c_size_t),
    ]


class Weights(ctypes.Structure):
    _fields_: ClassVar[list[Any]] = [
        ("pages", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("cache", File),
        ("packed", ctypes.c_bool),
        ("cache_hit", ctypes.c_bool),
        ("notice", ctypes.c_char * 1020),
    ]


class Memory(ctypes.Structure):
    _fields_: ClassVar[list[Any]] = [(name, ctypes.c_uint64) for name in ("own", "mapped", "peak")]


class Matrix(ctypes.Structure):
    _fields_: ClassVar[list[Any]] = [
        *((name, ctypes.c_void_p) for name in ("quants", "scales", "packed", "packed_scales")),
        ("rows", ctypes.c_uint32),
        ("cols", ctypes.c_uint32),
        ("wtype", ctypes.c_uint8),
        ("f16_scales", ctypes.c_bool),
        ("packed_f16", ctypes.c_bool),
    ]


@dataclass
class Pack:
    """The constants of an ISA's layout."""

    group: int
    step: int
    offset: int
    xor: int
    f16: int


@dataclass
class Prepared:
    """A prepared model inside the `with` block of Build.prepare."""

    status: int
    message: str
    weights: Weights
    memory: Memory
    build: Build
    handle: ctypes.c_void_p

    def matrix(self, name: str) -> Matrix:
        return Matrix.from_address(self.build.library.matrix(self.handle, name.encode()))


def array(address: int, shape: tuple[int, ...], kind: type[np.generic]) -> npt.NDArray[Any]:
    """A copy of memory that belongs to C."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    return np.frombuffer(ctypes.string_at(address, size), kind).reshape(shape)


class Build:
    def __init__(self, isa: str, defines: tuple[str, ...] = ()) -> None:
        self.library = build_library(
            [*SOURCES, write_source("probe_pack.c", PROBE)], isa, defines, SANITIZE, cpu="scalar"
        )
        for name in ("weights", "memory", "matrix", "file_data"):
            getattr(self.library, name).restype = ctypes.c_void_p
        self.library.pages_size.restype = ctypes.c_uint64
        self.library.pages_size.argtypes = [ctypes.c_uint64]
        numbers = (ctypes.c_int32 * 5)()
        self.library.constants(numbers)
        self.pack = Pack(*numbers)

    @contextmanager
    def prepare(
        self,
        path: Path,
        pack: bool = True,
        cache: Path | None = None,
        threads: int = 2,
        progress: Callable[[str, int, int], int] | None = None,
    ) -> Iterator[Prepared]:
        handle, message = ctypes.c_void_p(), ctypes.create_string_buffer(1024)

        def called(_: object, what: bytes, done: int, total: int) -> int:
            return progress(what.decode(), done, total) if progress else 0

        how = How(pack, str(cache).encode() if cache else None, Progress(called), None)
        status = self.library.start(
            ctypes.byref(handle), str(path).encode(), threads, ctypes.byref(how), message
        )
        weights = Weights.from_address(self.library.weights(handle))
        memory = Memory.from_address(self.library.memory(handle))
        yield Prepared(status, message.value.decode(), weights, memory, self, handle)
        self.library.stop(handle)


@pytest.fixture(scope="module", params=ISAS)
def build(request: pytest.FixtureRequest) -> Build:
    return Build(request.param)


@pytest.fixture(scope="module")
def avx2() -> Build:
    return Build("avx2")


# Row counts that are no multiple of any group: vocab 43, kv_dim 40.
BASE = Header(dim=64, n_layers=2, n_heads=4, n_kv_heads=2, head_dim=24, hidden_dim=96, vocab=43, max_seq=64)
HEADERS = {
    "q8": BASE,
    "q8_shared": replace(BASE, shared_classifier=1),
    "q8_f16": replace(BASE, scale_f16=1),
    "q4": replace(BASE, wtype=2),
    "q4_f16_mixed_shared": replace(
        BASE, wtype=2, scale_f16=1, q8_mask=2 | 4, shared_classifier=1, qkv_bias=1
    ),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pack")
    for name, header in HEADERS.items():
        write_random(folder / f"{name}.mlb", header, seed=1)
    return {name: folder / f"{name}.mlb" for name in HEADERS}


def matrices(model: Model) -> dict[str, Tensor]:
    """Every matrix by the name that the engine gives it, tok_emb apart."""
    found = {t.name: t for t in model.tensors.values() if t.kind and t.name != "tok_emb"}
    return found if "wcls" in found else {**found, "wcls": model.tensors["tok_emb"]}


def pack_in_numpy(model: Model, t: Tensor, p: Pack) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
    """The packed layout, written down a second time: transposes of the padded matrix."""
    groups, blocks = -(-t.rows // p.group), t.cols // 32
    block_bytes = 32 if t.kind == Q8_0 else 16
    raw = model._data[t.offset : t.offset + t.rows * t.row_bytes].reshape(t.rows, t.row_bytes)
    padding = 0 if t.kind == Q8_0 else 0x88
    padded = np.full((groups * p.group, t.row_bytes), padding, np.uint8)
    padded[: t.rows] = raw
    padded = padded + np.uint8(p.offset) if t.kind == Q8_0 else padded ^ np.uint8(p.xor)
    shape = (groups, p.group, blocks, block_bytes // p.step, p.step)
    quants = padded.reshape(shape).transpose(0, 2, 3, 1, 4)
    d = np.zeros((groups * p.group, blocks), np.float32)
    d[: t.rows] = model.scales(t.name)
    scales = d.reshape(groups, p.group, blocks).transpose(0, 2, 1)
    return np.ascontiguousarray(quants), np.ascontiguousarray(scales)


def assert_packed(prepared: Prepared, path: Path) -> None:
    """Every matrix is where and what it should be."""
    model, p = Model(path), prepared.build.pack
    for name, t in matrices(model).items():
        m = prepared.matrix(name)
        quants, scales = pack_in_numpy(model, t, p)
        assert (m.quants, m.scales) == (None, None)
        assert m.packed % 64 == 0
        assert m.packed_scales % 64 == 0
        assert m.packed_f16 == bool(model.header.scale_f16 and p.f16)
        np.testing.assert_array_equal(array(m.packed, quants.shape, np.uint8), quants, name)
        kind = np.float16 if m.packed_f16 else np.float32
        np.testing.assert_array_equal(
            array(m.packed_scales, scales.shape, kind).astype(np.float32), scales, name
        )
    assert_embedding_in_file(prepared, model)


def assert_embedding_in_file(prepared: Prepared, model: Model) -> None:
    m, t = prepared.matrix("tok_emb"), model.tensors["tok_emb"]
    start = prepared.build.library.file_data(prepared.handle)
    assert (m.quants - start, m.scales - start, m.packed) == (t.offset, t.scales_offset, None)
    assert m.f16_scales == bool(model.header.scale_f16)


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("threads", [1, 3])
def test_layout(build: Build, files: dict[str, Path], name: str, threads: int) -> None:
    with build.prepare(files[name], threads=threads) as prepared:
        assert (prepared.status, prepared.message) == (OK, "")
        assert prepared.weights.packed
        assert not prepared.weights.cache_hit
        assert prepared.memory.own == prepared.build.library.pages_size(prepared.weights.bytes)
        assert_packed(prepared, files[name])


@pytest.mark.parametrize("name", HEADERS)
def test_read_files_pack_like_mapped_ones(files: dict[str, Path], name: str) -> None:
    with Build("avx2", ("ML_NO_MMAP", "ML_THREADS=1")).prepare(files[name]) as prepared:
        assert prepared.status == OK
        assert_packed(prepared, files[name])


@pytest.mark.parametrize("isa", ["scalar", "avx2"])
@pytest.mark.parametrize("name", HEADERS)
def test_row_major_models_keep_the_file_and_get_float_scales(
    files: dict[str, Path], name: str, isa: str
) -> None:
    model = Model(files[name])
    with Build(isa).prepare(files[name], pack=isa == "scalar") as prepared:  # scalar has no packed kernels
        assert (prepared.status, prepared.weights.packed) == (OK, False)
        for matrix, t in matrices(model).items():
            m = prepared.matrix(matrix)
            raw = model._data[t.offset : t.offset + t.rows * t.row_bytes]
            np.testing.assert_array_equal(array(m.quants, raw.shape, np.uint8), raw)
            assert (m.packed, m.f16_scales) == (None, False)
            scales = array(m.scales, (t.rows, t.blocks), np.float32)
            np.testing.assert_array_equal(scales, model.scales(t.name))
        assert_embedding_in_file(prepared, model)
        if not model.header.scale_f16:
            assert prepared.weights.bytes == 0


@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("name", ["q8", "q8_shared", "q4_f16_mixed_shared"])
def test_minus_128_is_found_while_preparing(
    avx2: Build, files: dict[str, Path], tmp_path: Path, name: str, pack: bool
) -> None:
    model = Model(files[name])
    for t in model.tensors.values():
        if t.kind != Q8_0:
            continue
        data = bytearray(files[name].read_bytes())
        data[t.offset + (t.rows - 1) * t.cols + 5] = 0x80
        path = tmp_path / "model.mlb"
        path.write_bytes(data)
        cache = tmp_path / "model.pk8"
        with avx2.prepare(path, pack, cache) as prepared:
            assert prepared.status == FORMAT
            name_seen = "wcls" if t.name == "tok_emb" and model.header.shared_classifier else t.name
            where = f"{path}: {name_seen} has a quant of -128 in row {t.rows - 1}, column 5"
            assert prepared.message == f"{where}, must be -127 to 127"
        assert not cache.exists()


@pytest.mark.parametrize(("pack", "what"), [(True, "packing weights"), (False, "checking weights")])
def test_progress_covers_the_work_and_can_stop_it(
    avx2: Build, files: dict[str, Path], pack: bool, what: str
) -> None:
    calls: list[tuple[str, int, int]] = []

    def record(*call: Any) -> int:
        calls.append(call)
        return 0

    with avx2.prepare(files["q8"], pack, progress=record) as prepared:
        assert prepared.status == OK
    assert {call[0] for call in calls} == {what}
    assert [done for _, done, _ in calls] == sorted(done for _, done, _ in calls)
    assert calls[-1][1] == calls[-1][2] == calls[0][2] > 0
    with avx2.prepare(files["q8"], pack, progress=lambda what, done, total: 1) as prepared:
        assert (prepared.status, prepared.message) == (ARGUMENT, "stopped")


# The pack cache.


def attempt(build: Build, path: Path, cache: Path) -> bool:
    """Prepares with a cache, checks everything, returns whether the cache was used."""
    with build.prepare(path, cache=cache) as prepared:
        assert (prepared.status, prepared.weights.notice) == (OK, b"")
        assert_packed(prepared, path)
        hit: bool = prepared.weights.cache_hit
        if hit:
            start = prepared.weights.cache.data
            assert start + 512 <= prepared.matrix("wcls").packed < start + prepared.weights.cache.size
            assert prepared.weights.pages is None
    assert [p.name for p in cache.parent.glob("*.tmp")] == []
    return hit


@pytest.mark.parametrize("name", HEADERS)
def test_second_run_maps_the_cache(build: Build, files: dict[str, Path], tmp_path: Path, name: str) -> None:
    cache = tmp_path / "model.pk"
    assert not attempt(build, files[name], cache)
    written = cache.read_bytes()
    assert attempt(build, files[name], cache)
    assert cache.read_bytes() == written
    assert written[:4] == b"MLPK"
    p = build.pack
    assert list(np.frombuffer(written[4:28], np.uint32)) == [1, p.group, p.offset, p.xor, p.step, p.f16]
    assert int.from_bytes(written[40:48], "little") == files[name].stat().st_size
    assert written[256:512] == files[name].read_bytes()[:256]


def test_another_layout_repacks(files: dict[str, Path], tmp_path: Path) -> None:
    """avx2 and avxvnni have groups of 8 rows, but only the latter adds 128."""
    cache, first, second = tmp_path / "model.pk8", Build("avx2"), Build("avxvnni")
    assert first.pack.group == second.pack.group
    assert [attempt(build, files["q8"], cache) for build in (first, first, second, second, first)] == [
        False,
        True,
        False,
        True,
        False,
    ]


def changed_models(path: Path) -> Iterator[tuple[str, bytes]]:
    model = Model(path)
    data = path.read_bytes()
    yield "longer", data + bytes(64)
    yield "another rope_theta", data[:36] + np.float32(5000).tobytes() + data[40:]
    for t in matrices(model).values():  # a fine-tuned copy: all scales of one matrix a little different
        scales = np.frombuffer(data[t.scales_offset : t.end], np.float32) * np.float32(1.001)
        yield t.name, data[: t.scales_offset] + scales.tobytes() + data[t.end :]


def test_a_changed_model_repacks(avx2: Build, files: dict[str, Path], tmp_path: Path) -> None:
    path, cache = tmp_path / "model.mlb", tmp_path / "model.pk8"
    original = files["q8"].read_bytes()
    for what, data in changed_models(files["q8"]):
        path.write_bytes(original)
        attempt(avx2, path, cache)
        path.write_bytes(data)
        assert not attempt(avx2, path, cache), what
        assert attempt(avx2, path, cache), what


def test_a_changed_matrix_of_a_large_model_repacks(avx2: Build, tmp_path: Path) -> None:
    """Larger than what is hashed completely: one changed matrix is noticed all the same."""
    path, cache = tmp_path / "model.mlb", tmp_path / "model.pk8"
    header = replace(BASE, dim=256, hidden_dim=512, vocab=600, n_layers=3)
    write_random(path, header)
    original = path.read_bytes()
    assert len(original) > 1 << 20
    for t in matrices(Model(path)).values():
        path.write_bytes(original)
        attempt(avx2, path, cache)
        scales = np.frombuffer(original[t.scales_offset : t.end], np.float32) * np.float32(1.001)
        path.write_bytes(original[: t.scales_offset] + scales.tobytes() + original[t.end :])
        assert not attempt(avx2, path, cache), t.name


@pytest.mark.parametrize("size", [0, 3, 511, 512, 513, -1])
def test_a_truncated_cache_is_rewritten(
    avx2: Build, files: dict[str, Path], tmp_path: Path, size: int
) -> None:
    cache = tmp_path / "model.pk8"
    attempt(avx2, files["q4"], cache)
    good = cache.read_bytes()
    cache.write_bytes(good[:size])
    assert not attempt(avx2, files["q4"], cache)
    assert cache.read_bytes() == good


@pytest.mark.parametrize("at", [0, 4, 8, 12, 16, 20, 24, 32, 40, 48, 100, 248, 256, 300, 511, 512, 900, -1])
def test_a_corrupt_cache_is_rewritten(avx2: Build, files: dict[str, Path], tmp_path: Path, at: int) -> None:
    cache = tmp_path / "model.pk8"
    attempt(avx2, files["q4"], cache)
    good = cache.read_bytes()
    bad = bytearray(good)
    bad[at] ^= 0x10
    cache.write_bytes(bad)
    assert not attempt(avx2, files["q4"], cache)
    assert cache.read_bytes() == good


def test_an_unwritable_place_is_only_reported(avx2: Build, files: dict[str, Path], tmp_path: Path) -> None:
    in_the_way = tmp_path / "model.pk8"
    (in_the_way / "folder").mkdir(parents=True)
    missing = tmp_path / "nowhere" / "model.pk8"
    for cache, reason in ((missing, "No such file or directory"), (in_the_way, "Is a directory")):
        with avx2.prepare(files["q8"], cache=cache) as prepared:
            assert (prepared.status, prepared.message) == (OK, "")
            assert prepared.weights.notice.decode() == f"{cache}: cannot write it: {reason}"
            assert_packed(prepared, files["q8"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.pk8"]


# Memory.

PEAK = r"""
#include "core/arena.h"
#include "model/pack_model.h"
#include <stdio.h>
#include <stdlib.h>

static long status_kb(const char *key)
{
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            value = atol(line + strlen(key) + 1);
    if (file)
        fclose(file);
    return value;
}

int main(int argc, char **argv)
{
    ml_error error = {0};
    ml_model model;
    ml_pool *pool;
    ml_weights weights;
    ml_memory memory;
    ml_weights_how how = {.pack = argv[2][0] == '1', .cache_path = argc > 3 ? argv[3] : NULL};
    if (ml_model_map(&model, argv[1], &error) || ml_model_predict(&model, how.pack, &memory, &error) ||
        ml_pool_create(&pool, 2, &error) || ml_weights_prepare(&weights, &model, pool, &how, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    printf("%ld %ld %llu %d\n", status_kb("VmHWM:"), status_kb("VmRSS:"), (unsigned long long)memory.peak,
           weights.cache_hit);
    return 0;
}
"""
MB = 1 << 20


def write_large(path: Path, header: Header) -> int:
    """A model of cheap pseudo-random weights; returns the bytes of its largest matrix."""
    tensors = layout(header)
    rng = np.random.default_rng(0)
    pool = rng.integers(-127, 128, 4 * MB, np.int8).view(np.uint8)
    data = np.memmap(path, np.uint8, "w+", shape=(max(t.end for t in tensors.values()),))
    data[:256] = np.frombuffer(header.pack(), np.uint8)
    largest = 0
    for t in tensors.values():
        if t.kind:
            size = t.rows * t.row_bytes
            data[t.offset : t.offset + size] = np.resize(pool, size)
            largest = max(largest, t.end - t.offset)
    data.flush()
    return largest


@pytest.mark.parametrize("shared", [0, 1])
@pytest.mark.parametrize("isa", ["avx2", "sse2"])
def test_peak_memory(tmp_path: Path, isa: str, shared: int) -> None:
    """At most the file, its largest matrix and 40 MB; and about what was predicted."""
    header = Header(
        dim=1024,
        n_layers=5,
        n_heads=16,
        n_kv_heads=4,
        hidden_dim=4096,
        vocab=32000,
        max_seq=512,
        shared_classifier=shared,
        scale_f16=1,
    )
    path, cache = tmp_path / "model.mlb", tmp_path / "model.pk"
    largest = write_large(path, header)
    size = path.stat().st_size
    assert size > 100 * MB
    program = build_program([*SOURCES, write_source("peak.c", PEAK)], isa, extra=("-pthread",), cpu="scalar")

    def measure(*arguments: str) -> tuple[int, int, int, int]:
        done = subprocess.run([program, path, *arguments], capture_output=True, text=True, check=True)
        peak, resident, predicted, hit = map(int, done.stdout.split())
        return peak * 1024, resident * 1024, predicted, hit

    peak, resident, predicted, _ = measure("1", str(cache))
    assert peak <= size + largest + 40 * MB
    assert predicted - 20 * MB <= peak <= predicted + 8 * MB
    assert resident <= predicted - 8 * MB
    peak, _, _, hit = measure("1", str(cache))
    assert hit
    assert peak <= predicted + 8 * MB
    peak, _, predicted, _ = measure("0")
    assert peak <= predicted + 8 * MB
