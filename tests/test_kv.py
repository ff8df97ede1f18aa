"""model/kv and ops/kv_layout: pages, sharing and copying against a plain model; what each type stores."""

from __future__ import annotations

import ctypes
import random

import numpy as np
import pytest

from krafla.tools import exact_ops
from tests.native import build_library, write_source

# Tags every position with a number in its first key, so that a lost, shared or overwritten page shows.
SHIM = """
#include "model/kv.h"

static ml_kv kv;
static ml_arena arena;
int open_kv(int type, int heads, int dim, int sequences, int context);
void close_kv(void);
int kv_open(void);
int kv_fork(int source, int length);
void kv_truncate(int sequence, int length);
void kv_close(int sequence);
void kv_append(int sequence, const float *keys, const float *values);
void kv_read(int sequence, int position, int half, int head, void *elements, float *scale);
int kv_length(int sequence);
int kv_consistent(void);
void kv_rotate(float *x, int heads, int dim, float factor);

int open_kv(int type, int heads, int dim, int sequences, int context)
{
    ml_kv_layout layout;
    if (!ml_kv_layout_init(&layout, type, 2, heads, dim))
        return 1;
    if (ml_kv_init(&kv, &layout, sequences, context, 0, NULL))
        return 1;
    arena = (ml_arena){0};
    ml_kv_carve(&kv, &arena);
    if (ml_arena_allocate(&arena, "test", NULL))
        return 1;
    ml_kv_carve(&kv, &arena);
    return ml_kv_allocate(&kv, NULL) != ML_OK;
}

void close_kv(void)
{
    ml_kv_release(&kv);
    ml_arena_release(&arena);
}

int kv_open(void)
{
    return ml_kv_open(&kv);
}

int kv_fork(int source, int length)
{
    return ml_kv_fork(&kv, source, length);
}

void kv_truncate(int sequence, int length)
{
    ml_kv_truncate(&kv, sequence, length);
}

void kv_close(int sequence)
{
    ml_kv_close(&kv, sequence);
}

/* Into the second of two layers. */
void kv_append(int sequence, const float *keys, const float *values)
{
    ml_kv_append(&kv, sequence);
    int position = kv.sequences[sequence].length - 1;
    unsigned char *page = ml_kv_page(&kv, kv.sequences[sequence].pages[position / ML_KV_PAGE]);
    ml_kv_store(&kv.layout, page, 1, position, keys, values);
}

void kv_read(int sequence, int position, int half, int head, void *elements, float *scale)
{
    unsigned char *page = ml_kv_page(&kv, kv.sequences[sequence].pages[position / ML_KV_PAGE]);
    int slot = position % ML_KV_PAGE;
    size_t dim = (size_t)kv.layout.head_dim, wide = (size_t)kv.layout.key_dim;
    size_t size = kv.layout.head_bytes / ML_KV_PAGE / wide;
    bool position_minor = half == ML_KV_KEYS && kv.layout.type != ML_KV_Q8;
    const unsigned char *stored = ml_kv_elements(&kv.layout, page, 1, half, head);
    for (size_t d = 0; d < dim; d++) {
        size_t row = (size_t)slot * (half == ML_KV_KEYS ? wide : dim);
        size_t at = position_minor ? d * ML_KV_PAGE + (size_t)slot : row + d;
        memcpy((unsigned char *)elements + d * size, stored + at * size, size);
    }
    if (kv.layout.type == ML_KV_Q8)
        *scale = ml_kv_scales(&kv.layout, page, 1, half, head)[slot];
}

int kv_length(int sequence)
{
    return ml_kv_is_open(&kv, sequence) ? kv.sequences[sequence].length : -1;
}

void kv_rotate(float *x, int heads, int dim, float factor)
{
    ml_rotate_heads(x, heads, dim, factor);
}

/* Every page is free once, or held as often as it is counted. */
int kv_consistent(void)
{
    uint32_t held[4096] = {0};
    for (int i = 0; i < kv.n_sequences; i++)
        for (int p = 0; kv.sequences[i].open && p * ML_KV_PAGE < kv.sequences[i].length; p++)
            held[kv.sequences[i].pages[p]]++;
    for (uint32_t i = 0; i < kv.n_free; i++)
        if (held[kv.free_pages[i]] != 0 || kv.references[kv.free_pages[i]] != 0)
            return 0;
    uint32_t used = 0;
    for (uint32_t page = 0; page < kv.n_pages; page++) {
        if (held[page] != kv.references[page])
            return 0;
        used += held[page] > 0;
    }
    return used + kv.n_free == kv.n_pages;
}
"""
SOURCES = ["model/kv.c", "ops/kv_layout.c", "core/arena.c", "core/error.c"]


@pytest.fixture(scope="module")
def lib() -> ctypes.CDLL:
    return build_library([*SOURCES, write_source("kv_shim.c", SHIM)])


def floats(values: np.ndarray) -> ctypes.Array[ctypes.c_float]:
    return (ctypes.c_float * values.size)(*values.ravel().tolist())


