"""What goes wrong, as one sentence and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path


class KraflaError(Exception):
    """An error that a user can understand: one sentence, and the exit code that goes with it."""

    code = 1

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = self.code if exit_code is None else exit_code


class UsageError(KraflaError):
    """An option or argument is outside its range, or two of them exclude each other."""

    code = 2


class IsaError(KraflaError):
    """The CPU lacks what a build needs."""

    code = 3


class AccessError(KraflaError):
    """A file cannot be opened, read, written or downloaded."""

    code = 4


class FormatError(KraflaError):
    """A file is not what it should be, or asks for something this version does not have."""

    code = 5


class ShapeError(KraflaError):
    """A dimension is out of bounds or does not fit another."""

    code = 6


class OutOfMemoryError(KraflaError):
    """Something does not fit into memory or the address space."""

    code = 7


@contextmanager
def access(path: str | PathLike[str], action: str) -> Iterator[None]:
    """Turn an operating system's error inside the block into "PATH: cannot ACTION: reason"."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise AccessError(f"{Path(path)}: cannot {action}: {reason}") from error
    except MemoryError as error:
        raise OutOfMemoryError(f"{Path(path)}: cannot {action}: out of memory") from error
