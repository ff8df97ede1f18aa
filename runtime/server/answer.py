"""From tokens to what a client reads: text, thoughts and tool calls, cut at stop strings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from krafla.runtime.server.calls import CallFormat, CallPart, CallReader, Tool
from krafla.runtime.server.grammar import Thinking
from krafla.runtime.server.request import Token, TokenLogprob
from krafla.runtime.text import TextStream
from krafla.runtime.tokenizer import Tokenizer

THINK, THINK_END = "<think>", "</think>"
#: Added tokens whose text matters; all others are left out.
MARKS = (THINK, THINK_END, "<tool_call>", "</tool_call>", "[TOOL_CALLS]")


def held_back(text: str, marks: Sequence[str]) -> int:
    """How many letters at the end of `text` may be the beginning of one of `marks`."""
    longest = max((len(mark) for mark in marks), default=0)
    for length in range(min(longest - 1, len(text)), 0, -1):
        tail = text[-length:]
        if any(len(mark) > length and mark.startswith(tail) for mark in marks):
            return length
    return 0


class StopFilter:
    """Passes text on, but nothing that is or may become a stop string, nor anything after one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.hit: str | None = None

    def push(self, text: str) -> str:
        """What is safe to show."""
        if self.hit is not None:
            return ""
        self._held += text
        found = [(at, -len(stop), stop) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            at, _, self.hit = min(found)
            shown, self._held = self._held[:at], ""
            return shown
        keep = held_back(self._held, self._stops)
        shown, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return shown

    def finish(self) -> str:
        """What was held back in vain."""
        shown, self._held = self._held, ""
        return shown


@dataclass
class Said:
    """What a piece of the answer adds."""

    content: str = ""
    reasoning: str = ""
    calls: list[CallPart] = field(default_factory=list)


class Splitter:
    """Tells thoughts, content and calls apart, whole marks at a time."""

    def __init__(self, thinking: Thinking, form: CallFormat | None, tools: Sequence[Tool]) -> None:
        self._state = {"no": "content", "may": "start", "open": "thoughts"}[thinking]
        self._form = form
        self._tools = tools
        self._held = ""
        self._fresh = thinking != "no"  # nothing of the content has come: leading space is not part of it
        self._leading = True
        self._thought = False
        self._reader: CallReader | None = None
        self.calls = 0

    def push(self, text: str) -> Said:
        """What `text` adds."""
        self._held += text
        said = Said()
        while self._held and getattr(self, f"_{self._state}")(said):
            pass
        return said

    def finish(self) -> Said:
        """What was held back in vain."""
        said = Said()
        if self._state == "thoughts":
            said.reasoning = self._held
        elif self._state != "call":
            said.content = self._held
        self._held = ""
        return said

    def _start(self, said: Said) -> bool:
        text = self._held.lstrip()
        if text.startswith(THINK):
            self._held, self._state = text[len(THINK) :], "thoughts"
        elif THINK.startswith(text):
            return False
        else:
            self._state = "content"
        return True

    def _thoughts(self, said: Said) -> bool:
        if not self._thought:  # space around thoughts is not part of them
            self._held = self._held.lstrip()
        thoughts, closed, rest = self._held.partition(THINK_END)
        if closed:
            said.reasoning += thoughts.rstrip()
            self._held, self._state = rest, "content"
            return True
        keep = held_back(thoughts, [THINK_END])
        keep = max(keep, len(thoughts) - len(thoughts[: len(thoughts) - keep].rstrip()))
        said.reasoning += thoughts[: len(thoughts) - keep]
        self._thought = self._thought or bool(said.reasoning)
        self._held = thoughts[len(thoughts) - keep :]
        return False

    def _content(self, said: Said) -> bool:
        if self._fresh:
            self._held = self._held.lstrip()
            self._fresh = not self._held
            if self._fresh:
                return False
        form = self._form
        if form is None or (form.leading and not (self._leading and self._held.startswith("{"))):
            self._show(said, len(self._held))
            return False
        at = 0 if form.leading else self._held.find(form.trigger)
        if at < 0:
            self._show(said, len(self._held) - held_back(self._held, [form.trigger]))
            return False
        self._show(said, at)
        self._reader, self._state = form.reader(self.calls, self._tools), "call"
        return True

    def _show(self, said: Said, count: int) -> None:
        said.content += self._held[:count]
        self._held = self._held[count:]
        self._leading = self._leading and not said.content

    def _call(self, said: Said) -> bool:
        assert self._reader is not None
        parts = self._reader.push(self._held)
        self._held = ""
        said.calls += parts
        self.calls = max([self.calls, *(part.index + 1 for part in parts)])
        if self._reader.rest is None:
            return False
        # Space between calls is not content.
        self._held, self._state, self._fresh = self._reader.rest, "content", True
        return True


@dataclass(frozen=True)
class TokenText:
    """A token with its bytes; `offset` is where it begins in the text, in letters."""

    data: bytes
    logprob: TokenLogprob | None
    offset: int = 0


class Vocabulary:
    """The bytes of tokens; added ones count only if they are marks that tell the parts of an answer apart."""

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        self._tokenizer = tokenizer
        # SentencePiece puts a space before a text: after a line's end it does not.
        self._before = tokenizer.encode("\n", bos=False)
        inside = 0 if tokenizer.bos != 0 else 1  # a token before which a text has begun
        count = tokenizer.vocab
        self.pieces = [tokenizer.piece(inside, i) for i in range(count)] + [b""] * (size - count)
        marks = {mark.encode() for mark in MARKS}
        #: Added tokens that are no part of the text.
        self.silent = frozenset(
            i for i in range(count) if tokenizer.is_silent(i) and self.pieces[i] not in marks
        )

    def encode(self, text: str) -> list[int]:
        """The tokens of a text that goes on from another."""
        ids = self._tokenizer.encode("\n" + text, bos=False)
        count = len(self._before)
        return ids[count:] if ids[:count] == self._before else self._tokenizer.encode(text, bos=False)

    def shown(self, previous: int, token: int) -> bytes:
        """What the token adds to a text after `previous`."""
        if token in self.silent:
            return b""
        if previous < 0 or previous == self._tokenizer.bos:
            return self._tokenizer.piece(previous, token) if token < self._tokenizer.vocab else b""
        return self.pieces[token]


class Answer:
    """One answer being made: push tokens, take what they add."""

    def __init__(
        self, vocabulary: Vocabulary, splitter: Splitter, stops: Sequence[str], previous: int
    ) -> None:
        self._vocabulary = vocabulary
        self._previous = previous
        self._length = 0
        self._splitter = splitter
        self._text = TextStream()
        self._stop = StopFilter(stops)
        self.tokens: list[TokenText] = []  # those not yet taken, for logprobs

    @property
    def stopped(self) -> str | None:
        """The stop string that ended it."""
        return self._stop.hit

    @property
    def calls(self) -> int:
        """How many tools were called."""
        return self._splitter.calls

    def push(self, token: Token) -> Said:
        """What the token adds."""
        data = self._vocabulary.shown(self._previous, token.id)
        self._previous = token.id
        offset, text = self._length, self._text.push(data)
        self._length += len(text)
        said = self._filtered(self._splitter.push(text))
        if token.logprob is not None and (self.stopped is None or said.content):
            self.tokens.append(TokenText(self._vocabulary.pieces[token.id], token.logprob, offset))
        return said

    def finish(self) -> Said:
        """What is left at the end."""
        said = self._splitter.push(self._text.finish())
        rest = self._splitter.finish()
        said.reasoning += rest.reasoning
        said.content += rest.content
        said = self._filtered(said)
        if self.stopped is None:
            said.content += self._stop.finish()
        return said

    def take_tokens(self) -> list[TokenText]:
        """The tokens since the last time."""
        tokens, self.tokens = self.tokens, []
        return tokens

    def _filtered(self, said: Said) -> Said:
        if said.content:
            said.content = self._stop.push(said.content)
        return said
