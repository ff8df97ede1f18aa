"""Help texts: every command has examples, and the examples are commands that parse."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest

from krafla.runtime import cli


def commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with the words that call it."""
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        assert command
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


COMMANDS = dict(commands(cli.cli, "krafla"))


def examples(command: click.Command) -> list[str]:
    """The lines below "Examples:" in the help."""
    lines = command.get_help(click.Context(command)).splitlines()
    at = [line.strip() for line in lines].index("Examples:")
    return [line.strip() for line in lines[at + 1 :] if line.strip()]


def parts(line: str) -> Iterator[list[str]]:
    """The commands of a pipeline without redirections, as words."""
    words: list[str] = []
    tokens = iter(shlex.split(line, posix=True))
    for word in tokens:
        if word in ("<", ">"):
            next(tokens)
        elif word == "|":
            yield words
            words = []
        else:
            words.append(word)
    yield words


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_parse(name: str) -> None:
    found = examples(COMMANDS[name])
    assert any(line.startswith(name) for line in found)
    for line in found:
        ours = [words for words in parts(line) if words[0] == "krafla"]
        assert ours, line
        for words in ours:
            called, rest = " ".join(words), words
            known = next(
                command for command in sorted(COMMANDS, key=len, reverse=True) if called.startswith(command)
            )
            rest = words[len(known.split()) :]
            context = COMMANDS[known].make_context(known, list(rest))  # raises for what is no option
            context.close()


def test_the_test_of_examples_can_fail() -> None:
    with pytest.raises(click.UsageError):
        COMMANDS["krafla run"].make_context("krafla run", ["--nonsense"])
    assert list(parts('echo a | krafla run "x y" -n 3 > out')) == [
        ["echo", "a"],
        ["krafla", "run", "x y", "-n", "3"],
    ]
