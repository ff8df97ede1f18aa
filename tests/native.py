"""Compiles C for tests: warnings are errors, objects and libraries are cached by content."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from krafla.codegen.registry import load_isas

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "runtime" / "csrc"
CACHE = ROOT / ".pytest_cache" / "native"
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")
# These run before the CPU is known to have the ISA, so they are compiled without its flags.
BASELINE_SOURCES = {"isa_check.c", "main_guard.c"}


def zig_command() -> list[str]:
    """The C compiler, as a command prefix."""
    return [sys.executable, "-m", "ziglang", "cc"]


def target_flags(isa: str) -> list[str]:
    """Target and CPU from the descriptor: never the compiler's default, which is this machine's CPU."""
    architecture = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    targets = [t for t in load_isas()[isa].targets if t.triple.startswith(f"{architecture}-")]
    assert targets or isa == "scalar", f"{isa} does not run on {architecture}"
    flags = [f"-mcpu={targets[0].mcpu if targets else 'baseline'}"]
    return ["-target", f"{architecture}-linux-gnu.2.17", *flags] if sys.platform == "linux" else flags


def build_library(
    sources: Iterable[str | Path],
    isa: str = "scalar",
    defines: Sequence[str] = (),
    extra: Sequence[str] = (),
    cpu: str = "",
) -> ctypes.CDLL:
    """Compiles the sources into a shared library and loads it.

    Sources are paths, relative ones under runtime/csrc; `defines` are NAME or NAME=VALUE, `extra` more flags.
    With cpu="scalar" an ISA's code that has no intrinsics in it runs on every machine.
    """
    return ctypes.CDLL(str(build(sources, isa, defines, (*extra, "-fPIC"), ("-shared",), cpu)))


def build_program(
    sources: Iterable[str | Path],
    isa: str = "scalar",
    defines: Sequence[str] = (),
    extra: Sequence[str] = (),
    cpu: str = "",
) -> Path:
    """Compiles the sources into an executable."""
    return build(sources, isa, defines, extra, (), cpu)


def write_source(name: str, text: str) -> Path:
    """A C file made by a test; its path depends on its content, so that a change is compiled anew."""
    path = CACHE / "sources" / hashlib.sha256(text.encode()).hexdigest()[:16] / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text(text)
    return path


def build(
    sources: Iterable[str | Path],
    isa: str,
    defines: Sequence[str],
    extra: Sequence[str],
    link: Sequence[str],
    cpu: str = "",
) -> Path:
    """Objects in parallel, then one link; returns the cached file."""
    paths = [Path(source) if Path(source).is_absolute() else CSRC / source for source in sources]
    flags = [*(f"-D{define}" for define in (*defines, f"ML_ISA_{isa.upper()}")), *extra]
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda path: _object(path, cpu or isa, flags), paths))
    name = _digest(*link, *(item.name for item in objects))
    sanitizers = [flag for flag in extra if flag.startswith("-fsanitize")]
    return _made(
        CACHE / (f"{name}.so" if "-shared" in link else name),
        [*target_flags("scalar"), *sanitizers, *link, *map(str, objects), "-lm", "-lpthread"],
    )


def _object(path: Path, cpu: str, flags: Sequence[str]) -> Path:
    options = [
        *target_flags("scalar" if path.name in BASELINE_SOURCES else cpu),
        *("-std=c11", "-O2", "-g", "-ffp-contract=off", "-fvisibility=default"),
        *(() if any(flag.startswith("-fsanitize") for flag in flags) else ("-fno-sanitize=undefined",)),
        *WARNINGS,
        *flags,  # a test's own -I comes first
        *(f"-I{folder}" for folder in (CSRC, ROOT / "generated")),
    ]
    name = _digest(*options, str(path), path.read_text(encoding="utf-8"), _headers())
    return _made(CACHE / f"{name}.o", [*options, "-c", str(path)])


def _made(output: Path, arguments: Sequence[str]) -> Path:
    """Runs the compiler unless its output exists; a killed run leaves no half-written file."""
    if output.exists():
        return output
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary = output.with_name(f"{os.getpid()}-{output.name}")
    environment = {"ZIG_GLOBAL_CACHE_DIR": str(CACHE / "zig"), **os.environ}
    command = [*zig_command(), *arguments, "-o", str(temporary)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return temporary.replace(output)


@lru_cache(maxsize=1)
def _headers() -> str:
    """A digest of every header: a change in one recompiles everything, which is simple and never wrong."""
    files = sorted([*CSRC.rglob("*.h"), *(ROOT / "generated").rglob("*.h")])
    return _digest(*(f"{path}\n{path.read_text(encoding='utf-8')}" for path in files))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
