"""Compiles the engine and an ISA's kernels into a shared library, once, and keeps it in the cache.

The first link for a target makes zig build its own libc, which takes half a minute. On Linux with glibc the
library is therefore linked against the C library that this very process runs on; elsewhere zig's way is
taken, and its libc is built while the objects compile.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from krafla.runtime import cache as folders
from krafla.runtime import progress, tuned, zig
from krafla.runtime.isas import IsaFacts
from krafla.runtime.paths import CSRC, GENERATED
from krafla.runtime.precompile import Compilation, Headers
from krafla.tools.errors import IsaError

BASELINE = "baseline"
FLAGS = (
    "-std=gnu11",
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-sanitize=undefined",
    "-fvisibility=hidden",
)
#: Compiled without the ISA's instructions, because they run before it is known that the CPU has them.
GUARDS = ("core/isa_check.c",)
#: Folders of csrc/ with programs of their own.
PROGRAMS = ("app",)


@dataclass(frozen=True)
class Unit:
    """A C file and the CPU to compile it for."""

    source: Path
    mcpu: str


@dataclass(frozen=True)
class Plan:
    """Everything that decides what a library will be; two equal plans give the same library."""

    name: str
    triple: str
    units: tuple[Unit, ...]
    flags: tuple[str, ...]
    includes: tuple[Path, ...]

    def digest(self) -> str:
        """Hash of the flags, the compiler, the C library and the bytes of every source and header."""
        state = hashlib.sha256()
        cpus = [unit.mcpu for unit in self.units]
        facts = [self.name, self.triple, cpus, self.flags, zig.version(), runtime_libraries()]
        state.update(json.dumps(facts).encode())
        for path in [*(u.source for u in self.units), *self._headers()]:
            data = path.read_bytes()
            state.update(f"{path.name} {len(data)}\n".encode())
            state.update(data)
        return state.hexdigest()[:20]

    def _headers(self) -> Iterable[Path]:
        return (path for folder in self.includes for path in sorted(folder.rglob("*.h")))


def probe_plan() -> Plan:
    """A tiny library that knows CPU features by name."""
    units = tuple(Unit(CSRC / name, BASELINE) for name in GUARDS)
    return Plan("probe", zig.host_triple(), units, (*FLAGS, "-DML_ISA_SCALAR"), (GENERATED, CSRC))


def engine_plan(isa: IsaFacts, generated: Path | None = None) -> Plan:
    """The engine on the kernels of one ISA of this machine: those tuned for its CPU, if there are any."""
    generated = generated or tuned.folder(isa.name) or GENERATED
    if isa.mcpu is None:
        raise IsaError(f"{isa.name}: not for this machine's architecture ({zig.host_architecture()})")
    engine = sorted(path for path in CSRC.rglob("*.c") if path.relative_to(CSRC).parts[0] not in PROGRAMS)
    guards = {CSRC / name for name in GUARDS}
    units = [Unit(path, BASELINE if path in guards else isa.mcpu) for path in engine]
    units += [Unit(generated / name, isa.mcpu) for name in isa.kernels]
    flags = (*FLAGS, f"-DML_ISA_{isa.name.upper()}")
    return Plan(isa.name, zig.host_triple(), tuple(units), flags, (generated, CSRC))


def build(plan: Plan, report: progress.Report = progress.silent) -> Path:
    """The plan's library: from the cache, or compiled now."""
    suffix = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
    path = folders.room("lib") / f"{plan.name}-{plan.digest()}{suffix}"
    if path.is_file():
        return path
    with folders.lock(path):
        if not path.is_file():
            with folders.replacing(path) as temporary, tempfile.TemporaryDirectory() as scratch:
                _compile_and_link(plan, temporary, Path(scratch), report)
    return path


def _compile_and_link(plan: Plan, output: Path, scratch: Path, report: progress.Report) -> None:
    what, total = f"building the {plan.name} library (only the first time)", len(plan.units) + 1
    report(what, 0, total)
    libraries = runtime_libraries()
    with ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as pool:
        warm = None if libraries else pool.submit(_warm, plan.triple, scratch)
        headers = Headers(scratch, pool)
        headers.prepare([_compilation(plan, unit) for unit in plan.units])
        jobs = [
            pool.submit(_compile, plan, unit, scratch / f"{i}.o", headers)
            for i, unit in enumerate(plan.units)
        ]
        objects = []
        try:
            for done, job in enumerate(jobs, 1):
                objects.append(job.result())
                report(what, done, total)
            if warm:
                warm.result()
        except BaseException:  # Ctrl-C does not wait for what has not begun
            pool.shutdown(cancel_futures=True)
            raise
    _link(plan.triple, objects, libraries, output)
    report(what, total, total)


def _target(triple: str, mcpu: str) -> list[str]:
    position = [] if "windows" in triple else ["-fPIC"]
    return ["-target", triple, f"-mcpu={mcpu}", *position]


def _compilation(plan: Plan, unit: Unit) -> Compilation:
    includes = (f"-I{path}" for path in plan.includes)
    return Compilation(unit.source, (*_target(plan.triple, unit.mcpu), *plan.flags, *includes))


def _compile(plan: Plan, unit: Unit, output: Path, headers: Headers) -> Path:
    one = _compilation(plan, unit)
    try:
        zig.run(["cc", *one.arguments, *headers.flags(one), "-c", str(unit.source), "-o", str(output)])
    except zig.CompileError as error:
        raise zig.CompileError(f"cannot compile {unit.source.name} for {plan.name}: {error}") from error
    return output


def _warm(triple: str, scratch: Path) -> None:
    source = scratch / "warm.c"
    source.write_text("int krafla_warm;\n", encoding="utf-8")
    zig.run(["cc", *_target(triple, BASELINE), "-shared", str(source), "-o", str(scratch / "warm.out")])


def _link(triple: str, objects: list[Path], libraries: tuple[str, ...], output: Path) -> None:
    inputs = [str(path) for path in objects]
    if libraries:
        try:
            options = ["-shared", "--no-undefined", "--gc-sections", "-z", "now"]
            zig.run(["ld.lld", *options, *inputs, *libraries, "-o", str(output)])
            return
        except zig.CompileError:
            pass  # a helper function of the compiler is missing: zig's own way has it
    zig.run(["cc", *_target(triple, BASELINE), "-shared", *inputs, "-o", str(output)])


@cache
def runtime_libraries() -> tuple[str, ...]:
    """The glibc files that this process runs on, or nothing where that is not to be seen."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    mapped = {Path(line.split(maxsplit=5)[5]) for line in lines if line.endswith("/libc.so.6")}
    if len(mapped) != 1:
        return ()
    folder = mapped.pop().parent
    names = ("libc.so.6", "libm.so.6", "libpthread.so.0")
    return tuple(str(folder / name) for name in names if (folder / name).is_file())
