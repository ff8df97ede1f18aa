"""The /commands of `krafla chat`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from krafla.runtime import conversation as conversations
from krafla.runtime import data
from krafla.runtime.chat_output import Output
from krafla.runtime.conversation import Conversation, Settings
from krafla.runtime.text import megabytes
from krafla.tools.errors import UsageError

#: The conversation that `--continue` takes up.
LAST = "last"


@dataclass(frozen=True)
class Next:
    """What comes after a command: a message to ask, or the end."""

    ask: str | None = None
    leave: bool = False


@dataclass(frozen=True)
class Command:
    """What a command is called, what it takes and does."""

    usage: str
    help: str
    run: Callable[[Conversation, Output, str], Next | None]


def perform(conversation: Conversation, output: Output, line: str) -> Next:
    """Do what a line that begins with a slash asks for."""
    name, _, argument = line[1:].partition(" ")
    if name not in COMMANDS:
        raise UsageError(f"no command /{name}; /help lists them, and // begins a message with a slash")
    return COMMANDS[name].run(conversation, output, argument.strip()) or Next()


def complete(line: str) -> list[str]:
    """What the last word of a line may become."""
    command, space, word = line.partition(" ")
    if not space:
        return [f"/{name} " for name in COMMANDS if f"/{name}".startswith(command)] if command else []
    choices = {"/set": Settings.names, "/load": saved, "/save": saved}.get(command, list)()
    return [choice for choice in choices if choice.startswith(word)]


def saved() -> list[str]:
    """Names of the saved conversations."""
    return sorted(path.stem for path in (data.root() / "chats").glob("*.json"))


def place(name: str) -> Path:
    """The file of a saved conversation."""
    if not re.fullmatch(r"[\w.-]+", name) or name.startswith("."):
        raise UsageError(f"{name}: a conversation's name has letters, digits, dots, dashes and underscores")
    return data.room("chats") / f"{name}.json"


def load(conversation: Conversation, name: str) -> None:
    """Replace the conversation by a saved one."""
    path = place(name)
    if not path.is_file():
        listed = ", ".join(saved()) or "none yet"
        raise UsageError(f"no conversation is saved as {name}; there are: {listed}")
    conversations.read(conversation, path)


def _system(conversation: Conversation, output: Output, argument: str) -> None:
    if argument:
        conversation.system = None if argument == "-" else argument
    output.tell(f"system: {conversation.system}" if conversation.system else "no system message")


def _clear(conversation: Conversation, output: Output, argument: str) -> None:
    conversation.clear()
    output.tell("the conversation is empty")


def _save(conversation: Conversation, output: Output, argument: str) -> None:
    if not argument:
        raise UsageError("/save takes a name")
    conversations.write(conversation, place(argument))
    output.tell(f"saved as {argument}")


def _load(conversation: Conversation, output: Output, argument: str) -> None:
    if not argument:
        output.tell("saved: " + (", ".join(saved()) or "none yet"))
        return
    load(conversation, argument)
    output.tell(f"loaded {argument}: {len(conversation.messages) // 2} turns")


def _set(conversation: Conversation, output: Output, argument: str) -> None:
    if argument:
        name, _, value = argument.replace("=", " ").partition(" ")
        if not value.strip():
            raise UsageError(f"/set {name} takes a value, or `default`")
        conversation.settings = conversation.settings.changed(name, value.strip())
    s = conversation.settings
    values = (s.temperature, s.top_p, s.top_k, s.min_p, s.seed, s.max_tokens)
    shown = (
        "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value) for value in values
    )
    output.tell(", ".join(f"{name} {value}" for name, value in zip(Settings.names(), shown, strict=True)))


def _stats(conversation: Conversation, output: Output, argument: str) -> None:
    c, turn, model = conversation, conversation.last, conversation.model
    dropped = f", of which the model no longer sees {c.first // 2}" if c.first else ""
    lines = [
        f"model    {model.files.mlb}",
        f"runs on  {model.isa}, {model.config.threads} threads, KV memory {megabytes(model.config.kv_bytes)}",
        f"context  {c.used} of {c.context} positions, {len(c.messages) // 2} turns{dropped}",
    ]
    if turn.tokens:
        fresh = turn.prompt_tokens - turn.reused_tokens
        lines += [
            f"prompt   {turn.prompt_tokens} tokens, {turn.reused_tokens} known from before, {fresh} read in "
            f"{turn.prompt_seconds:.2f} s ({turn.prompt_rate:.0f}/s)",
            f"answer   {turn.tokens} tokens in {turn.decode_seconds:.2f} s ({turn.rate:.0f}/s), "
            f"seed {turn.seed}, ended by {turn.finish}",
        ]
    output.tell("\n".join(lines))


def _retry(conversation: Conversation, output: Output, argument: str) -> Next:
    return Next(ask=conversation.again())


def _help(conversation: Conversation, output: Output, argument: str) -> None:
    width = max(len(command.usage) for command in COMMANDS.values())
    lines = [f"{command.usage:<{width}}  {command.help}" for command in COMMANDS.values()]
    output.tell("\n".join([*lines, "", *KEYS]))


def _exit(conversation: Conversation, output: Output, argument: str) -> Next:
    return Next(leave=True)


COMMANDS = {
    "system": Command("/system [TEXT]", "set the system message (- takes it away), or show it", _system),
    "clear": Command("/clear", "forget the conversation; the system message stays", _clear),
    "retry": Command("/retry", "answer the last message again", _retry),
    "save": Command("/save NAME", "save the conversation", _save),
    "load": Command("/load [NAME]", "continue a saved conversation, or list them", _load),
    "set": Command("/set [NAME VALUE]", f"set {', '.join(Settings.names())}, or show them", _set),
    "stats": Command("/stats", "tokens, speeds and the context", _stats),
    "help": Command("/help", "this list", _help),
    "exit": Command("/exit", "leave; so do Ctrl-D, and Ctrl-C twice", _exit),
}
KEYS = (
    "Ctrl-C stops an answer. A line that ends in \\ goes on in the next one; so does Alt-Enter,",
    'and everything between """ and """. // begins a message with a slash.',
)
