"""Every kernel of every ISA that this CPU can run, bit for bit against reference and scalar kernel."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from krafla.codegen import registry
from krafla.codegen.isa import Target
from krafla.codegen.ops import BY_NAME, OPS, Op
from tests import kernels, native
from tests.kernels import Kernels, difference

MACHINES = registry.machines()
FUSED = [name for name, machine in MACHINES.items() if machine.fused]


VARIANTS = [(name, "fused") for name in MACHINES] + [(name, "unfused") for name in FUSED]
each_variant = pytest.mark.parametrize(("isa", "numerics"), VARIANTS, ids=lambda value: value)


@cache
def loaded(isa: str, numerics: str) -> Kernels:
    return kernels.load(isa, numerics=numerics)


def built(isa: str, numerics: str) -> Kernels:
    """The compiled kernels; where this CPU cannot run them, the test ends here and says why."""
    if missing := kernels.missing_feature(isa):
        pytest.skip(f"this CPU lacks {missing}, which {isa} needs")
    return loaded(isa, numerics)


@cache
def scalar(fused: bool) -> Kernels:
    """The scalar kernels in either class; a fused build needs a CPU whose fmaf is one instruction."""
    return kernels.load("scalar", fused=fused)


def bound_ops(isa: str) -> list[Op]:
    machine = MACHINES[isa]
    return [op for op in OPS if registry.bind(op, machine, registry.load_isas()) is not None]


def kernel_ops(isa: str) -> list[Op]:
    """What can be compared with a scalar twin: all but tile_q8, which has tests of its own."""
    return [op for op in bound_ops(isa) if op.name != "tile_q8"]


@each_variant
def test_equals_reference_and_scalar(isa: str, numerics: str) -> None:
    tested = built(isa, numerics)
    failures = []
    for op in kernel_ops(isa):
        for label, given in kernels.cases(op):
            wanted = kernels.expected(op, given, fused=tested.fused)
            twin = kernels.by_scalar(scalar(tested.fused), op, given)
            for misaligned in (False, True):
                found = kernels.run(tested, op, given, misaligned)
                for name, want in (("reference", wanted), ("scalar", twin)):
                    if text := difference(found, want):
                        failures.append(f"{op.name} {label} misaligned={misaligned} against {name}: {text}")
    assert not failures, "\n".join(failures[:20])


@each_variant
def test_matmul_equals_matvec_for_every_token_count(isa: str, numerics: str) -> None:
    tested = built(isa, numerics)
    machine = MACHINES[isa]
    if machine.tile is None:
        assert isa == "scalar"
        return
    most = 2 * machine.tile.tokens + 3
    for op in bound_ops(isa):
        if not op.name.startswith("matmul"):
            continue
        matvec = BY_NAME[op.name.replace("matmul", "matvec")]
        given = kernels.inputs(
            op, {"rows": 21, "cols": 64, "r0": 0, "r1": 21, "tokens": most, "y_stride": 24}, "plain"
        )
        alone = []
        for t in range(most):
            single = {key: value for key, value in given.items() if key != "tokens"} | only(given, t, t + 1)
            alone.append(kernels.run(tested, matvec, single)["y"])
        for tokens in range(1, most + 1):
            y = kernels.run(tested, op, {**given, "tokens": tokens} | only(given, 0, tokens))["y"]
            for t in range(tokens):
                assert not difference({"y": y[t * 24 : t * 24 + 21]}, {"y": alone[t]}), (op.name, tokens, t)


def test_a_matrix_unit_takes_long_rows_in_parts() -> None:
    """More activations than stay in a cache: several row groups pass a part of the blocks at a time."""
    tested, unit = built("amx_int8", "fused"), MACHINES["amx_int8"].tile.matrix  # type: ignore[union-attr]
    assert unit is not None
    tokens, rows = unit.tokens, 2 * 16 + 8
    cols = unit.reused_bytes // tokens + 32
    for op in (BY_NAME["matmul_q8_pk"], BY_NAME["matmul_q4_pk"]):
        given = kernels.inputs(
            op, {"rows": rows, "cols": cols, "r0": 0, "r1": rows, "tokens": tokens, "y_stride": rows}, "plain"
        )
        y = kernels.run(tested, op, given)["y"]
        for t in (0, tokens - 1):
            single = {key: value for key, value in given.items() if key != "tokens"} | only(given, t, t + 1)
            alone = kernels.run(tested, BY_NAME[op.name.replace("matmul", "matvec")], single)["y"]
            assert not difference({"y": y[t * rows : (t + 1) * rows]}, {"y": alone}), (op.name, t)


def only(given: kernels.Inputs, first: int, end: int) -> kernels.Inputs:
    """The activations of some tokens."""
    return {key: given[key][first:end] for key in ("xq", "xd", "xs")}


@each_variant
def test_tiles(isa: str, numerics: str) -> None:
    """tile_q8 writes as many tokens as there are, scales tile by tile; matmuls judge the quants."""
    tested, machine = built(isa, numerics), MACHINES[isa]
    if machine.pack is None or machine.tile is None:
        assert isa == "scalar"
        return
    op, blocks = BY_NAME["tile_q8"], 3
    widths = ((machine.tile.matrix.tokens,) if machine.tile.matrix else ()) + machine.tile.sizes
    for tokens in range(1, 2 * machine.tile.tokens + 4):
        given = kernels.inputs(op, {"cols": 32 * blocks, "tokens": tokens}, "plain")
        found = kernels.run(tested, op, given, misaligned=True)
        scales, start = [], 0
        for width in widths:
            while start + width <= tokens:
                scales.append(given["xd"][start : start + width].T.reshape(-1))
                start += width
        written = {"xt": machine.pack.dot.x_bytes, "xdt": 1, "xst": 2}
        assert not difference({"xdt": found["xdt"][: tokens * blocks]}, {"xdt": np.concatenate(scales)}), (
            tokens
        )
        for name, per_block in written.items():
            rest = found[name][tokens * blocks * per_block :]
            assert (rest == kernels.unwritten(rest.dtype.type, rest.size)).all(), (
                f"{name}: writes past its tokens"
            )


@pytest.mark.parametrize("op", [op for op in OPS if op.name != "tile_q8"], ids=lambda op: op.name)
def test_unfused_numerics_make_all_isas_agree(op: Op) -> None:
    """One set of inputs, one answer: every runnable ISA in class U."""
    runnable = [name for name in MACHINES if not kernels.missing_feature(name)]
    for _, given in kernels.cases(op):
        base = kernels.by_scalar(scalar(False), op, given)
        for isa in runnable:
            if op in bound_ops(isa):
                tested = built(isa, "unfused" if isa in FUSED else "fused")
                assert not tested.fused
                assert not difference(kernels.run(tested, op, given), base), isa


def test_the_classes_differ_where_they_should() -> None:
    """The comparison would notice a kernel of the wrong class."""
    for name in ("rmsnorm", "softmax", "silu_mul", "gelu_mul", "rope", "dot_f32", "axpy_q8", "matvec_q8"):
        op = BY_NAME[name]
        found = [
            difference(kernels.run(scalar(True), op, given), kernels.expected(op, given, fused=False))
            for _, given in kernels.cases(op, ["plain"])
        ]
        assert any(found), f"{name}: fused and unfused agree on every case"


def test_rmsnorm_in_place() -> None:
    """o may be x."""
    op = BY_NAME["rmsnorm"]
    for isa in (name for name in MACHINES if not kernels.missing_feature(name)):
        tested = built(isa, "fused")
        for _, given in kernels.cases(op, ["plain"]):
            x = given["x"].copy()
            tested.call(op, {**given, "o": x, "x": x})
            assert not difference({"o": x}, kernels.expected(op, given, fused=tested.fused)), isa


def preprocessed(source: Path, isa: str, triple: str) -> str:
    """A C file after the preprocessor, for one ISA on one target."""
    command = [
        *native.zig_command(),
        *("-target", triple, "-E", "-P", f"-DML_ISA_{isa.upper()}"),
        *(f"-I{native.CSRC}", f"-I{native.ROOT / 'generated'}", str(source)),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


TARGETS = [(isa, target) for isa, machine in MACHINES.items() for target in machine.isa.targets]


@pytest.mark.parametrize(
    ("isa", "target"), TARGETS, ids=[f"{isa}-{target.triple}" for isa, target in TARGETS]
)
def test_bindings_of_the_config_header(isa: str, target: Target) -> None:
    """ml_config.h binds what the registry resolves, under the constants of the descriptor."""
    machine, isas = MACHINES[isa], registry.load_isas()
    lines = ['#include "ml_config.h"', "#define TEXT_(x) #x", "#define TEXT(x) TEXT_(x)"]
    for op in OPS:
        lines += [f"#ifdef ml_k_{op.name}", f"bound {op.name} TEXT(ml_k_{op.name})", "#endif"]
    for name in ("GROUP", "STEP", "Q8_OFFSET", "Q4_XOR", "F16_SCALES"):
        lines += [f"#ifdef ML_PACK_{name}", f"value {name} ML_PACK_{name}", "#endif"]
    lines += ["value FUSED ML_FUSED", "value ISA ML_ISA_NAME"]
    source = native.write_source("bindings.c", "\n".join(lines) + "\n")
    text = preprocessed(source, isa, target.triple)
    words = [line.split() for line in text.splitlines() if line.startswith(("bound ", "value "))]
    bound = {name: value.strip('"') for kind, name, value in words if kind == "bound"}
    values = {name: value for kind, name, value in words if kind == "value"}
    owners = [(op, registry.bind(op, machine, isas)) for op in OPS]
    assert bound == {op.name: op.symbol(owner.name) for op, owner in owners if owner is not None}
    assert values.pop("ISA") == f'"{isa}"'
    assert values.pop("FUSED") == str(int(target.fused))
    if machine.pack is None:
        assert not values
        return
    dot = machine.pack.dot
    assert {name: int(value, 0) for name, value in values.items()} == {
        "GROUP": dot.group,
        "STEP": dot.step,
        "Q8_OFFSET": dot.q8_offset,
        "Q4_XOR": dot.q4_xor,
        "F16_SCALES": int(machine.pack.f16 is not None),
    }


@pytest.mark.skipif(sys.platform != "linux", reason="guard pages through mprotect")
@pytest.mark.parametrize("isa", MACHINES)
def test_nothing_is_read_past_its_end(isa: str) -> None:
    """Every buffer ends at an inaccessible page; a stray access ends the process, so it is one of its own."""
    built(isa, "fused")
    done = subprocess.run(
        [sys.executable, "-m", "tests.guard_pages", isa],
        capture_output=True,
        text=True,
        check=False,
        cwd=native.ROOT,
    )
    assert done.returncode == 0, f"last kernel: {done.stdout.splitlines()[-1:]}\n{done.stderr[-2000:]}"
    assert done.stdout.splitlines() == [op.name for op in bound_ops(isa)]
