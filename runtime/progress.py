"""Progress on standard error: a bar on a terminal, one line elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Called with what is being done, how much of it is done, and how much there is.
Report = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """Report nothing."""


@contextmanager
def console(quiet: bool = False) -> Iterator[Report]:
    """A `Report` for people who watch; bars vanish at the end."""
    if quiet:
        yield silent
    elif sys.stderr.isatty():
        with _bars() as report:
            yield report
    else:
        yield _lines()


def _lines() -> Report:
    told: set[str] = set()

    def report(what: str, done: int, total: int) -> None:
        if what not in told:
            told.add(what)
            print(f"krafla: {what} ...", file=sys.stderr, flush=True)

    return report


@contextmanager
def _bars() -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total)
            progress.update(tasks[what], completed=done, total=total)

        yield report
