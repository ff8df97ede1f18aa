"""Runs what was built: kernels and whole models on every machine that can be had here, natively or emulated.

`python -m krafla.runtime.verify` builds, runs and prints the tables of docs/verified.md; --write writes them there.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from krafla.runtime import crossbuild, progress, pull
from krafla.runtime.paths import ROOT
from krafla.runtime.targets import Variant, platform, variant
from krafla.tools.convert import Options, convert
from krafla.tools.errors import KraflaError
from krafla.tools.gen_random import write_random
from krafla.tools.mlb import Q4_0, Header

#: The random models whose logits are compared, and the tokens they are given.
MODELS = {
    "Q8_0": Header(
        dim=64,
        n_layers=2,
        n_heads=4,
        n_kv_heads=2,
        hidden_dim=96,
        vocab=263,
        max_seq=320,
        qk_norm=1,
        head_dim=32,
    ),
    "Q4_0, f16": Header(
        dim=160,
        n_layers=2,
        n_heads=5,
        n_kv_heads=5,
        hidden_dim=352,
        vocab=203,
        max_seq=320,
        wtype=Q4_0,
        scale_f16=1,
        qkv_bias=1,
    ),
}
TOKENS = tuple((7 * i * i + 3 * i + 1) % 200 for i in range(70))
#: SmolLM2's: "The capital of France is Paris." and the token before it.
SMOLLM2_TOKENS = (1, 504, 3575, 282, 4649, 314, 7042, 30)


PROGRAMS = ("test_kernels", "ml_run")
_WINE = ("wine",)
#: Quiet, without the two parts that it offers to download, and with arguments in UTF-8.
_FOR_WINE = {"WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml=", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True)
class Machine:
    """One machine to run a build on: how it is called, and what stands before the program."""

    target: str
    isa: str
    emulator: tuple[str, ...] = ()  # none: this machine

    @property
    def title(self) -> str:
        """The machine for people."""
        if not self.emulator:
            return "natively"
        if "-m" in self.emulator:
            return "wasmtime"
        name = Path(self.emulator[0]).name
        return f"{name} {self.emulator[-1]}" if len(self.emulator) > 1 else name

    @property
    def variant(self) -> Variant:
        """What is built for it."""
        return variant(platform(self.target), self.isa)

    def available(self) -> str:
        """Empty if it can run here, else what is missing."""
        if not self.emulator:
            return _lacking(self.isa)
        if self.emulator == _WINE and (missing := _lacking(self.isa)):
            return missing  # wine emulates no CPU
        if "-m" in self.emulator:
            return "" if _has_module("wasmtime") else "wasmtime (pip install wasmtime)"
        return "" if shutil.which(self.emulator[0]) else self.emulator[0]


def _qemu(architecture: str, cpu: str) -> tuple[str, ...]:
    return (f"qemu-{architecture}", "-cpu", cpu)


_WASM = (sys.executable, "-m", "krafla.tools.run_wasm")
_SVE = {128: "max,sve-max-vq=1", 256: "max,sve-max-vq=2", 512: "max,sve-max-vq=4", 2048: "max,sve-max-vq=16"}
MACHINES = (
    *(
        Machine("x86_64-linux", isa)
        for isa in ("scalar", "sse2", "sse41", "avx", "avx2", "avxvnni", "avx512vnni", "amx_int8")
    ),
    Machine("x86_64-linux", "sse2", _qemu("x86_64", "Opteron_G1")),
    Machine("x86_64-linux", "sse41", _qemu("x86_64", "Penryn")),
    Machine("x86_64-linux", "avx", _qemu("x86_64", "SandyBridge")),
    Machine("x86_64-linux", "avx2", _qemu("x86_64", "Haswell")),
    Machine("x86-linux", "scalar", _qemu("i386", "n270")),
    Machine("x86-linux", "sse2", _qemu("i386", "n270")),
    Machine("arm-linux", "scalar", _qemu("arm", "cortex-a9")),
    Machine("arm-linux", "neon", _qemu("arm", "cortex-a9")),
    Machine("aarch64-linux", "scalar", _qemu("aarch64", "cortex-a53")),
    Machine("aarch64-linux", "neon", _qemu("aarch64", "cortex-a53")),
    Machine("aarch64-linux", "neon_dotprod", _qemu("aarch64", "cortex-a76")),
    Machine("aarch64-linux", "neon_i8mm", _qemu("aarch64", "max")),
    *(Machine("aarch64-linux", "sve", _qemu("aarch64", cpu)) for cpu in _SVE.values()),
    Machine("riscv64-linux", "scalar", _qemu("riscv64", "rv64")),
    *(
        Machine("riscv64-linux", "rvv", _qemu("riscv64", f"rv64,v=true,vext_spec=v1.0,vlen={bits}"))
        for bits in (128, 256, 512)
    ),
    Machine("wasm32-wasi", "scalar", _WASM),
    Machine("wasm32-wasi", "wasm_simd128", _WASM),
    Machine("x86_64-windows", "sse2", _WINE),
    Machine("x86_64-windows", "avx2", _WINE),
)


@functools.cache
def _has_module(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


@functools.cache
def _lacking(isa: str) -> str:
    from krafla.runtime import host

    return next(
        (found.missing or "" for found in host.survey() if found.facts.name == isa), "another architecture"
    )


@dataclass(frozen=True)
class Refusal:
    """A machine that lacks its build's ISA, and the feature that the build must name."""

    machine: Machine
    missing: str


