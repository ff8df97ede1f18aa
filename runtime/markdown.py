"""Markdown on a terminal while it is being written: finished blocks stay, the last one is drawn again and again."""

from __future__ import annotations

import io
import re
import time
from dataclasses import dataclass, field

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len
from rich.console import Console
from rich.markdown import Markdown

from krafla.runtime.text import harmless

#: Longest lines, for reading; and the least seconds between two drawings.
WIDEST, PAUSE = 100, 0.08
#: Drawing may take at most this part of the time.
SHARE = 0.05
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_TRAILING = re.compile(r"(?: |\x1b\[[0-9;]*m)+$")

_parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


def rendered(text: str, console: Console) -> list[str]:
    """The lines of a text as the console shows Markdown, with its escape sequences."""
    shown = Markdown("", code_theme="ansi_dark", hyperlinks=False)
    shown.parsed = [_kept_line_ends(token) for token in _parser.parse(text)]
    page = Console(
        file=io.StringIO(),
        width=min(console.width, WIDEST),
        force_terminal=True,
        color_system=console.color_system or "standard",  # type: ignore[arg-type]  # its own word for it
        no_color=console.no_color,
        legacy_windows=False,
    )
    with page.capture() as capture:
        page.print(shown)
    lines = [_trimmed(line) for line in capture.get().splitlines()]
    filled = [index for index, line in enumerate(lines) if _ESCAPES.sub("", line)]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def _kept_line_ends(token: Token) -> Token:
    """A model's line ends are meant, in poems and addresses."""
    for child in token.children or ():
        if child.type == "softbreak":
            child.type = "hardbreak"
    return token


def _trimmed(line: str) -> str:
    cut = _TRAILING.sub("", line)
    return cut + "\x1b[0m" if "\x1b" in cut else cut


def last_block(text: str) -> int:
    """Where the last block of a text begins; what is before it will not change any more."""
    complete = text[: text.rfind("\n") + 1]
    starts = [token.map[0] for token in _parser.parse(complete) if token.level == 0 and token.map]
    lines = complete.splitlines(keepends=True)
    return sum(map(len, lines[: max(starts, default=0)]))


@dataclass
class LiveMarkdown:
    """Feed it pieces of text; `close` leaves the whole text on the screen."""

    console: Console
    _text: str = ""
    _begun: bool = False  # a block is on the screen for good
    _drawn: list[int] = field(default_factory=list)  # widths of the lines that will be drawn again
    _next: float = 0.0

    def feed(self, piece: str) -> None:
        """More text; it is drawn when it is time."""
        self._text += harmless(piece)
        if (now := time.monotonic()) >= self._next:
            self.draw()
            spent = time.monotonic() - now
            self._next = now + max(PAUSE, spent / SHARE)

    def draw(self) -> None:
        """Draw the last block again, or as much of its end as the screen has room for."""
        output = self._erasure()
        if cut := last_block(self._text):
            output += self._finished(self._text[:cut])
            self._text = self._text[cut:]
        lines = self._block(self._text)
        lines = lines[-max(self.console.height - 2, 1) :]
        self._drawn = [cell_len(_ESCAPES.sub("", line)) for line in lines]
        self._write(output + "".join(f"{line}\n" for line in lines))

    def close(self) -> None:
        """Draw everything for the last time."""
        self._write(self._erasure() + self._finished(self._text))
        self._text = ""

    def _finished(self, text: str) -> str:
        lines = self._block(text)
        self._begun = self._begun or bool(lines)
        self._drawn = []
        return "".join(f"{line}\n" for line in lines)

    def _block(self, text: str) -> list[str]:
        lines = rendered(text, self.console)
        return ["", *lines] if self._begun and lines else lines

    def _erasure(self) -> str:
        """Up to where the drawing began; a terminal that became narrower has wrapped its lines meanwhile."""
        width = max(self.console.width, 1)
        rows = sum(max(1, -(-cells // width)) for cells in self._drawn)
        return f"\x1b[{min(rows, self.console.height - 1)}F\x1b[J" if rows else ""

    def _write(self, text: str) -> None:
        if text:
            self.console.file.write(text)
            self.console.file.flush()
