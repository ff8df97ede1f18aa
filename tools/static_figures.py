"""Inner loops of the packed kernels and of attention on ARM cores, counted by llvm-mca: what this machine cannot time.

For RISC-V and WebAssembly, whose cores and compilers it does not know, instructions are only counted.

Needs `llvm-mca` (Debian: the package llvm). Writes a Markdown table to standard output, or between the markers of
a page.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

from krafla.codegen.isa import Machine
from krafla.codegen.registry import machines
from krafla.runtime import compile as compiler
from krafla.runtime import zig
from krafla.runtime.paths import CSRC, GENERATED
from krafla.tools.doc_tables import replace_between, table
from krafla.tools.errors import AccessError, KraflaError

KERNELS = (
    "matmul_q8_pk",
    "matmul_q4_pk",
    "matvec_q8_pk",
    "matvec_q4_pk",
    "dot_f32",
    "dot_f16",
    "dot_q8",
    "axpy_f32",
    "axpy_f16",
    "axpy_q8",
)
#: Cores, and the ISA that the project runs on them.
CORES = {
    "cortex-a53": "neon",
    "cortex-a76": "neon_dotprod",
    "neoverse-n1": "neon_dotprod",
    "neoverse-v1": "neon_i8mm",
}
#: Multiply-accumulates of one instruction.
MACS = {"sdot": 16, "smmla": 32, "smull": 8, "smull2": 8, "smlal": 8, "smlal2": 8}
#: The same where floats are multiplied.
FLOAT_MACS = {"fmla": 4}
#: What every block of 32 takes for its scales: convert, multiply them, multiply and add.
SCALING = ("scvtf", "fsub", "fadd", "fmul", "fmla")
#: ISAs without cores to simulate, and multiply-accumulates of one instruction: only counted.
COUNTED = {"rvv": {"vwmul.vx": 16, "vwmacc.vx": 16}, "wasm_simd128": {"i32x4.dot_i16x8_s": 8}}
TURNS = 100


@dataclass(frozen=True)
class Loop:
    """An innermost loop: its instructions, one per line, and multiply-accumulates of those that count."""

    body: tuple[str, ...]
    each: Mapping[str, int] = field(default_factory=lambda: MACS)

    @property
    def products(self) -> tuple[str, ...]:
        """The instructions that multiply."""
        return tuple(line for line in self.body if line.split()[0] in self.each)

    @property
    def needed(self) -> tuple[str, ...]:
        """Those, and what the scales take."""
        return tuple(line for line in self.body if line.split()[0] in (*self.each, *SCALING))

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one turn."""
        return sum(self.each[line.split()[0]] for line in self.products)


@dataclass(frozen=True)
class Figure:
    """One kernel on one core."""

    core: str
    kernel: str
    rows: int  # of weights; positions or dimensions of a cache
    tokens: int  # or queries
    instructions: int
    macs: int
    cycles: float  # of one turn
    limit: float  # cycles that the multiply instructions take at least
    needed: float  # the same, with what the scales of each block take

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        each = 16 / self.macs
        return (
            f"{self.core}: `{self.kernel}`",
            f"{self.rows} x {self.tokens}",
            f"{self.instructions * each:.2f}",
            f"{self.cycles * each:.2f}",
            f"{self.limit * each:.2f}",
            f"{self.limit / self.cycles:.0%}",
            f"{self.needed * each:.2f}",
            f"{self.needed / self.cycles:.0%}",
        )


HEAD = (
    "inner loop",
    "rows x tokens",
    "instructions per 16 MAC",
    "cycles",
    "products alone",
    "share",
    "with scales",
    "share",
)


def loops(assembly: str, each: Mapping[str, int] = MACS) -> Iterator[Loop]:
    """Every loop that is one straight run of instructions back to its own label."""
    label = ""
    body: list[str] = []
    for line in assembly.splitlines():
        text = re.split(r"//|#\s", line)[0].strip()
        if text.endswith(":"):
            label, body = text[:-1], []
        elif text and not text.startswith("."):
            body.append(text)
            if label and re.match(rf"(b\.?\w+|cbn?z)\s(.*\s)?{re.escape(label)}$", text):
                yield Loop(tuple(body), each)


def stack_loops(assembly: str, each: Mapping[str, int]) -> Iterator[Loop]:
    """The innermost loops of WebAssembly, without locals and constants: to its compilers they are registers."""
    for part in assembly.split("\tloop")[1:]:
        lines = (line.split("#")[0].strip() for line in part.split("end_loop")[0].splitlines()[1:])
        kept = (line for line in lines if line and not line.endswith(":"))
        yield Loop(
            tuple(line for line in kept if not re.match(r"local\.|\w+\.const|block|end_block", line)), each
        )


