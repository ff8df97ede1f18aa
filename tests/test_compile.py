"""Compiling with zig: what a library depends on, the cache, both ways to link, and what the compiler says."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from krafla.runtime import compile as compiler
from krafla.runtime import zig
from krafla.runtime.isas import isas
from krafla.tools.errors import AccessError, IsaError

PLUS = '#include "plus.h"\n__attribute__((visibility("default"))) int plus(int a) { return a + PLUS; }\n'


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty library cache; zig's own cache stays shared, because filling it is slow."""
    shared = Path(os.environ["KRAFLA_CACHE"]) / "zig"
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", os.environ.get("ZIG_GLOBAL_CACHE_DIR", str(shared)))
    monkeypatch.setenv("KRAFLA_CACHE", str(tmp_path / "cache"))
    yield tmp_path / "cache"


@pytest.fixture
def plan(tmp_path: Path) -> compiler.Plan:
    (tmp_path / "plus.h").write_text("#define PLUS 2\n", encoding="utf-8")
    (tmp_path / "plus.c").write_text(PLUS, encoding="utf-8")
    unit = compiler.Unit(tmp_path / "plus.c", compiler.BASELINE)
    return compiler.Plan("plus", zig.host_triple(), (unit,), compiler.FLAGS, (tmp_path,))


def plus(path: Path) -> int:
    return int(ctypes.CDLL(str(path)).plus(40))


def libraries(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "lib").iterdir() if path.suffix != ".lock")


def test_a_library_is_built_once(plan: compiler.Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, int, int]] = []
    path = compiler.build(plan, lambda *progress: said.append(progress))
    assert plus(path) == 42
    assert [done for _, done, _ in said] == [0, 1, 2]
    assert said[0][0] == "building the plus library (only the first time)"

    def refuse(arguments: list[str]) -> None:
        raise AssertionError(f"zig was called: {arguments}")

    monkeypatch.setattr(zig, "run", refuse)
    assert compiler.build(plan) == path


def test_whatever_changes_the_library_changes_its_name(plan: compiler.Plan, tmp_path: Path) -> None:
    other = dataclasses.replace
    unit = plan.units[0]
    digests = [
        plan.digest(),
        other(plan, flags=(*plan.flags, "-DX")).digest(),
        other(plan, triple="aarch64-linux-gnu").digest(),
        other(plan, units=(other(unit, mcpu="x86_64+avx2"),)).digest(),
        other(plan, units=(unit, unit)).digest(),
    ]
    (tmp_path / "plus.h").write_text("#define PLUS 3\n", encoding="utf-8")
    digests.append(plan.digest())
    (tmp_path / "plus.c").write_text(PLUS + "\n", encoding="utf-8")
    digests.append(plan.digest())
    assert len(set(digests)) == len(digests)
    assert plus(compiler.build(plan)) == 43


def test_another_compiler_version_is_another_library(
    plan: compiler.Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = plan.digest()
    monkeypatch.setattr(zig, "version", lambda: "0.0.1")
    assert plan.digest() != before


def test_the_compilers_complaint_is_told_and_nothing_is_left(
    plan: compiler.Plan, tmp_path: Path, own_cache: Path
) -> None:
    (tmp_path / "plus.c").write_text("int plus(int a) { return b; }\n", encoding="utf-8")
    with pytest.raises(
        zig.CompileError, match=r"cannot compile plus\.c for plus: .*undeclared identifier 'b'"
    ):
        compiler.build(plan)
    assert libraries(own_cache) == []


def test_two_builds_at_the_same_time_make_one_library(
    plan: compiler.Plan, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    run = zig.run

    def slow_run(arguments: list[str]) -> None:
        calls.append(arguments[0])
        time.sleep(0.2)
        run(arguments)

    monkeypatch.setattr(zig, "run", slow_run)
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: compiler.build(plan), range(4)))
    assert len(paths) == 1
    assert calls.count("cc") == 1
    assert libraries(own_cache) == [paths.pop().name]


def test_an_unwritable_cache_is_one_sentence(
    plan: compiler.Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("KRAFLA_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(AccessError, match=r"file/cache/lib: cannot write to the cache: .*KRAFLA_CACHE"):
        compiler.build(plan)


@pytest.mark.slow
def test_what_the_c_library_lacks_comes_from_zig(plan: compiler.Plan, tmp_path: Path) -> None:
    """A 128-bit division needs a helper that no libc has: the plain link fails, zig's own way does it."""
    code = PLUS.replace("a + PLUS", "(int)((__int128)a * a / (a + 1))")
    (tmp_path / "plus.c").write_text(code, encoding="utf-8")
    assert plus(compiler.build(plan)) == 39


@pytest.mark.slow
def test_without_a_visible_c_library_zigs_own_is_used(
    plan: compiler.Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "runtime_libraries", lambda: ())
    assert plus(compiler.build(plan)) == 42


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the C library of a process")
def test_the_c_library_of_this_process_is_found() -> None:
    for path in compiler.runtime_libraries():
        assert path in Path("/proc/self/maps").read_text() or Path(path).is_file()
    names = [Path(path).name for path in compiler.runtime_libraries()]
    assert names[:2] == ["libc.so.6", "libm.so.6"] or "musl" in zig.host_triple()


def test_guards_are_compiled_for_any_cpu_and_kernels_for_their_own() -> None:
    for facts in isas():
        if facts.mcpu is None:
            continue
        plan = compiler.engine_plan(facts)
        cpus = {unit.source.name: unit.mcpu for unit in plan.units}
        assert cpus["isa_check.c"] == compiler.BASELINE
        assert cpus["softmax.c"] == facts.mcpu
        assert f"-DML_ISA_{facts.name.upper()}" in plan.flags
        assert "-ffp-contract=off" in plan.flags
        assert all(unit.source.is_file() for unit in plan.units)


def test_an_isa_of_another_architecture_is_refused() -> None:
    facts = dataclasses.replace(isas()[0], name="other", mcpu=None)
    with pytest.raises(IsaError, match="other: not for this machine's architecture"):
        compiler.engine_plan(facts)


@pytest.mark.slow
def test_the_first_build_takes_half_a_minute_at_most(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From nothing, zig's cache included; counted as processor time on two threads, for busy machines."""
    monkeypatch.delenv("ZIG_GLOBAL_CACHE_DIR")
    program = "from krafla.runtime.engine import engine; print(engine()[1].name)"
    before = os.times()
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    after = os.times()
    used = after.children_user - before.children_user + after.children_system - before.children_system
    assert used / 2 < 30
    assert result.stdout.strip() in {facts.name for facts in isas()}
    assert (own_cache / "zig").is_dir()
