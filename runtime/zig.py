"""The C compiler: zig, from the ziglang package, so that nothing else must be installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

from krafla.runtime import cache as folders
from krafla.tools.errors import KraflaError

#: zig's name of an architecture, by what the system calls it.
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "armv7l": "arm", "armv8l": "arm", "i686": "x86"}


class CompileError(KraflaError):
    """The compiler or the linker refused its input."""


@cache
def command() -> tuple[str, ...]:
    """How to start zig: its executable where the package shows it, which saves an interpreter start."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise KraflaError("the Python package ziglang is missing: install it with `pip install ziglang`")
    executable = Path(spec.origin).parent / ("zig.exe" if os.name == "nt" else "zig")
    return (str(executable),) if executable.is_file() else (sys.executable, "-m", "ziglang")


@cache
def version() -> str:
    """The version of zig."""
    return importlib.metadata.version("ziglang")


def run(arguments: list[str], cwd: Path | None = None) -> None:
    """Run zig, with its own cache inside the project's; its complaints become a CompileError."""
    environment = dict(os.environ)
    environment.setdefault("ZIG_GLOBAL_CACHE_DIR", str(folders.room("zig")))
    whole = [*command(), *arguments]
    result = subprocess.run(
        whole, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=cwd
    )
    if result.returncode:
        ending = f"zig {arguments[0]} ended with status {result.returncode}"
        raise CompileError(result.stderr.strip() or ending)


def host_architecture() -> str:
    """This machine's architecture by zig's name."""
    machine = platform.machine().lower()
    return _ARCHITECTURES.get(machine, machine)


def host_triple() -> str:
    """The -target for libraries that this Python process can load."""
    architecture = host_architecture()
    if sys.platform == "darwin":
        return f"{architecture}-macos"
    if sys.platform == "win32":
        return f"{architecture}-windows-gnu"
    suffix = "eabihf" if architecture == "arm" else ""
    if not platform.libc_ver()[0].startswith("glibc"):
        return f"{architecture}-linux-musl{suffix}"
    floor = "2.27" if architecture == "riscv64" else "2.17"
    return f"{architecture}-linux-gnu{suffix}.{floor}"
