"""What goes wrong, as one sentence and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path


@dataclass(frozen=True)
class ExitCode:
    """What a program's exit code says: in two or three words, and in full."""

    code: int
    short: str
    meaning: str


#: Every exit code of every command; `--help` and the user guide show this table.
EXIT_CODES = (
    ExitCode(0, "done", "done (also when the reader of a pipe left early)"),
    ExitCode(1, "internal error", "internal error; `KRAFLA_DEBUG=1` shows where"),
    ExitCode(2, "wrong usage", "wrong usage: an unknown option or ISA, a prompt longer than the context"),
    ExitCode(3, "the CPU lacks an instruction set", "this CPU lacks the instruction set that was asked for"),
    ExitCode(4, "cannot read or write", "a file or the network cannot be read, or a file cannot be written"),
    ExitCode(5, "bad format", "a file is not what it should be, or needs a feature that is not there"),
    ExitCode(6, "bad shape", "a dimension in a file is out of bounds"),
    ExitCode(7, "out of memory", "out of memory"),
    ExitCode(130, "interrupted", "interrupted"),
)


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
