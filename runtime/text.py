"""Token bytes to text, piece by piece, without ever splitting a character."""

from __future__ import annotations

import codecs
import re

#: What a terminal would obey instead of showing it; a model may say anything.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def harmless(text: str) -> str:
    """The text for a terminal: control characters other than tab and line feed become U+FFFD."""
    return _CONTROLS.sub("\ufffd", text)


def megabytes(size: int) -> str:
    """A size for people, with about three digits."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if size >= scale:
            return f"{size / scale:.{1 if size < 100 * scale else 0}f} {unit}"
    return f"{size / 1e3:.0f} kB"


class TextStream:
    """Turns the bytes of tokens into str; bytes of an unfinished character wait for the next push."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, data: bytes) -> str:
        """The text that `data` completes; invalid bytes become U+FFFD."""
        return self._decoder.decode(data)

    def finish(self) -> str:
        """U+FFFD if a character is left unfinished, else an empty string; the stream starts over."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest
