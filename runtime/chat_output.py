"""Where the answers of `krafla chat` go: a terminal, a pipe, or lines of JSON."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from krafla.runtime.text import harmless

if TYPE_CHECKING:
    from rich.console import Console

    from krafla.runtime.conversation import Conversation
    from krafla.runtime.markdown import LiveMarkdown

#: Reading a prompt that takes no longer than these seconds is not worth a word.
PATIENCE = 1.0
METER_CELLS = 8


class Output(Protocol):
    """What the loop of the chat tells."""

    def tell(self, text: str) -> None:
        """Something about the conversation: what a command prints, what was dropped."""

    def begin(self) -> None:
        """An answer begins."""

    def read(self, what: str, done: int, total: int) -> None:
        """How much of the prompt has been read."""

    def piece(self, text: str) -> None:
        """A piece of the answer."""

    def end(self, conversation: Conversation, message: str) -> None:
        """The answer to a message is complete, or was stopped."""


@dataclass
class Piped:
    """Answers and nothing else on standard output."""

    quiet: bool = False
    _open: bool = False

    def tell(self, text: str) -> None:
        """On standard error."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def begin(self) -> None:
        """Nothing to do."""

    def read(self, what: str, done: int, total: int) -> None:
        """Nobody watches."""

    def piece(self, text: str) -> None:
        """As it comes."""
        sys.stdout.write(text)
        sys.stdout.flush()
        self._open = not text.endswith("\n")

    def end(self, conversation: Conversation, message: str) -> None:
        """A line ends."""
        if self._open or not conversation.last.tokens:
            print(flush=True)
        self._open = False


@dataclass
class JsonLines(Piped):
    """An object per answer, each on a line."""

    _pieces: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """A new object."""
        self._pieces = []

    def piece(self, text: str) -> None:
        """Kept until the answer is complete."""
        self._pieces.append(text)

    def end(self, conversation: Conversation, message: str) -> None:
        """The object."""
        record: dict[str, Any] = {"message": message, "text": "".join(self._pieces)}
        turn = asdict(conversation.last)
        record |= {
            name: round(value, 4) if isinstance(value, float) else value for name, value in turn.items()
        }
        record |= {"used": conversation.used, "context": conversation.context}
        print(json.dumps(record, ensure_ascii=False), flush=True)


@dataclass
class Screen:
    """A terminal: Markdown, or plain text, and a line about the context after each answer."""

    console: Console
    plain: bool = False
    quiet: bool = False
    _markdown: LiveMarkdown | None = None
    _started: float = 0.0
    _reading: bool = False
    _open: bool = False

    def tell(self, text: str) -> None:
        """Dim, so that it is not taken for an answer."""
        self._forget_reading()
        self.console.print(harmless(text), style="dim", highlight=False, markup=False)

    def begin(self) -> None:
        """Text may come."""
        self._started = time.monotonic()
        self._open = False
        if not self.plain:
            from krafla.runtime.markdown import LiveMarkdown

            self._markdown = LiveMarkdown(self.console)

    def read(self, what: str, done: int, total: int) -> None:
        """A line that vanishes, if reading takes long."""
        if time.monotonic() - self._started > PATIENCE and not self.plain:
            self._reading = True
            self._write(f"\r\x1b[K{what} {done} of {total} tokens")

    def piece(self, text: str) -> None:
        """On the screen at once, or when the Markdown is drawn next."""
        self._forget_reading()
        if self._markdown:
            self._markdown.feed(text)
        else:
            self._write(harmless(text))
            self._open = not text.endswith("\n")

    def end(self, conversation: Conversation, message: str) -> None:
        """The rest of the answer, and the meter."""
        self._forget_reading()
        if self._markdown:
            self._markdown.close()
            self._markdown = None
        elif self._open:
            self._write("\n")
        if not self.quiet:
            used = conversation.used / conversation.context
            style = "red" if used > 0.9 else "yellow" if used > 0.75 else "dim"
            self.console.print(self._meter(conversation), style=style, highlight=False, markup=False)

    def _meter(self, conversation: Conversation) -> str:
        turn, share = conversation.last, conversation.used / conversation.context
        full, empty = ("█", "░") if self.console.encoding.lower().startswith("utf") else ("#", "-")
        cells = min(METER_CELLS, round(share * METER_CELLS + 0.5))
        bar = full * cells + empty * (METER_CELLS - cells)
        parts = [f"context {bar} {conversation.used} of {conversation.context}"]
        if turn.tokens:
            parts.append(f"{turn.tokens} tokens" + (f" at {turn.rate:.0f}/s" if turn.rate else ""))
        if turn.finish == "interrupted":
            parts.append("stopped")
        elif turn.finish == "length":
            parts.append("cut off by max-tokens")
        elif turn.finish == "context":
            parts.append("the context is full: the next message drops the oldest turns")
        return "[" + ", ".join(parts) + "]"

    def _forget_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        self.console.file.write(text)
        self.console.file.flush()
