"""A conversation with a model: turns, settings, what fits into the context, and files that keep it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from krafla import __version__
from krafla.runtime import cache, progress
from krafla.runtime.model import Sampling
from krafla.tools.errors import FormatError, UsageError, access

if TYPE_CHECKING:
    from krafla.runtime.model import Generation, Model

#: When the context is full, the oldest turns go until the conversation takes at most this part of it.
KEPT = 0.5
#: Room for an answer that is asked for: at most this part of the context.
RESERVED = 0.25


class StoppedError(Exception):
    """The user does not want the answer any more."""


@dataclass(frozen=True)
class Settings:
    """How answers are sampled; the fields are arguments of `Model.generate`."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        Sampling(self.temperature, self.top_p, self.top_k, self.min_p)  # checks them
        if self.seed is not None and not 0 <= self.seed < 2**64:
            raise UsageError(f"seed is {self.seed}, must be from 0 to 2^64 - 1")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError(f"max_tokens is {self.max_tokens}, must be at least 1")

    def changed(self, name: str, text: str) -> Settings:
        """The settings with one of them read from text; `default` gives its default."""
        key = {"temp": "temperature"}.get(name, name.replace("-", "_"))
        if name not in self.names():
            raise UsageError(f"no setting {name}, there are {', '.join(self.names())}")
        kind = float if key in ("temperature", "top_p", "min_p") else int
        try:
            value: Any = getattr(Settings(), key) if text == "default" else kind(text)
        except ValueError:
            what = "a number" if kind is float else "a whole number"
            raise UsageError(f"{name} must be {what}, not {text!r}") from None
        return replace(self, **{key: value})

    @staticmethod
    def names() -> list[str]:
        """The names that `changed` takes."""
        return ["temp", "top-p", "top-k", "min-p", "seed", "max-tokens"]


@dataclass
class Turn:
    """What the last answer took."""

    finish: str = ""
    prompt_tokens: int = 0
    reused_tokens: int = 0  # of the prompt, which the KV memory still held
    tokens: int = 0
    seed: int = 0
    dropped: int = 0  # turns that had to go before this one
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0

    @property
    def prompt_rate(self) -> float:
        """Tokens per second of what had to be read."""
        return (self.prompt_tokens - self.reused_tokens) / self.prompt_seconds if self.prompt_seconds else 0.0

    @property
    def rate(self) -> float:
        """Tokens per second of the answer; the first one comes out of the prompt's last step."""
        return max(self.tokens - 1, 0) / self.decode_seconds if self.decode_seconds else 0.0