def compiled(isa: str, kernel: str) -> str:
    """The assembly of the kernel that an ISA supplies; of ARM's on AArch64."""
    targets = machines()[isa].isa.targets
    target = next((t for t in targets if t.triple.startswith("aarch64")), targets[0])
    libc = "" if target.triple.startswith("wasm") else "-musl"
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "kernel.s"
        arguments = [
            "cc",
            "-target",
            f"{target.triple}{libc}",
            f"-mcpu={target.mcpu}",
            *compiler.FLAGS,
            "-g0",
            "-S",
        ]
        arguments += [f"-DML_ISA_{isa.upper()}", f"-I{GENERATED}", f"-I{CSRC}", "-o", str(output)]
        zig.run([*arguments, str(GENERATED / isa / f"{kernel}.c")])
        return output.read_text(encoding="utf-8")


def simulate(mca: str, core: str, lines: tuple[str, ...]) -> tuple[float, float]:
    """Cycles per turn as llvm-mca simulates it, and by the use of its busiest unit alone."""
    command = [mca, "-march=aarch64", f"-mcpu={core}", f"-iterations={TURNS}", "-instruction-info=0"]
    try:
        done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    except OSError as error:
        raise AccessError(
            f"{mca}: cannot be started: {error.strerror}; Debian's package llvm has it"
        ) from error
    found = dict(re.findall(r"^(Total Cycles|Block RThroughput): +([\d.]+)$", done.stdout, re.MULTILINE))
    if len(found) != 2:
        raise KraflaError(f"llvm-mca for {core}: {' '.join(done.stderr.split())[:300]}")
    return float(found["Total Cycles"]) / TURNS, float(found["Block RThroughput"])


def tile(machine: Machine, kernel: str, macs: int) -> tuple[int, int]:
    """Rows and tokens of a loop that does so many products per turn."""
    assert machine.pack is not None
    group, block = machine.pack.dot.group, machine.f32.block
    if kernel.startswith(("dot_f", "axpy")):
        return macs // block.queries, block.queries
    if kernel.startswith("matvec"):
        return macs // 32, 1
    return group, macs // 32 // group


def figure(mca: str, core: str, isa: str, kernel: str) -> Figure:
    """The loop of a kernel that does the most products per turn."""
    each = FLOAT_MACS if kernel.startswith(("dot_f", "axpy")) else MACS
    loop = max(loops(compiled(isa, kernel), each), key=lambda loop: loop.macs, default=Loop((), each))
    if not loop.macs:
        raise KraflaError(f"{isa}: no inner loop of {kernel} multiplies")
    cycles, _ = simulate(mca, core, loop.body)
    _, limit = simulate(mca, core, loop.products)
    _, needed = simulate(mca, core, loop.needed)
    rows, tokens = tile(machines()[isa], kernel, loop.macs)
    return Figure(core, kernel, rows, tokens, len(loop.body), loop.macs, cycles, limit, needed)


def counted(isa: str, kernel: str) -> tuple[str, ...]:
    """A row of the table of counted loops."""
    each = COUNTED[isa]
    found = (stack_loops if isa.startswith("wasm") else loops)(compiled(isa, kernel), each)
    loop = max(found, key=lambda loop: loop.macs, default=Loop((), each))
    if not loop.macs:
        raise KraflaError(f"{isa}: no inner loop of {kernel} multiplies")
    rows, tokens = tile(machines()[isa], kernel, loop.macs)
    return f"{isa}: `{kernel}`", f"{rows} x {tokens}", f"{len(loop.body) * 16 / loop.macs:.2f}"


def supplier(isa: str, kernel: str) -> str:
    """The ISA of the chain whose kernel it is."""
    return next(
        link.name for link in machines()[isa].chain if (GENERATED / link.name / f"{kernel}.c").is_file()
    )


def figures(mca: str) -> Iterator[Figure]:
    """Every kernel on every core."""
    for core, isa in CORES.items():
        for kernel in KERNELS:
            yield figure(mca, core, supplier(isa, kernel), kernel)


@click.command(help=__doc__)
@click.option("--mca", default="llvm-mca", show_default=True, help="The llvm-mca to ask.")
@click.option(
    "--write", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="docs/performance.md"
)
def main(mca: str, write: Path | None) -> None:
    """Make the table."""
    try:
        text = table(HEAD, (found.cells() for found in figures(mca)))
        packed = [kernel for kernel in KERNELS if kernel.startswith("mat")]
        counts = table(HEAD[:3], (counted(isa, kernel) for isa in COUNTED for kernel in packed))
        version = re.search(r"LLVM version [\d.]+", subprocess.check_output([mca, "--version"], text=True))
        if write:
            replace_between(write, "arm", f"{version[0] if version else mca}:\n\n{text}")
            replace_between(write, "counted", counts)
        else:
            click.echo(f"{text}\n\n{counts}")
    except KraflaError as error:
        print(f"static_figures: {error.message}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
