"""Formatting of generated C by the pinned clang-format (the `gen` extra)."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

STYLE = Path(__file__).resolve().parent / "generated.clang-format"


class FormatterError(RuntimeError):
    """clang-format is not there, or refused a file."""


def format_files(paths: Sequence[Path]) -> None:
    """Formats C files in place."""
    try:
        from clang_format import get_executable  # type: ignore[import-untyped]
    except ImportError as error:
        raise FormatterError("clang-format is missing: pip install 'krafla[gen]' brings it") from error
    command = [get_executable("clang-format"), "-i", f"--style=file:{STYLE}", *map(str, paths)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise FormatterError(f"clang-format failed: {' '.join(result.stderr.split())}")
