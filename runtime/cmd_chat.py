"""`krafla chat`: talk with a model, in a terminal or through a pipe."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from krafla.runtime import options
from krafla.tools.errors import KraflaError, UsageError

if TYPE_CHECKING:
    from krafla.runtime.chat_output import Output
    from krafla.runtime.conversation import Conversation

HELP = """Talk with a model that has a chat template.

In a terminal, answers are shown as Markdown while they are made. Ctrl-C stops an answer; at the prompt, Ctrl-D or
Ctrl-C twice leaves. A message goes on after a line that ends in a backslash, after Alt-Enter, and between \"\"\" and
\"\"\". /help lists the commands: /system, /clear, /retry, /save, /load, /set, /stats, /exit.

When a message and room for its answer do not fit into the context, the oldest turns are dropped until the rest takes
half of it; the chat says so. What you typed and the last conversation are kept in your data folder (KRAFLA_DATA puts
it elsewhere) unless --no-history is given.

In a pipe, each line of standard input is a message or a command, and each answer goes to standard output, without
colours, prompts or history; with --json as an object on a line. The first error ends it.
"""
EXAMPLES = options.examples(
    "krafla chat",
    'krafla chat -m model.gguf --system "Answer in one sentence." --temp 0.7',
    "krafla chat --continue",
    'echo "Why is the sky blue?" | krafla chat -q',
)


@click.command("chat", help=HELP, epilog=EXAMPLES)
@options.model_option
@click.option("--system", metavar="TEXT", help="System message.")
@click.option(
    "-n",
    "max_tokens",
    type=click.IntRange(1),
    default=1024,
    help="Tokens of an answer at most [default: 1024].",
)
@options.choice_options
@options.engine_options
@click.option("--continue", "resume", is_flag=True, help="Continue the last conversation.")
@click.option("--load", "name", metavar="NAME", help="Continue the conversation that /save NAME kept.")
@click.option("--plain", is_flag=True, help="Show answers as they are, not as Markdown.")
@click.option("--no-history", is_flag=True, help="Keep neither what is typed nor the conversation.")
@options.quiet_option
@options.json_option
def command(**given: Any) -> None:
    """Run the subcommand."""
    from krafla.runtime import progress
    from krafla.runtime.chat_commands import LAST, load
    from krafla.runtime.conversation import Conversation, Settings
    from krafla.runtime.opening import open_model

    if given["resume"] and given["name"]:
        raise UsageError("--continue and --load exclude each other")
    settings = Settings(**{name: given[name] for name in options.SAMPLING})
    with progress.console(given["quiet"]) as report:
        model = open_model(given, report)
    with model:
        conversation = Conversation(model, settings, given["system"])
        if name := LAST if given["resume"] else given["name"]:
            load(conversation, name)
        if sys.stdin.isatty() and not given["as_json"]:
            _talk(conversation, given)
        else:
            _serve_pipe(conversation, given)


def _serve_pipe(conversation: Conversation, given: dict[str, Any]) -> None:
    from krafla.runtime.chat_output import JsonLines, Piped
    from krafla.runtime.lines import messages, piped

    output = (JsonLines if given["as_json"] else Piped)(given["quiet"])
    for message in messages(piped):
        if not _handle(conversation, output, message):
            return


def _talk(conversation: Conversation, given: dict[str, Any]) -> None:
    """Until the user leaves; no error ends it."""
    from krafla.runtime.chat_commands import complete
    from krafla.runtime.lines import Typed, messages

    output = _screen(given["plain"], given["quiet"])
    keep = not given["no_history"] and _can_keep(output)
    typed = Typed(bold=not given["plain"], complete=complete, keep=keep)
    if not given["quiet"]:
        model = conversation.model
        output.tell(f"{model.files.mlb.stem} on {model.isa}; /help lists commands, Ctrl-D leaves")
        if conversation.messages:
            output.tell(f"continuing after {len(conversation.messages) // 2} turns")
    warned = False
    while True:
        try:
            for message in messages(typed):
                warned = False
                typed.remember(message)
                if not _handle_kindly(conversation, output, message, keep):
                    return
            return
        except KeyboardInterrupt:
            print()
            if warned:
                return
            warned = True
            output.tell("Ctrl-C again or Ctrl-D leaves")


def _can_keep(output: Output) -> bool:
    """Whether the data folder can be written; a chat is possible without it."""
    from krafla.runtime import data

    try:
        data.room("chats")
    except KraflaError as error:
        output.tell(f"{error.message}; nothing will be kept")
        return False
    return True


def _screen(plain: bool, quiet: bool) -> Output:
    """Standard output as far as it is a terminal that can draw."""
    from krafla.runtime.chat_output import Piped, Screen

    if not sys.stdout.isatty():
        return Piped(quiet)
    from rich.console import Console

    console = Console(highlight=False)
    simple = plain or console.is_dumb_terminal or console.legacy_windows
    return Screen(console, simple, quiet)


def _handle_kindly(conversation: Conversation, output: Output, message: str, keep: bool) -> bool:
    """In a terminal: an error is told, Ctrl-C ends the answer, and the conversation is kept after each turn."""
    from krafla.runtime import conversation as conversations
    from krafla.runtime.chat_commands import LAST, place
    from krafla.runtime.lines import silent_keys

    try:
        with silent_keys(), _stopped_by_interrupt(conversation.stop):
            going_on = _handle(conversation, output, message)
        if keep and conversation.messages:
            conversations.write(conversation, place(LAST))
        return going_on
    except KraflaError as error:
        output.tell(error.message)
    except KeyboardInterrupt:  # the second one: reading a batch of the prompt may take a while
        output.end(conversation, message)
    return True


def _handle(conversation: Conversation, output: Output, message: str) -> bool:
    """Answer a message or perform a command; False if that was to leave."""
    from krafla.runtime.chat_commands import perform

    if message.startswith("//"):
        message = message[1:]
    elif message.startswith("/"):
        following = perform(conversation, output, message)
        if following.ask is None:
            return not following.leave
        message = following.ask
    conversation.announce = output.tell
    output.begin()
    for piece in conversation.ask(message, output.read):
        output.piece(piece)
    output.end(conversation, message)
    return True


@contextmanager
def _stopped_by_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C inside calls `stop`, a second one interrupts as usual."""
    asked = False

    def interrupted(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        stop()

    previous = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
