"""What the tests of native programs and of cross builds share: one build of everything, kept between runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from krafla.runtime import crossbuild, verify
from krafla.runtime.targets import platform, variant, variants
from tests import native

DIST = native.CACHE / "dist"
#: What tests build and run of verify.MACHINES.
QUICK = {
    ("x86_64-linux", "sse2"),
    ("x86_64-linux", "avx2"),
    ("x86-linux", "sse2"),
    ("arm-linux", "neon"),
    ("aarch64-linux", "neon"),
    ("aarch64-linux", "neon_dotprod"),
    ("aarch64-linux", "neon_i8mm"),
    ("aarch64-linux", "sve"),
    ("riscv64-linux", "rvv"),
    ("wasm32-wasi", "wasm_simd128"),
    ("x86_64-windows", "sse2"),
}
PRODUCTS = verify.PROGRAMS
#: What test_leaks disassembles. Scalar kernels are in every other build as the twins that tests compare with.
DISASSEMBLED = [
    (name, isa)
    for name in ("x86_64-linux", "x86-linux", "aarch64-linux", "arm-linux", "riscv64-linux")
    for isa in variants(platform(name))
    if isa != "scalar"
] + [("x86_64-windows", "sse2")]


def products(target: str) -> tuple[str, ...]:
    """What test_leaks builds for a target."""
    return (crossbuild.LIBRARY, "ml_run") if target == "x86_64-linux" else tuple(PRODUCTS)


@cache
def built(target: str, isa: str, products: Sequence[str] = PRODUCTS, **settings: bool) -> crossbuild.Build:
    """One variant, built and delivered."""
    chosen = crossbuild.Settings(products=tuple(products), **settings)
    build = crossbuild.plan(variant(platform(target), isa), chosen)
    crossbuild.run([build])
    crossbuild.deliver(build, folder(**settings))
    return build


def folder(**settings: bool) -> Path:
    """Where the files of these settings go."""
    return DIST / ("-".join(sorted(settings)) or "plain")


def program(target: str, isa: str, name: str, **settings: bool) -> Path:
    """The path of a program, built if need be."""
    build = built(target, isa, (*PRODUCTS, name) if name not in PRODUCTS else PRODUCTS, **settings)
    return folder(**settings) / target / isa / f"{name}{build.variant.platform.program_suffix}"


def prefetch(machines: Sequence[verify.Machine]) -> None:
    """Build for several machines at once, which is faster than one by one."""
    plain = crossbuild.Settings(products=PRODUCTS)
    variants = dict.fromkeys(machine.variant for machine in machines)
    crossbuild.run([crossbuild.plan(one, plain) for one in variants])
