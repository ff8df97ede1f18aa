"""Precompiled headers: reading the compiler's intrinsics takes longer than compiling a kernel, so it is done once.

Objects are the same with and without.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from krafla.runtime import zig

#: Fewer files with the same beginning are not worth it.
_ENOUGH = 3
_COMMENTS = re.compile(r"(?:\s*/\*.*?\*/)*\s*", re.DOTALL)
#: Of a kernel: the configuration and the machine's intrinsics. What follows differs from kernel to kernel.
_INCLUDES = re.compile(r'(?:#include [<"][^>"]+[>"]\n){0,2}')


@cache
def beginning(source: Path) -> str:
    """The first includes of a C file, if nothing stands before them that could change what they mean."""
    if source.suffix != ".c":
        return ""
    text = source.read_text(encoding="utf-8")
    comments = _COMMENTS.match(text)
    includes = _INCLUDES.match(text, comments.end() if comments else 0)
    return includes.group() if includes else ""


@dataclass(frozen=True)
class Compilation:
    """Zig's arguments for a C file (target, CPU, flags, include paths), and the file."""

    source: Path
    arguments: tuple[str, ...]

    @property
    def key(self) -> Hashable:
        """What compilations that can share a header have in common."""
        return self.arguments, beginning(self.source)


@dataclass
class Headers:
    """The precompiled headers of a run, in a folder that lives as long as the run."""

    folder: Path
    pool: ThreadPoolExecutor
    made: dict[Hashable, Future[tuple[str, ...]]] = field(default_factory=dict)

    def prepare(self, compilations: Sequence[Compilation]) -> None:
        """Start making those that several of the compilations share; compilations are to be submitted later."""
        counts = Counter(one.key for one in compilations if beginning(one.source))
        for one in compilations:
            if counts[one.key] >= _ENOUGH and one.key not in self.made:
                self.made[one.key] = self.pool.submit(self._make, one, len(self.made))

    def flags(self, compilation: Compilation) -> tuple[str, ...]:
        """What to add to a compilation's arguments; waits for its header."""
        future = self.made.get(compilation.key)
        return future.result() if future else ()

    def _make(self, one: Compilation, number: int) -> tuple[str, ...]:
        header, output = self.folder / f"{number}.h", self.folder / f"{number}.pch"
        header.write_text(beginning(one.source), encoding="utf-8")
        try:
            zig.run(["cc", *one.arguments, "-x", "c-header", str(header), "-o", str(output)])
        except zig.CompileError:
            return ()  # compiling the files themselves says what is wrong, if anything is
        return ("-include-pch", str(output))
