"""`krafla bench`: what it measures is plausible, and tuning changes nothing but speed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from krafla.codegen.ops import BY_NAME
from krafla.codegen.registry import load_isas, machines
from krafla.codegen.render import Renderer
from krafla.runtime import bench_kernels, bench_models, cli, host, tune, tuned
from krafla.runtime import compile as compiler
from krafla.runtime.bench_library import Library
from krafla.runtime.model import Model
from krafla.runtime.paths import GENERATED
from krafla.tools.errors import KraflaError
from tests.models import model

Capture = pytest.CaptureFixture[str]
BEST = host.choose().name
RESULT = {"isa", "threads", "batch", "kv", "kind", "tokens", "depth", "seconds", "tokens_per_second"}
SPEED = {"isa", "op", "kernel_of", "sizes", "working_set", "seconds", "rounds", "bytes_per_second"}


def bench(capsys: Capture, *arguments: str) -> dict[str, Any]:
    code = cli.call(["bench", "--quiet", "--json", *arguments])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    found: dict[str, Any] = json.loads(captured.out)
    return found


@pytest.fixture(scope="module")
def packing() -> str:
    """The plainest ISA of this CPU with packed kernels, vector tiles and known lanes."""
    for isa in host.survey():
        machine = machines()[isa.facts.name]
        if (
            isa.usable
            and machine.pack
            and machine.f32.lanes >= 4
            and machine.tile
            and not machine.tile.matrix
        ):
            return isa.facts.name
    pytest.skip("this CPU lacks an ISA with packed kernels")


def test_models(capsys: Capture) -> None:
    path = str(model("llama"))
    settings = ("-t", "1,2", "-d", "0,64", "-p", "24", "-n", "4", "--kv", "f32,q8", "-r", "2")
    found = bench(capsys, "-m", path, *settings)
    rows = found["rows"]
    assert found["model"] == path
    assert len(rows) == 2 * 2 * 2 * 2
    assert {(row["kind"], row["tokens"]) for row in rows} == {("prefill", 24), ("decode", 4)}
    for row in rows:
        assert set(row) == RESULT | {"limit", "share"}
        assert len(row["seconds"]) == 2
        assert row["isa"] == BEST
        assert row["tokens_per_second"] == pytest.approx(row["tokens"] / np.median(row["seconds"]))
        assert row["limit"] in ("read", "int8")
        assert 0 < row["share"] < 2


def test_a_table_for_people(capsys: Capture) -> None:
    assert cli.call(["bench", "-q", "-m", str(model("llama")), "-p", "8", "-n", "0", "-r", "1"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["isa", "threads", "batch", "kv"]
    assert row.split()[:6] == [BEST, "1", "128", "f32", "prefill", "8"]


def test_linear_attention_goes_back_to_where_it_can(capsys: Capture) -> None:
    """Such a model can only be cut at some positions; the rest is run again, outside of the measured time."""
    rows = bench(capsys, "-m", str(model("qwen35")), "-d", "70", "-p", "10", "-n", "3", "-r", "2")["rows"]
    assert [row["depth"] for row in rows] == [70, 70]


def test_limits_of_a_model() -> None:
    """A token reads every weight once, and multiplies with it once."""
    header, tensors = bench_models.read_model(model("shared"))
    limits = bench_models.Limits(Library(BEST, ops=()), header, tensors)
    layers, classifier = limits.products()
    assert classifier == header.vocab * header.dim
    assert limits.weight_bytes() == (layers + classifier) * 36 // 32
    assert limits.cache_bytes("f32") == 4 * limits.cache_bytes("q8") / (1 + 4 / header.head_size)
    shallow, deep = (bench_models.Work("decode", 4, depth) for depth in (0, 256))
    setting = bench_models.Setting()
    assert limits.seconds(deep, setting)["read"] > limits.seconds(shallow, setting)["read"]


def test_kernels(capsys: Capture) -> None:
    found = bench(capsys, "--kernels", "--op", "matvec_q8,add", "-r", "2")
    bound = [name for name in BY_NAME if name.startswith(("matvec_q8", "add"))]
    library = Library(BEST, ops=())
    rows = found["rows"]
    assert [row["op"] for row in rows] == [name for name in bound if library.binds(BY_NAME[name])]
    for row in rows:
        assert set(row) == SPEED | {"operations_per_second", "limit", "share"}
        assert row["sizes"] == BY_NAME[row["op"]].bench[0]
        assert 0 < row["share"] < 3  # a noisy machine may slow the measurement of the limit down
    assert found["limits"][BEST]["int8"]["per_second"] > 1e9


def test_kernels_at_a_models_shapes(capsys: Capture) -> None:
    rows = bench(capsys, "--kernels", "-m", str(model("llama")), "--op", "matvec_q8,rope", "-r", "1")["rows"]
    shapes = {(row["sizes"]["rows"], row["sizes"]["cols"]) for row in rows if row["op"] == "matvec_q8"}
    assert shapes == {(64, 64), (32, 64), (96, 64), (64, 96), (263, 64)}
    assert [row["sizes"]["n_heads"] for row in rows if row["op"] == "rope"] == [4]
    assert not any(row["op"].endswith("_f16") for row in rows)  # its scales are floats


@pytest.mark.parametrize("isa", [isa.facts.name for isa in host.survey() if isa.usable])
def test_peaks_grow_with_the_isa(isa: str) -> None:
    """Every ISA's probe runs; its peak is not below that of plain C by much, nor beyond any CPU's."""
    library, plain = Library(isa, ops=()), Library("scalar", ops=())
    for kind in ("int8", "float"):
        assert 0.3 * plain.limits[kind]["per_second"] < library.limits[kind]["per_second"] < 1e14
    assert 1e8 < library.read_bandwidth(1 << 16) < 1e13


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-t", "1,x"], "'1,x': give whole numbers"),
        (["-d", "-1"], "no number may be negative"),
        (["-p", "0", "-n", "0"], "leave nothing to measure"),
        (["--kernels", "--tune"], "exclude each other"),
        (["--kernels", "--op", "nonesuch"], "no kernel's name starts so"),
        (["--kv", "f8"], "kv is f8"),
        (["-p", "4096"], "more than the context holds"),
        (["--isa", "nonesuch"], "no such ISA"),
    ],
)
def test_wrong_usage(capsys: Capture, arguments: list[str], sentence: str) -> None:
    assert cli.call(["bench", "-q", "-m", str(model("llama")), *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_tuning_keeps_bits_and_is_used(
    packing: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Whatever variant wins, the engine gives the same logits with it."""
    tile = machines()[packing].tile
    assert tile is not None
    monkeypatch.setattr(tune, "TILES", (tile.sizes[0] + 2,))
    monkeypatch.setattr(tune, "QUERIES", (3,))
    monkeypatch.setattr(tune, "DISTANCES", (0,))
    monkeypatch.setattr(tune, "STREAMED", 0)
    monkeypatch.setattr(tune, "LEAST_GAIN", 0.0)
    # The one variant beside the descriptor's own is made to win.
    race = tune._race
    monkeypatch.setattr(tune, "_race", lambda *a: {name: 1 + n for n, name in enumerate(race(*a))})
    tokens = np.random.default_rng(0).integers(0, 263, 70).tolist()
    facts = host.choose(packing)
    try:
        before = compiler.engine_plan(facts, GENERATED).digest()
        with Model.load(model("llama"), packing) as plain:
            wanted = plain.logits(tokens)
        [row] = bench(capsys, "--tune", "--isa", packing, "-r", "1")["rows"]
        assert [choice["knob"] for choice in row["choices"]] == [
            "tokens per tile",
            "queries x vectors",
            "prefetch distance",
        ]
        folder = tuned.folder(packing)
        assert folder is not None
        assert compiler.engine_plan(facts).digest() != before
        with Model.load(model("llama"), packing) as faster:
            assert faster.logits(tokens).tobytes() == wanted.tobytes()
        monkeypatch.setenv(tuned.VARIABLE, "0")
        assert compiler.engine_plan(facts).digest() == before
    finally:
        home: Path = tuned.home(packing)
        if (home / tuned.RECORD).is_file():
            (home / tuned.RECORD).unlink()


