"""Runs what was built: kernels and a whole model on every machine that can be had here, natively or emulated.

`python -m krafla.runtime.verify` builds, runs and prints the table of docs/verified.md; --write writes it there.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from krafla.runtime import crossbuild, progress
from krafla.runtime.paths import ROOT
from krafla.runtime.targets import Variant, platform, variant
from krafla.tools.errors import KraflaError
from krafla.tools.gen_random import write_random
from krafla.tools.mlb import Q4_0, Header

#: The models whose logits are compared, and the tokens they are given.
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
TOKENS = [(7 * i * i + 3 * i + 1) % 200 for i in range(70)]


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
    Machine("x86_64-windows", "sse2", ("wine",)),
    Machine("x86_64-windows", "avx2", ("wine",)),
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
class Result:
    """What a machine gave: whether all kernels equal their twins, and the hash of each model's logits."""

    kernels: bool
    hashes: tuple[str, ...]


def build(machines: Sequence[Machine], out: Path, report: progress.Report = progress.silent) -> None:
    """Build test_kernels and ml_run for machines, all at once."""
    settings = crossbuild.Settings(products=("test_kernels", "ml_run"))
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
    return subprocess.run(whole, capture_output=True, text=True, cwd=ROOT, check=False)


def write_models(folder: Path) -> list[Path]:
    """The random models whose logits are compared."""
    paths = []
    for index, header in enumerate(MODELS.values()):
        paths.append(folder / f"verify{index}.mlb")
        write_random(paths[-1], header, seed=index)
    return paths


def run(machine: Machine, out: Path, models: Sequence[Path]) -> Result:
    """Kernels, then models."""
    tested = execute(machine, program(machine, out, "test_kernels"))
    ids = ",".join(map(str, TOKENS))
    hashes = []
    for model in models:
        found = execute(
            machine, program(machine, out, "ml_run"), "-m", str(model), "-t", "2", "--logits-hash", ids
        )
        hashes.append(found.stdout.strip() if found.returncode == 0 else f"exit {found.returncode}")
    return Result(tested.returncode == 0, tuple(hashes))


def table(results: dict[Machine, Result], missing: dict[Machine, str]) -> str:
    """The page of the docs."""
    lines = [
        "# What was run",
        "",
        "Made by `python -m krafla.runtime.verify --write`. *Kernels*: `test_kernels` found every kernel equal to its",
        "scalar twin, bit for bit. The other columns are hashes of the logits of two small random models over",
        f"{len(TOKENS)} tokens: one value per class (`docs/numerics.md`), whatever the machine.",
        "",
        f"| target | ISA | class | run by | kernels | {' | '.join(MODELS)} |",
        "|---|---|---|---|---|" + "---|" * len(MODELS),
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
    lines += [f"\nNot run here: {m.target} {m.isa} (lacks {what})." for m, what in missing.items()]
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--write", is_flag=True, help="Write docs/verified.md.")
def main(write: bool) -> None:
    """Build, run and compare everything that can run here; exit code 1 if anything differs."""
    missing = {machine: what for machine in MACHINES if (what := machine.available())}
    machines = [machine for machine in MACHINES if machine not in missing]
    results = {}
    try:
        with tempfile.TemporaryDirectory() as scratch, progress.console() as report:
            build(machines, Path(scratch), report)
            models = write_models(Path(scratch))
            for done, machine in enumerate(machines):
                report("running", done, len(machines))
                results[machine] = run(machine, Path(scratch), models)
    except KraflaError as error:
        click.echo(f"verify: {error.message}", err=True)
        sys.exit(error.exit_code)
    text = table(results, missing)
    if write:
        (ROOT / "docs" / "verified.md").write_text(text, encoding="utf-8")
    else:
        click.echo(text)
    sys.exit(0 if agree(results) else 1)


def agree(results: dict[Machine, Result]) -> bool:
    """Whether all kernels are equal and each class has one set of hashes."""
    classes = {(machine.variant.fused, result.hashes) for machine, result in results.items()}
    return all(result.kernels for result in results.values()) and len(classes) == len({f for f, _ in classes})


if __name__ == "__main__":
    main()
