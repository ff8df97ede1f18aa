"""The .mlb loader in C: every row of the format's validation table, truncations, mmap and fread."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krafla.tools.errors import FormatError, ShapeError
from krafla.tools.gen_random import write_random
from krafla.tools.mlb import Header, Model, layout
from tests.native import build_library, write_source

OK, IO, FORMAT, SHAPE, NOMEM = range(5)
SOURCES = ("core/error.c", "core/arena.c", "core/bundle.c", "core/file.c", "model/mlb.c")
# Undefined behaviour ends the test run.
SANITIZE = ("-fsanitize=undefined", "-fsanitize-trap=undefined")
PROBE = r"""
#include "model/mlb.h"
#include <stdio.h>

typedef struct text { char *at; size_t left; const ml_model *model; } text;

static ml_status describe(void *context, ml_matrix *m, const char *name, ml_error *error)
{
    text *t = context;
    (void)error;
    int n = snprintf(t->at, t->left, "%s %td %td %u %u %d %d\n", name,
                     (const unsigned char *)m->quants - t->model->file.data,
                     (const unsigned char *)m->scales - t->model->file.data, m->rows, m->cols, m->wtype,
                     m->f16_scales);
    t->at += n;
    t->left -= (size_t)n;
    return ML_OK;
}

int32_t probe(const char *path, int32_t map_only, char *message, char *layout, size_t capacity,
              ml_config *config, uint8_t *flags)
{
    ml_error error = {0};
    ml_model model;
    ml_status status = map_only ? ml_model_map(&model, path, &error) : ml_model_open(&model, path, &error);
    strcpy(message, error.message);
    if (status != ML_OK)
        return error.status == status && !model.path && !model.file.data && !model.layers ? (int)status : -1;
    text t = {layout, capacity, &model};
    ml_model_visit(&model, describe, &t, NULL);
    *config = model.config;
    for (uint32_t i = 0; i < model.config.n_layers && i < 64; i++)
        flags[i] = model.layers[i].flags;
    ml_model_close(&model);
    return 0;
}
"""


class Config(ctypes.Structure):
    _fields_: ClassVar[list[Any]] = [
        *((f.name, {"I": ctypes.c_uint32, "f": ctypes.c_float}[f.metadata["code"]]) for f in fields(Header)),
        ("q_dim", ctypes.c_uint32),
        ("kv_dim", ctypes.c_uint32),
    ]


@dataclass
class Result:
    status: int
    message: str
    layout: str
    config: Config
    flags: bytes


class Loader:
    def __init__(self, defines: tuple[str, ...], extra: tuple[str, ...] = ()) -> None:
        sources: list[str | Path] = [*SOURCES, write_source("probe_loader.c", PROBE)]
        self.library = build_library(sources, defines=defines, extra=(*SANITIZE, *extra))

    def open(self, path: Path, map_only: bool = False) -> Result:
        message, text = ctypes.create_string_buffer(1024), ctypes.create_string_buffer(1 << 16)
        config, flags = Config(), (ctypes.c_uint8 * 64)()
        status = self.library.probe(
            str(path).encode(),
            map_only,
            message,
            text,
            ctypes.c_size_t(len(text)),
            ctypes.byref(config),
            flags,
        )
        return Result(status, message.value.decode(), text.value.decode(), config, bytes(flags))


@pytest.fixture(scope="module", params=[(), ("ML_NO_MMAP",)], ids=["mmap", "fread"])
def loader(request: pytest.FixtureRequest) -> Loader:
    return Loader(request.param)


BASE = Header(dim=64, n_layers=2, n_heads=4, n_kv_heads=2, hidden_dim=96, vocab=40, max_seq=64)
Fields = Mapping[str, float]
LLAMA3: dict[str, Any] = {
    "rope_type": 1,
    "rope_factor": 8.0,
    "rope_low_freq_factor": 1.0,
    "rope_high_freq_factor": 4.0,
    "rope_orig_max_seq": 32,
}
YARN: dict[str, Any] = {
    **LLAMA3,
    "rope_type": 3,
    "rope_low_freq_factor": 32.0,
    "rope_high_freq_factor": 1.0,
    "rope_attn_factor": 1.2,
}
LINEAR: dict[str, Any] = {"lin_k_heads": 2, "lin_v_heads": 4, "lin_k_dim": 16, "lin_v_dim": 8, "lin_conv": 4}
VARIANTS: dict[str, tuple[Header, bytes]] = {
    "plain": (BASE, b""),
    "shared": (replace(BASE, shared_classifier=1, **LLAMA3), b""),
    "q4": (replace(BASE, wtype=2, scale_f16=1, q8_mask=1 | 8 | 64, **YARN), b""),
    "qwen": (
        replace(BASE, qkv_bias=1, qk_norm=1, head_dim=24, rope_type=2, rope_factor=2.0, sliding_window=8),
        b"",
    ),
    "gemma": (
        replace(
            BASE,
            post_norms=1,
            act=1,
            rope_local_theta=100.0,
            sliding_window=4,
            embed_scale=8.0,
            attn_scale=0.25,
        ),
        bytes([3, 4]),
    ),
    "linear": (replace(BASE, attn_gate=1, rot_dim=8, wtype=2, **LINEAR), bytes([8, 0])),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("loader")
    for name, (header, flags) in VARIANTS.items():
        write_random(folder / f"{name}.mlb", header, layer_flags=flags)
    return {name: folder / f"{name}.mlb" for name in VARIANTS}


def changed(files: dict[str, Path], tmp_path: Path, variant: str, **values: float) -> Path:
    """A copy with header fields overwritten, whatever they mean."""
    data = bytearray(files[variant].read_bytes())
    for f in fields(Header):
        if f.name in values:
            struct.pack_into("<" + f.metadata["code"], data, f.metadata["offset"], values[f.name])
    path = tmp_path / "model.mlb"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("variant", VARIANTS)
def test_points_at_the_arrays_and_completes_the_header(
    loader: Loader, files: dict[str, Path], variant: str
) -> None:
    result = loader.open(files[variant])
    assert (result.status, result.message) == (OK, "")
    model = Model(files[variant])
    h, expected = model.header, {}
    for t in model.tensors.values():
        if t.kind:
            expected[t.name] = (t.offset, t.scales_offset, t.rows, t.cols, t.kind, h.scale_f16)
    if h.shared_classifier:
        expected["wcls"] = expected["tok_emb"]
    lines = [line.split() for line in result.layout.splitlines()]
    assert {name: tuple(map(int, rest)) for name, *rest in lines} == expected
    derived = {
        "head_dim": h.head_size,
        "rot_dim": h.rot_size,
        "embed_scale": h.embed_scale or 1.0,
        "attn_scale": h.attn_scale or float(np.float32(1 / np.sqrt(h.head_size))),
        "rope_attn_factor": h.rope_attn_factor or 1.0,
    }
    for f in fields(Header):
        assert getattr(result.config, f.name) == derived.get(f.name, getattr(h, f.name)), f.name
    assert (result.config.q_dim, result.config.kv_dim) == (h.q_dim, h.kv_dim)
    window = 1 if h.sliding_window else 0
    assert result.flags[: h.n_layers] == (model.layer_flags or bytes([window] * h.n_layers))


NAN, INF = float("nan"), float("inf")
BIG, HUGE = (1 << 16) + 1, (1 << 24) + 1
# (base file, status, fields, words of the sentence)
FIELD_CASES: list[tuple[str, int, Fields, str]] = [
    *(("plain", FORMAT, {"version": v}, f"version is {v}, must be 1") for v in (0, 2)),
    *(("plain", FORMAT, {"wtype": v}, f"wtype is {v}, must be 1 to 2") for v in (0, 3)),
    ("plain", FORMAT, {"rope_type": 4}, "rope_type is 4, must be 0 to 3"),
    *(("shared", FORMAT, {"rope_factor": v}, "rope_factor is") for v in (0.0, -1.0, NAN, INF)),
    *(("shared", FORMAT, {"rope_low_freq_factor": v}, "rope_low_freq_factor is") for v in (0.0, -1.0, NAN)),
    *(
        ("shared", FORMAT, {"rope_high_freq_factor": v}, "rope_high_freq_factor is")
        for v in (1.0, 0.5, NAN, INF)
    ),
    ("shared", FORMAT, {"rope_orig_max_seq": 0}, "rope_orig_max_seq is 0, must be positive"),
    *(("qwen", FORMAT, {"rope_factor": v}, "rope_factor is") for v in (0.0, -2.0, NAN)),
    *(("q4", FORMAT, {"rope_factor": v}, "rope_factor is") for v in (0.0, INF)),
    *(("q4", FORMAT, {"rope_high_freq_factor": v}, "rope_high_freq_factor") for v in (0.0, 32.0, 40.0, NAN)),
    ("q4", FORMAT, {"rope_low_freq_factor": 0.5}, "must be below beta_fast (0.5)"),
    ("q4", FORMAT, {"rope_orig_max_seq": 0}, "rope_orig_max_seq is 0"),
    *(("q4", FORMAT, {"rope_attn_factor": v}, "rope_attn_factor is") for v in (0.0, -1.0, NAN)),
    *((v, FORMAT, {"rope_attn_factor": 1.0}, "must be 0 without yarn") for v in ("plain", "shared", "qwen")),
    *(
        ("plain", FORMAT, {name: v}, f"{name} is {v}, must be 0 to 1")
        for name in ("qkv_bias", "qk_norm", "layer_flags", "post_norms", "scale_f16", "attn_gate", "act")
        for v in (2, 0xFFFFFFFF)
    ),
    *(
        ("plain", FORMAT, {name: v}, f"{name} is")
        for name in (
            "embed_scale",
            "attn_scale",
            "attn_softcap",
            "final_softcap",
            "rope_local_theta",
            "norm_eps",
        )
        for v in (-1.0, NAN, INF)
    ),
    *(("plain", FORMAT, {"rope_theta": v}, "rope_theta is") for v in (0.0, -1.0, NAN, INF)),
    ("plain", FORMAT, {"q8_mask": 1}, "q8_mask is 1, must be 0 in a Q8_0 model"),
    ("q4", FORMAT, {"q8_mask": 128}, "q8_mask is 128, must be 0 to 127"),
    ("gemma", FORMAT, {"rope_local_theta": 0.0}, "the flags of layer 0 are 3: the local RoPE base needs"),
    ("plain", FORMAT, {"sliding_window": HUGE}, f"sliding_window is {HUGE}, must be 0 to 16777216"),
    *(
        ("plain", SHAPE, {name: v}, f"{name} is {v}, must be 1 to 65536")
        for name in ("dim", "n_layers", "n_heads", "n_kv_heads", "hidden_dim")
        for v in (0, BIG, 0xFFFFFFFF)
    ),
    *(("plain", SHAPE, {"vocab": v}, f"vocab is {v}, must be 3 to 16777216") for v in (0, 2, HUGE)),
    *(("plain", SHAPE, {"max_seq": v}, f"max_seq is {v}, must be 1 to 16777216") for v in (0, HUGE)),
    *(
        ("plain", SHAPE, {name: 80}, f"{name} is 80, must be a multiple of 32")
        for name in ("dim", "hidden_dim")
    ),
    ("plain", SHAPE, {"n_heads": 6}, "n_heads is 6, must be a divisor of dim (64), as head_dim is 0"),
    ("plain", SHAPE, {"n_kv_heads": 3}, "n_kv_heads is 3, must be a divisor of n_heads (4)"),
    ("plain", SHAPE, {"n_kv_heads": 8}, "n_kv_heads is 8, must be a divisor of n_heads (4)"),
    ("plain", SHAPE, {"n_heads": 64, "n_kv_heads": 64}, "head_dim is 1, must be even"),
    ("qwen", SHAPE, {"head_dim": 23}, "head_dim is 23, must be even"),
    ("qwen", SHAPE, {"head_dim": 20}, "head_dim * n_heads is 80, must be a multiple of 32"),
    ("qwen", SHAPE, {"head_dim": 16392}, "head_dim * n_heads is 65568, must be"),
    ("qwen", SHAPE, {"head_dim": 0x80000000}, "head_dim * n_heads is 8589934592, must be"),
    ("plain", SHAPE, {"rot_dim": 7}, "rot_dim is 7, must be even and at most head_dim (16)"),
    ("plain", SHAPE, {"rot_dim": 18}, "rot_dim is 18, must be"),
    *(("linear", SHAPE, {name: 0}, f"{name} is 0, must be 1 to 65536") for name in LINEAR),
    *(("linear", SHAPE, {name: BIG}, f"{name} is {BIG}, must be") for name in LINEAR),
    ("linear", SHAPE, {"lin_v_heads": 6}, "lin_v_heads is 6, must be a multiple of lin_k_heads (2) and of 4"),
    ("linear", SHAPE, {"lin_k_heads": 3}, "lin_v_heads is 4, must be a multiple of lin_k_heads (3) and of 4"),
    ("linear", SHAPE, {"lin_v_dim": 6}, "lin_v_heads * lin_v_dim is 24, must be a multiple of 32"),
    ("linear", SHAPE, {"lin_v_dim": 65536}, "lin_v_heads * lin_v_dim is 262144, must be"),
    ("linear", SHAPE, {"lin_k_dim": 65536}, "lin_k_heads * lin_k_dim is 131072, must be at most 65536"),
    ("linear", FORMAT, dict.fromkeys(LINEAR, 0), "layer 0 are 8: linear attention needs lin_k_heads"),
]


@pytest.mark.parametrize(
    ("variant", "status", "values", "words"),
    FIELD_CASES,
    ids=lambda case: str(case) if isinstance(case, dict) else "",
)
def test_refuses_a_field(
    loader: Loader,
    files: dict[str, Path],
    tmp_path: Path,
    variant: str,
    status: int,
    values: Fields,
    words: str,
) -> None:
    path = changed(files, tmp_path, variant, **values)
    result = loader.open(path)
    assert result.status == status, result.message
    assert result.message.startswith(f"{path}: ")
    assert words in result.message
    assert loader.open(path, map_only=True).message == result.message


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (16, "the flags of layer 1 are 16: only bits 0 to 3 are known"),
        (128, "the flags of layer 1 are 128: only bits 0 to 3"),
        (2 | 4, "layer 1 are 6: a layer cannot have both the local RoPE base and no RoPE"),
        (8 | 1, "layer 1 are 9: linear attention cannot be combined"),
        (8 | 4, "layer 1 are 12: linear attention cannot be combined"),
    ],
)
def test_refuses_layer_flags(
    loader: Loader, files: dict[str, Path], tmp_path: Path, flags: int, words: str
) -> None:
    data = bytearray(files["gemma"].read_bytes())
    data[257] = flags
    path = tmp_path / "model.mlb"
    path.write_bytes(data)
    result = loader.open(path)
    assert result.status == FORMAT
    assert words in result.message


@pytest.mark.parametrize(
    ("values", "variant"),
    [
        ({"sliding_window": 1 << 24}, "plain"),
        ({"max_seq": 1 << 24}, "plain"),
        ({"norm_eps": 0.0}, "plain"),
        ({"shared_classifier": 7}, "plain"),
        ({"rope_factor": -1.0, "rope_orig_max_seq": 9}, "plain"),  # plain RoPE does not look at them
        ({"q8_mask": 127, "wtype": 2}, "plain"),
    ],
)
def test_accepts_the_extremes(
    loader: Loader, files: dict[str, Path], tmp_path: Path, values: Fields, variant: str
) -> None:
    assert loader.open(changed(files, tmp_path, variant, **values)).message == ""


def test_refuses_what_is_no_model(loader: Loader, files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "model.mlb"
    result = loader.open(path)
    assert (result.status, result.message) == (IO, f"{path}: cannot open it: No such file or directory")
    result = loader.open(tmp_path)
    assert (result.status, result.message) == (IO, f"{tmp_path}: cannot open it: not a regular file")
    good = files["plain"].read_bytes()
    cases = [
        (b"", "the file is empty"),
        (b"M", "the file has 1 bytes, its header alone takes 256"),
        (good[:255], "the file has 255 bytes, its header alone takes 256"),
        (b"GGUF" + good[4:], "magic is 47 47 55 46, must be"),
        (good[:160] + b"\1" + good[161:], "byte 160 of the header is 1, must be 0"),
        (good[:255] + b"\xff" + good[256:], "byte 255 of the header is 255, must be 0"),
    ]
    for data, words in cases:
        path.write_bytes(data)
        result = loader.open(path)
        assert result.status == FORMAT
        assert result.message.startswith(f"{path}: {words}")


@pytest.mark.parametrize("variant", VARIANTS)
def test_refuses_truncation_at_every_array(
    loader: Loader, files: dict[str, Path], tmp_path: Path, variant: str
) -> None:
    flags = VARIANTS[variant][1]
    spans: list[tuple[str, int, int]] = []  # name, start, end
    for t in layout(Model(files[variant]).header, flags).values():
        if t.kind:
            quants_end = t.offset + t.rows * t.row_bytes
            spans += [(f"the quants of {t.name}", t.offset, quants_end)]
            spans += [(f"the scales of {t.name}", t.scales_offset, t.end)]
        else:
            spans.append((t.name, t.offset, t.end))
    last = max(end for _, _, end in spans)
    sizes = sorted({edge + d for _, *edges in spans for edge in edges for d in (-1, 0, 1)}, reverse=True)
    path = tmp_path / "model.mlb"
    path.write_bytes(files[variant].read_bytes())
    for size in sizes:
        if size < 256:
            continue
        with path.open("r+b") as file:
            file.truncate(size)
        result = loader.open(path)
        if size >= last:
            assert result.status == OK, (size, result.message)
            continue
        name, end = next((name, end) for name, _, end in spans if end > size)
        assert result.status == FORMAT
        assert result.message == f"{path}: the file has {size} bytes, but {name} would end at byte {end}"


@pytest.mark.parametrize("variant", ["plain", "shared", "q4", "linear"])
def test_refuses_minus_128_anywhere(
    loader: Loader, files: dict[str, Path], tmp_path: Path, variant: str
) -> None:
    model = Model(files[variant])
    path = tmp_path / "model.mlb"
    path.write_bytes(files[variant].read_bytes())
    for t in model.tensors.values():
        if t.kind != 1:
            continue
        for row, column in {(0, 0), (t.rows - 1, t.cols - 1), (t.rows // 2, 3)}:
            at = t.offset + row * t.cols + column
            with path.open("r+b") as file:
                file.seek(at)
                before = file.read(1)
                file.seek(at)
                file.write(b"\x80")
            result = loader.open(path)
            assert result.status == FORMAT
            where = f"{t.name} has a quant of -128 in row {row}, column {column}"
            assert result.message == f"{path}: {where}, must be -127 to 127"
            assert loader.open(path, map_only=True).status == OK
            with path.open("r+b") as file:
                file.seek(at)
                file.write(before)
    assert loader.open(path).status == OK


def test_q4_bytes_may_be_anything(loader: Loader, tmp_path: Path) -> None:
    path = tmp_path / "model.mlb"
    write_random(path, replace(BASE, wtype=2))
    data = np.fromfile(path, np.uint8)
    for t in Model(path).tensors.values():
        if t.kind == 2:
            data[t.offset : t.offset + t.rows * t.row_bytes] = 0x80
    data.tofile(path)
    assert loader.open(path).message == ""


def test_sizes_beyond_the_address_space(files: dict[str, Path], tmp_path: Path) -> None:
    """What a 32-bit machine says: the same code with its SIZE_MAX."""
    header = write_source(
        "narrow.h",
        "#define _GNU_SOURCE\n#include <stdint.h>\n#undef SIZE_MAX\n#define SIZE_MAX 0xffffffffu\n",
    )
    narrow = Loader((), ("-include", str(header)))
    assert narrow.open(files["plain"]).message == ""
    for values in ({"vocab": 1 << 24, "dim": 65536}, {"vocab": 1 << 24, "dim": 256}):  # 2^40 and 2^32 bytes
        path = changed(files, tmp_path, "plain", **values)
        result = narrow.open(path)
        assert (result.status, result.message) == (
            NOMEM,
            f"{path}: the quants of tok_emb cannot fit into the address space",
        )
        assert Loader(()).open(path).status == FORMAT  # a 64-bit machine only misses the bytes
    with path.open("r+b") as file:
        file.truncate(5 << 30)  # sparse
    assert narrow.open(path).message == f"{path}: does not fit into the address space"


def verdict(path: Path) -> int:
    """What the reference reader thinks of a file."""
    try:
        Model(path).check_quants()
    except FormatError:
        return FORMAT
    except ShapeError:
        return SHAPE
    return OK


VALUES = st.sampled_from(
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32, 40, 64, 96, 127, 128, 300, 0x3F800000, 0xBF800000]
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.sampled_from(sorted(VARIANTS)),
    st.lists(st.tuples(st.sampled_from(fields(Header)), VALUES), min_size=1, max_size=2),
)
def test_agrees_with_the_reference_reader(
    tmp_path_factory: pytest.TempPathFactory, variant: str, changes: list[tuple[Field[Any], int]]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "agreement"
    folder.mkdir(exist_ok=True)
    source = folder / f"{variant}.mlb"
    if not source.exists():
        write_random(source, VARIANTS[variant][0], layer_flags=VARIANTS[variant][1])
    data = bytearray(source.read_bytes())
    for f, value in changes:
        struct.pack_into("<I", data, f.metadata["offset"], value)
    path = folder / "model.mlb"
    path.write_bytes(data)
    result, expected = Loader(()).open(path), verdict(path)
    if len(changes) == 1:
        assert result.status == expected, result.message
    assert (result.status == OK) == (expected == OK), result.message
