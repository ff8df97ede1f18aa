"""Compares what the generator would write with what lies in generated/."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from krafla.codegen.format import format_files
from krafla.codegen.render import Renderer

C_FILES = {".c", ".h"}


@dataclass(frozen=True)
class Drift:
    """Files that differ, that are not there, and that nothing writes any more."""

    stale: tuple[str, ...]
    missing: tuple[str, ...]
    orphan: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.stale or self.missing or self.orphan)


def write(renderer: Renderer, names: Sequence[str], out: Path) -> list[Path]:
    """Renders, formats and writes all files of the named ISAs; returns the paths."""
    paths = []
    for relative, text in renderer.files(names).items():
        path = out / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
        paths.append(path)
    format_files([path for path in paths if path.suffix in C_FILES])
    return paths


def generated_files(folder: Path) -> set[str]:
    """Relative paths of the C files, headers and the page below a folder."""
    suffixes = {*C_FILES, ".md"}
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.suffix in suffixes}


def compare(renderer: Renderer, names: Sequence[str], folder: Path) -> Drift:
    """What differs between a folder and a fresh rendering of the named ISAs."""
    with tempfile.TemporaryDirectory() as scratch:
        fresh_folder = Path(scratch)
        write(renderer, names, fresh_folder)
        fresh = generated_files(fresh_folder)
        present = {
            path for path in generated_files(folder) if "/" not in path or path.split("/")[0] in set(names)
        }
        known = set(renderer.isas)
        strays = {path for path in generated_files(folder) if "/" in path and path.split("/")[0] not in known}
        stale = sorted(
            path
            for path in fresh & present
            if (folder / path).read_bytes() != (fresh_folder / path).read_bytes()
        )
        return Drift(tuple(stale), tuple(sorted(fresh - present)), tuple(sorted((present - fresh) | strays)))