@dataclass
class Conversation:
    """Messages, and the model that answers them; `ask` adds a turn."""

    model: Model
    settings: Settings = field(default_factory=Settings)
    system: str | None = None
    messages: list[dict[str, str]] = field(default_factory=list)  # user and assistant in turn
    first: int = 0  # the oldest message that the model still sees
    last: Turn = field(default_factory=Turn)
    used: int = 0  # positions of the context that the conversation takes
    announce: Callable[[str], None] = lambda sentence: None  # told when turns are dropped
    _generation: Generation | None = None
    _stopped: bool = False

    def __post_init__(self) -> None:
        if self.model.template is None:
            name = self.model.files.mlb.name
            raise UsageError(f"{name}: has no chat template, so it cannot chat; `krafla run` continues text")

    @property
    def context(self) -> int:
        """Positions of the context."""
        return self.model.config.context

    def clear(self) -> None:
        """Forget all messages; the system message stays."""
        self.messages, self.first, self.used = [], 0, 0

    def stop(self) -> None:
        """End the answer that is being made, from a signal handler."""
        self._stopped = True
        if self._generation:
            self._generation.cancel()

    def ask(self, text: str, report: progress.Report = progress.silent) -> Iterator[str]:
        """The pieces of the answer to a message; both become part of the conversation.

        A message that is not answered at all, because of an error or an interruption, does not. `report` tells how
        much of the prompt has been read.
        """
        self._stopped, self._generation = False, None
        self.last = Turn()
        self.messages.append({"role": "user", "content": text})
        pieces: list[str] = []
        try:
            for piece in self._answer(report):
                pieces.append(piece)
                yield piece
        except StoppedError:
            self.last.finish = "interrupted"
        finally:
            if pieces or self.last.finish == "stop":
                self.messages.append({"role": "assistant", "content": "".join(pieces)})
            else:
                self.messages.pop()
            if self._generation:
                self._account(self._generation)

    def again(self) -> str:
        """Take the last turn back; its message."""
        if len(self.messages) < 2:
            raise UsageError("there is no answer yet")
        *self.messages, question, _ = self.messages
        self.first = min(self.first, len(self.messages))
        return question["content"]

    def _answer(self, report: progress.Report) -> Iterator[str]:
        ids = self._fit()
        self.last.prompt_tokens = self.used = len(ids)

        def read(what: str, done: int, total: int) -> None:
            report(what, done, total)
            if self._stopped:
                raise StoppedError

        started = time.perf_counter()
        self.last.reused_tokens = self.model.prefill(ids[:-1], read)
        self.last.prompt_seconds = time.perf_counter() - started
        self._generation = self.model.generate(ids, **asdict(self.settings))
        if self._stopped:
            raise StoppedError
        yield from self._generation

    def _account(self, generation: Generation) -> None:
        self.last.finish = generation.finish or "interrupted"
        self.last.tokens, self.last.seed = len(generation.ids), generation.seed
        self.last.prompt_seconds += generation.prefill_seconds
        self.last.decode_seconds = generation.decode_seconds
        self.used = len(generation.prompt) + len(generation.ids)

    def _fit(self) -> list[int]:
        """The prompt's ids. If an answer would have no room, the oldest turns go, and more than need be."""
        room = self.context - min(self.settings.max_tokens or self.context, int(RESERVED * self.context))
        before = self.first
        ids = self._ids()
        limit = room
        while len(ids) > limit and self.first + 2 < len(self.messages):
            self.first += 2
            limit = int(KEPT * self.context)
            ids = self._ids()
        if len(ids) >= self.context:
            self.first = before
            raise UsageError(f"the message is too long: {len(ids)} tokens, the context holds {self.context}")
        if dropped := (self.first - before) // 2:
            self.last.dropped = dropped
            turns = "the oldest turn is" if dropped == 1 else f"the oldest {dropped} turns are"
            self.announce(f"the context is full: {turns} dropped")
        return ids

    def _ids(self) -> list[int]:
        system = [{"role": "system", "content": self.system}] if self.system else []
        return self.model.chat_ids([*system, *self.messages[self.first :]])


def write(conversation: Conversation, path: Path) -> None:
    """Keep a conversation as a JSON file that only its owner can read."""
    value = {
        "krafla": __version__,
        "model": str(conversation.model.files.mlb),
        "system": conversation.system,
        "settings": asdict(conversation.settings),
        "messages": conversation.messages,
    }
    with access(path, "write"), cache.replacing(path) as temporary:
        temporary.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
    path.chmod(0o600)


def read(conversation: Conversation, path: Path) -> None:
    """Continue a conversation that was written; this one's messages, system message and settings are replaced."""
    with access(path, "read"):
        text = path.read_bytes()
    try:
        value = json.loads(text)
        messages = [_message(message, index) for index, message in enumerate(value["messages"])]
        system: Any = value["system"]
        settings = Settings(**value["settings"])
        if not (system is None or isinstance(system, str)) or len(messages) % 2:
            raise ValueError
    except (ValueError, TypeError, KeyError, UsageError) as error:
        raise FormatError(f"{path}: is not a saved conversation") from error
    conversation.clear()
    conversation.messages, conversation.system, conversation.settings = messages, system, settings


def _message(value: Any, index: int) -> dict[str, str]:
    role, content = ("user", "assistant")[index % 2], value["content"]
    if value["role"] != role or not isinstance(content, str):
        raise ValueError
    return {"role": role, "content": content}
