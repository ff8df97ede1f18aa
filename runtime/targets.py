"""What can be built: the targets of `build.py`, and which ISAs each of them has."""

from __future__ import annotations

from dataclasses import dataclass

from krafla.codegen.isa import Isa, Machine
from krafla.codegen.ops import OPS
from krafla.codegen.registry import bind, load_isas, machines
from krafla.tools.errors import UsageError

#: Features that a program can only ask Linux for.
_LINUX_ONLY = {"SVE", "AMXTILE"}


@dataclass(frozen=True)
class Platform:
    """A target by its word: zig's triples for executables and for the shared library, and how files are called."""

    name: str
    program_triple: str
    library_triple: str
    program_suffix: str
    library: str

    @property
    def architecture(self) -> str:
        """The first part of the name."""
        return self.name.partition("-")[0]

    @property
    def system(self) -> str:
        """The second part of the name."""
        return self.name.partition("-")[2]


def _linux(architecture: str, abi: str = "", glibc: str = "2.17") -> Platform:
    static = f"{architecture}-linux-musl{abi}"
    return Platform(
        f"{architecture}-linux", static, f"{architecture}-linux-gnu{abi}.{glibc}", "", "libkrafla.so"
    )


def _windows(architecture: str) -> Platform:
    triple = f"{architecture}-windows-gnu"
    return Platform(f"{architecture}-windows", triple, triple, ".exe", "krafla.dll")


def _macos(architecture: str) -> Platform:
    triple = f"{architecture}-macos"
    return Platform(triple, triple, triple, "", "libkrafla.dylib")


PLATFORMS = {
    platform.name: platform
    for platform in (
        _linux("x86_64"),
        _linux("x86"),
        _linux("aarch64"),
        _linux("arm", "eabihf"),
        _linux("riscv64", glibc="2.27"),  # the first one with this architecture
        _windows("x86_64"),
        _windows("aarch64"),
        _macos("x86_64"),
        _macos("aarch64"),
        Platform("wasm32-wasi", "wasm32-wasi", "wasm32-wasi", ".wasm", "krafla.wasm"),
    )
}


@dataclass(frozen=True)
class Variant:
    """One ISA on one target: the CPU to compile for, in zig's words, and the class of its multiply-add."""

    platform: Platform
    machine: Machine
    mcpu: str
    fused: bool

    @property
    def name(self) -> str:
        """The ISA's name."""
        return self.machine.name

    def owners(self) -> dict[str, Isa]:
        """By op: the ISA whose kernel serves it."""
        bound = ((op.name, bind(op, self.machine, load_isas())) for op in OPS)
        return {name: owner for name, owner in bound if owner is not None}


def platform(name: str) -> Platform:
    """The target of that name."""
    if name not in PLATFORMS:
        raise UsageError(f"--target {name}: there is no such target, there are {', '.join(PLATFORMS)}")
    return PLATFORMS[name]


def variants(on: Platform) -> dict[str, Variant]:
    """The ISAs that a target has, by name."""
    found = {}
    for machine in machines().values():
        if machine.isa.parent is None:
            found[machine.name] = Variant(on, machine, "baseline", False)
            continue
        matching = [t for t in machine.isa.targets if t.triple.partition("-")[0] == on.architecture]
        if matching and (on.system == "linux" or not _LINUX_ONLY & set(machine.features)):
            found[machine.name] = Variant(on, machine, matching[0].mcpu, matching[0].fused)
    return found


def variant(on: Platform, isa: str) -> Variant:
    """One ISA of a target; an impossible pair is refused by name."""
    if isa not in machines():
        raise UsageError(f"--isa {isa}: there is no such ISA, there are {', '.join(machines())}")
    possible = variants(on)
    if isa not in possible:
        raise UsageError(f"--target {on.name} --isa {isa}: impossible, {on.name} has {', '.join(possible)}")
    return possible[isa]
