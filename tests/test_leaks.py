"""No file holds an instruction beyond its ISA: everything that was built is disassembled, in every section."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from krafla.codegen.registry import machines
from krafla.runtime import crossbuild
from krafla.runtime.targets import Variant, platform, variant
from tests import cross, disassembly, native

pytestmark = [
    pytest.mark.qemu,
    pytest.mark.skipif(not disassembly.OBJDUMP, reason="this machine lacks llvm-objdump"),
]


def allowed(made: crossbuild.Object, built: Variant) -> frozenset[str]:
    """What a file may use: nothing special in guards, its ISA's features in a kernel, else the build's."""
    if made.source.name in ("isa_check.c", "main_guard.c"):
        return frozenset()
    owner = made.source.parent.name
    machine = machines()[owner] if owner in machines() and owner != "scalar" else built.machine
    return frozenset(machine.features)


@pytest.mark.parametrize(("target", "isa"), cross.DISASSEMBLED)
def test_no_leak(target: str, isa: str) -> None:
    build = cross.built(target, isa, cross.products(target))
    architecture = build.variant.platform.architecture
    found, seen = [], set()
    for link in build.links:
        for made in link.objects:
            if made.digest not in seen:
                seen.add(made.digest)
                leaks = disassembly.leaks(made.path, architecture, allowed(made, build.variant))
                found += [f"{made.source.name}: {leak}" for leak in leaks]
        whole = frozenset(build.variant.machine.features)
        found += [f"{link.name}: {leak}" for leak in disassembly.leaks(link.path, architecture, whole)]
    assert len(seen) > 40
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize(("target", "isa"), [("x86_64-linux", "sse2"), ("aarch64-linux", "neon")])
def test_libraries_need_an_old_glibc_and_programs_none(target: str, isa: str) -> None:
    build = cross.built(target, isa, (crossbuild.LIBRARY, "ml_run"))
    library, program = (disassembly.headers(link.path) for link in build.links)
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([\d.]+)", library)}
    assert versions and max(versions) <= (2, 17)
    needed = set(re.findall(r"NEEDED\s+(\S+)", library))
    assert needed <= {"libc.so.6", "libm.so.6", "libpthread.so.0"}
    assert not re.search("NEEDED|INTERP", program)


PLANTED = [
    ("x86_64-linux", "sse2", "x86_64+avx2", "c[i] = a[i] + b[i];"),
    ("x86_64-linux", "sse41", "x86_64+avx2+fma", "c[i] = __builtin_fmaf(a[i], b[i], c[i]);"),
    ("x86_64-linux", "sse2", "x86_64+sse3+ssse3+sse4_1", "c[i] = __builtin_floorf(a[i]);"),
    ("x86_64-linux", "avx2", "x86_64_v4", "c[i] = a[i] > b[i] ? a[i] * b[i] : c[i];"),
    ("x86-linux", "sse2", "pentium4+avx", "c[i] = a[i] + b[i];"),
    ("aarch64-linux", "neon", "generic+v8_2a+sve", "c[i] = a[i] * b[i];"),
    ("aarch64-linux", "neon_dotprod", "generic+v8_2a+sve", "c[i] = a[i] * b[i];"),
    ("riscv64-linux", "scalar", "generic_rv64+m+a+f+d+c+v", "c[i] = a[i] * b[i];"),
    ("arm-linux", "neon", "generic+v7a+neon+vfp4", "c[i] = __builtin_fmaf(a[i], b[i], c[i]);"),
]


@pytest.mark.parametrize(("target", "isa", "cpu", "body"), PLANTED)
def test_a_planted_leak_is_found(target: str, isa: str, cpu: str, body: str) -> None:
    """The same code at the wrong CPU, in a section of its own; at the right one it passes."""
    text = (
        '__attribute__((section(".text.startup.planted")))\n'
        f"void planted(float *c, const float *a, const float *b) {{ for (int i = 0; i < 64; i++) {body} }}\n"
    )
    source = native.write_source("planted.c", text)
    right = variant(platform(target), isa)
    features = frozenset(right.machine.features)
    for mcpu, clean in ((cpu, False), (right.mcpu, True)):
        made = compiled(source, right, mcpu)
        leaks = disassembly.leaks(made, right.platform.architecture, features)
        assert (not leaks) == clean, (mcpu, leaks)


def compiled(source: Path, right: Variant, mcpu: str) -> Path:
    flags = ("-O3", "-ffast-math", "-fno-sanitize=undefined")
    made = crossbuild.Object(source, right.platform.library_triple, mcpu, flags)
    made.make()
    return made.path


@pytest.mark.parametrize(("target", "isa"), cross.DISASSEMBLED)
def test_guards_are_compiled_at_the_baseline(target: str, isa: str) -> None:
    build = crossbuild.plan(variant(platform(target), isa), crossbuild.Settings())
    for link in build.links:
        guards = {
            o.source.name: o.mcpu for o in link.objects if o.source.name in ("isa_check.c", "main_guard.c")
        }
        assert set(guards.values()) == {crossbuild.BASELINE}
        assert ("main_guard.c" in guards) == (link.name != build.variant.platform.library)


def test_vex_and_evex_forms_are_told_apart() -> None:
    """CPUs with AVX-512 VNNI may lack AVX-VNNI, and the other way round."""
    assert disassembly.x86_needs("vpdpbusd %ymm0, %ymm1, %ymm2", vex=True) == "AVXVNNI"
    assert disassembly.x86_needs("vpdpbusd %ymm0, %ymm1, %ymm2", vex=False) == "AVX512VNNI"