class Cache:
    """The C cache beside lists of tags that say what it must hold."""

    def __init__(self, lib: ctypes.CDLL, sequences: int, context: int) -> None:
        self.lib, self.context, self.count = lib, context, sequences
        assert lib.open_kv(0, 1, 2, sequences, context) == 0
        self.tags: dict[int, list[int]] = {}
        self.next = 0

    def append(self, sequence: int, count: int) -> None:
        for _ in range(min(count, self.context - len(self.tags[sequence]))):
            self.next += 1
            self.lib.kv_append(sequence, floats(np.array([self.next, 0])), floats(np.array([0, -self.next])))
            self.tags[sequence].append(self.next)

    def check(self) -> None:
        assert self.lib.kv_consistent()
        element, scale = (ctypes.c_float * 2)(), ctypes.c_float()
        for sequence, tags in self.tags.items():
            assert self.lib.kv_length(sequence) == len(tags)
            for position, tag in enumerate(tags):
                self.lib.kv_read(sequence, position, 0, 0, element, ctypes.byref(scale))
                assert element[0] == tag, (sequence, position)
                self.lib.kv_read(sequence, position, 1, 0, element, ctypes.byref(scale))
                assert element[1] == -tag, (sequence, position)

    def step(self, rng: random.Random) -> None:
        """One random operation."""
        busy = sorted(self.tags)
        action = rng.choice(["open", "fork", "append", "append", "append", "truncate", "close"])
        if action == "open" or not busy:
            opened = self.lib.kv_open()
            assert (opened < 0) == (len(busy) == self.count)
            if opened >= 0:
                self.tags[opened] = []
            return
        sequence = rng.choice(busy)
        length = rng.randint(0, len(self.tags[sequence]))
        if action == "fork":
            opened = self.lib.kv_fork(sequence, length)
            assert (opened < 0) == (len(busy) == self.count)
            if opened >= 0:
                self.tags[opened] = self.tags[sequence][:length]
        elif action == "append":
            self.append(sequence, rng.choice([1, 3, 64, 100]))
        elif action == "truncate":
            self.lib.kv_truncate(sequence, length)
            del self.tags[sequence][length:]
        else:
            self.lib.kv_close(sequence)
            del self.tags[sequence]


@pytest.mark.parametrize("seed", range(4))
def test_random_operations_keep_every_sequence_whole(lib: ctypes.CDLL, seed: int) -> None:
    rng = random.Random(seed)
    cache = Cache(lib, sequences=4, context=200)
    for _ in range(250):
        cache.step(rng)
        cache.check()
    lib.close_kv()


def test_all_sequences_can_be_full_at_once(lib: ctypes.CDLL) -> None:
    cache = Cache(lib, sequences=3, context=130)
    cache.tags[lib.kv_open()] = []
    cache.append(0, 130)
    for _ in range(2):
        cache.tags[lib.kv_fork(0, 70)] = cache.tags[0][:70]
    cache.check()
    for sequence in (1, 2):
        cache.append(sequence, 130)
    cache.check()
    assert [len(tags) for tags in cache.tags.values()] == [130, 130, 130]
    lib.close_kv()


def test_a_size_that_overflows_is_refused(lib: ctypes.CDLL) -> None:
    assert lib.open_kv(0, 65536, 65536, 4096, 1 << 24) != 0


@pytest.mark.parametrize(("kind", "dtype"), [(0, np.float32), (1, np.float16), (2, np.int8)])
def test_what_is_stored(lib: ctypes.CDLL, kind: int, dtype: type) -> None:
    heads, dim = 3, 10
    rng = np.random.default_rng(kind)
    assert lib.open_kv(kind, heads, dim, 1, 70) == 0
    sequence = lib.kv_open()
    rows = []
    for position in range(70):
        keys = (rng.standard_normal((heads, dim)) * 10.0 ** rng.integers(-6, 4)).astype(np.float32)
        values = (rng.standard_normal((heads, dim)) * (position % 5 != 0)).astype(np.float32)
        lib.kv_append(sequence, floats(keys), floats(values))
        rows.append((keys, values))
    for position, halves in enumerate(rows):
        for half, values in enumerate(halves):
            for head in range(heads):
                out, scale = np.zeros(dim, dtype), ctypes.c_float()
                lib.kv_read(sequence, position, half, head, out.ctypes, ctypes.byref(scale))
                wanted, wanted_scale = stored(values[head], dtype)
                assert np.array_equal(out, wanted)
                assert kind != 2 or np.float32(scale.value) == wanted_scale
    lib.close_kv()


@pytest.mark.parametrize("dim", [2, 6, 16, 64, 80, 96, 128, 256])
def test_heads_are_rotated(lib: ctypes.CDLL, dim: int) -> None:
    """By a Hadamard matrix over the power of two in the head's size; scores are what they were."""
    rng = np.random.default_rng(dim)
    q, k = rng.standard_normal((2, 3, dim)).astype(np.float32)
    size = dim & -dim
    turned = []
    for x, factor in ((q, 1 / size), (k, 1.0)):
        out = floats(x)
        lib.kv_rotate(out, 3, dim, ctypes.c_float(factor))
        turned.append(np.array(out, np.float32).reshape(3, dim))
        assert np.array_equal(turned[-1], exact_ops.rotate_heads(x) * np.float32(factor))
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    assert np.allclose(turned[1].reshape(3, -1, size), k.reshape(3, -1, size) @ matrix, atol=1e-4)
    assert np.allclose((turned[0] * turned[1]).sum(axis=1), (q * k).sum(axis=1), atol=1e-4)


def stored(x: np.ndarray, dtype: type) -> tuple[np.ndarray, np.float32]:
    """The row as the cache must hold it."""
    if dtype is not np.int8:
        return x.astype(dtype), np.float32(1)
    largest = np.abs(x).max()
    if largest < np.float32(1e-30):
        return np.zeros(len(x), np.int8), np.float32(0)
    t = x * (np.float32(127) / largest) + np.copysign(np.float32(0.5), x)
    return np.trunc(np.clip(t, -127, 127)).astype(np.int8), largest / np.float32(127)
