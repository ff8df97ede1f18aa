"""Token bytes to text, piece by piece, without ever splitting a character."""

from __future__ import annotations

import codecs


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