REFUSALS = (
    Refusal(Machine("x86_64-linux", "avx512vnni", _qemu("x86_64", "Nehalem")), "AVX"),
    Refusal(Machine("x86_64-linux", "avx2", _qemu("x86_64", "Haswell,-avx")), "AVX"),
    Refusal(Machine("x86_64-linux", "avx2", _qemu("x86_64", "Haswell,-xsave")), "AVX"),  # off in the system
    Refusal(Machine("x86_64-linux", "sse41", _qemu("x86_64", "Opteron_G1")), "SSSE3"),
    Refusal(Machine("x86-linux", "sse2", _qemu("i386", "pentium3")), "SSE2"),
    Refusal(
        Machine("aarch64-linux", "neon_i8mm", _qemu("aarch64", "cortex-a76")), "the int8 matrix extension"
    ),
    Refusal(
        Machine("aarch64-linux", "neon_i8mm", _qemu("aarch64", "cortex-a72")), "the dot product extension"
    ),
    Refusal(Machine("aarch64-linux", "sve", _qemu("aarch64", "cortex-a76")), "SVE"),
    Refusal(Machine("riscv64-linux", "rvv", _qemu("riscv64", "rv64")), "the vector extension (V 1.0)"),
)


@dataclass(frozen=True)
class Subject:
    """A model whose logits are compared, and the tokens it is given."""

    title: str
    path: Path
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Result:
    """What a machine gave: whether all kernels equal their twins, and the hash of each model's logits."""

    kernels: bool
    hashes: tuple[str, ...]


def build(machines: Sequence[Machine], out: Path, report: progress.Report = progress.silent) -> None:
    """Build test_kernels and ml_run for machines, all at once."""
    settings = crossbuild.Settings(products=PROGRAMS)
    builds = [crossbuild.plan(v, settings) for v in dict.fromkeys(m.variant for m in machines)]
    crossbuild.run(builds, report)
    for one in builds:
        crossbuild.deliver(one, out)


def program(machine: Machine, out: Path, name: str) -> Path:
    """Where a machine's program lies."""
    return out / machine.target / machine.isa / f"{name}{machine.variant.platform.program_suffix}"


def execute(machine: Machine, command: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program on a machine."""
    whole = [*machine.emulator, str(command), *arguments]
    environment = {**os.environ, **(_FOR_WINE if machine.emulator == _WINE else {})}
    return subprocess.run(whole, capture_output=True, text=True, cwd=ROOT, check=False, env=environment)


def random_models(folder: Path) -> list[Subject]:
    """Small ones."""
    found = []
    for index, (title, header) in enumerate(MODELS.items()):
        path = folder / f"verify{index}.mlb"
        write_random(path, header, seed=index)
        found.append(Subject(f"random, {title}", path, TOKENS))
    return found


def smollm2(
    folder: Path, kind: Literal["q8_0", "q4_0"], report: progress.Report = progress.silent
) -> Subject:
    """SmolLM2-135M-Instruct, the package of `krafla pull`, with one type of weights."""
    path = folder / f"smollm2-{kind}.mlb"
    what = f"converting {pull.DEFAULT} to {kind.upper()}"
    options = Options(type=kind, tokenizer=False)
    convert(pull.pull(pull.DEFAULT, report), path, options, lambda _, done, total: report(what, done, total))
    return Subject(f"SmolLM2-135M, {kind.upper()}", path, SMOLLM2_TOKENS)


def logits_hash(machine: Machine, out: Path, subject: Subject) -> str:
    """The hash of all logits, as the machine's ml_run prints it."""
    ids = ",".join(map(str, subject.tokens))
    flags = ("-m", str(subject.path), "-t", "2", "-c", "128", "--logits-hash", ids)
    found = execute(machine, program(machine, out, "ml_run"), *flags)
    return found.stdout.strip() if found.returncode == 0 else f"exit {found.returncode}"


def run(machine: Machine, out: Path, subjects: Sequence[Subject]) -> Result:
    """Kernels, then models."""
    tested = execute(machine, program(machine, out, "test_kernels"))
    return Result(tested.returncode == 0, tuple(logits_hash(machine, out, subject) for subject in subjects))


def refused(refusal: Refusal, out: Path, name: str) -> str:
    """Empty if a program ends as it must where the CPU lacks its ISA, else what it did instead."""
    machine = refusal.machine
    done = execute(machine, program(machine, out, name))
    sentence = f"this CPU lacks {refusal.missing}, which the {machine.isa} build needs"
    right = done.returncode == 3 and sentence in done.stderr and not done.stdout
    return "" if right else f"exit {done.returncode}: {done.stderr[-500:]}"


def page(
    results: dict[Machine, Result],
    refusals: dict[Refusal, str],
    missing: dict[Machine, str],
    subjects: Sequence[Subject],
) -> str:
    """The page of the docs."""
    lines = [
        "# What was run",
        "",
        "Made by `python -m krafla.runtime.verify --write`. *Kernels*: `test_kernels` found every kernel equal to its",
        "scalar twin, bit for bit. The other columns are hashes of all logits: of two small random models over",
        f"{len(TOKENS)} tokens, and of SmolLM2-135M-Instruct over {len(SMOLLM2_TOKENS)}. There is one value per class",
        "(`docs/numerics.md`), whatever the machine.",
        "",
        f"| target | ISA | class | run by | kernels | {' | '.join(subject.title for subject in subjects)} |",
        "|---|---|---|---|---|" + "---|" * len(subjects),
    ]
    for machine, result in results.items():
        kernels = "equal" if result.kernels else "DIFFER"
        hashes = " | ".join(f"`{value}`" for value in result.hashes)
        cells = [
            machine.target,
            machine.isa,
            "F" if machine.variant.fused else "U",
            machine.title,
            kernels,
            hashes,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "## On a CPU without the ISA",
        "",
        "Exit code 3 and one sentence, from `test_kernels` and `ml_run` alike.",
        "",
        "| target | ISA | run by | the CPU lacks |",
        "|---|---|---|---|",
    ]
    for refusal, wrong in refusals.items():
        machine = refusal.machine
        cells = [machine.target, machine.isa, machine.title, wrong or refusal.missing]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [f"\nNot run here: {m.target} {m.isa} (lacks {what})." for m, what in missing.items()]
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--write", is_flag=True, help="Write docs/verified.md.")
@click.option("--small", is_flag=True, help="Only the random models: no download, and faster.")
def main(write: bool, small: bool) -> None:
    """Build, run and compare everything that can run here; exit code 1 if anything differs."""
    if write and small:
        raise click.UsageError("--write needs all models, --small leaves some out")
    everything = [*MACHINES, *(refusal.machine for refusal in REFUSALS)]
    missing = {machine: what for machine in everything if (what := machine.available())}
    try:
        with tempfile.TemporaryDirectory() as scratch, progress.console() as report:
            out = Path(scratch)
            build([machine for machine in everything if machine not in missing], out, report)
            subjects = random_models(out)
            if not small:
                subjects += [smollm2(out, "q8_0", report), smollm2(out, "q4_0", report)]
            results = {}
            for done, machine in enumerate(MACHINES):
                report("running", done, len(MACHINES))
                if machine not in missing:
                    results[machine] = run(machine, out, subjects)
            refusals = {
                refusal: "; ".join(filter(None, (refused(refusal, out, name) for name in PROGRAMS)))
                for refusal in REFUSALS
                if refusal.machine not in missing
            }
    except KraflaError as error:
        click.echo(f"verify: {error.message}", err=True)
        sys.exit(error.exit_code)
    text = page(results, refusals, missing, subjects)
    if write:
        (ROOT / "docs" / "verified.md").write_text(text, encoding="utf-8")
    else:
        click.echo(text)
    sys.exit(0 if agree(results) and not any(refusals.values()) else 1)


def agree(results: dict[Machine, Result]) -> bool:
    """Whether all kernels are equal and each class has one set of hashes."""
    classes = {(machine.variant.fused, result.hashes) for machine, result in results.items()}
    return all(result.kernels for result in results.values()) and len(classes) == len({f for f, _ in classes})


if __name__ == "__main__":
    main()