def test_a_variant_with_other_bits_is_refused(packing: str, tmp_path: Path) -> None:
    """The comparison notices a variant that is none: its rounding differs."""
    op = BY_NAME["dot_f32"]
    fused = [name for name in ("avx2", "neon") if host.choose(packing).family == machines()[name].isa.family]
    usable = [isa.facts.name for isa in host.survey() if isa.usable and isa.facts.name in fused]
    if not usable:
        pytest.skip("this CPU lacks an ISA that rounds once")
    tune.write(Renderer(numerics="unfused"), usable[0], tmp_path)
    libraries = {"own": Library(usable[0], ops=[op]), "other": Library(usable[0], tmp_path, [op])}
    with pytest.raises(KraflaError, match="dot_f32 with rounding other gives other bits than with own"):
        tune._check(libraries, op, "rounding")
    tune._check({"own": libraries["own"], "again": libraries["own"]}, op, "rounding")


def test_inputs_leave_updated_arrays_alone() -> None:
    """What a kernel updates in place starts at zero, so that it does not run away over thousands of calls."""
    library = Library(BEST, ops=())
    op = BY_NAME["silu_mul"]
    first, second = bench_kernels.inputs(library, op, {"n": 64}, copies=2)
    assert not first["g"].any()
    assert first["u"].any()
    assert second["g"] is first["g"]
    matrix = BY_NAME["matvec_q8"]
    sizes = {"rows": 4, "cols": 32, "r0": 0, "r1": 4}
    first, second = bench_kernels.inputs(library, matrix, sizes, copies=2)
    assert first["wq"] is not second["wq"]
    assert (first["wq"] == second["wq"]).all()


def test_descriptors_are_not_changed_by_tuning(packing: str) -> None:
    """Variants are copies."""
    isas = dict(load_isas())
    knob = tune._tile_knob(packing, isas)
    assert knob is not None
    assert load_isas() == isas
    assert len({replace(v[packing]).tile for v in knob.variants.values()}) == len(knob.variants)


@pytest.mark.parametrize(("isa", "current"), [("neon_dotprod", "4"), ("neon_i8mm", "4"), ("avx2", None)])
def test_row_groups_are_tuned_where_a_matvec_takes_several(isa: str, current: str | None) -> None:
    knob = tune._groups_knob(isa, dict(load_isas()))
    assert (knob is not None) == (current is not None)
    if knob is not None:
        assert next(iter(knob.variants)) == current
        for groups, isas in knob.variants.items():
            kernel = tune.Renderer(isas).kernel(BY_NAME["matvec_q4_pk"], "neon_dotprod")
            assert (f"tile_{groups}x1(" in kernel) == (groups != "1")
