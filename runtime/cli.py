"""The `krafla` command: finds the subcommand, and turns every failure into a sentence and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

import krafla
from krafla.tools.errors import EXIT_CODES, KraflaError

#: The subcommands, each in a module of its own that is imported only when called, and what the help says.
COMMANDS = {
    "run": "Complete a prompt or answer a question.",
    "chat": "Talk with a model.",
    "serve": "Serve a model to programs and to a page in the browser.",
    "tok": "Turn text into token ids and back.",
    "convert": "Turn a model into an .mlb file with its tokenizer.",
    "pull": "Download a model by name.",
    "list": "List the models that are here, with their sizes.",
    "show": "Show what a model is and what memory it takes.",
    "rm": "Remove a model's download and conversion.",
    "eval": "Measure how well a model predicts a text, and how close it is to another.",
    "bench": "Measure how fast models and kernels run here.",
    "doctor": "Tell what this machine can run, and where things are kept.",
    "completion": "Print a shell's completion script.",
}
EPILOG = f"Exit codes: {', '.join(f'{one.code} {one.short}' for one in EXIT_CODES)}."
INTERRUPTED = 130
#: Set by the scripts of `krafla completion`, to what the shell wants.
COMPLETE = "_KRAFLA_COMPLETE"


class Commands(click.Group):
    """A group whose subcommands are imported when they are needed."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Name the subcommands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Import the subcommand of that name."""
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"krafla.runtime.cmd_{name}").command
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=Commands,
    epilog=EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(krafla.__version__, prog_name="krafla")
@click.pass_context
def cli(context: click.Context) -> None:
    """Run small language models on this CPU, through kernels that were generated for it."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def call(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    try:
        # Not cli.main: it has its own ways to end after an interruption or a closed pipe.
        with cli.make_context("krafla", list(sys.argv[1:] if arguments is None else arguments)) as context:
            cli.invoke(context)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        return complain(_usage_sentence(error), 2)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has what it wanted. What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KraflaError as error:
        return complain(error.message, error.exit_code)
    except MemoryError:
        return complain("out of memory", 7)
    except Exception as error:
        if os.environ.get("KRAFLA_DEBUG"):
            raise
        hint = "set KRAFLA_DEBUG=1 to see where"
        return complain(f"internal error: {type(error).__name__}: {error} ({hint})", 1)


def complain(sentence: str, code: int) -> int:
    """Say on standard error what went wrong, on one line; the exit code."""
    print(f"krafla: {' '.join(sentence.split())}", file=sys.stderr)
    return code


def _usage_sentence(error: click.ClickException) -> str:
    sentence = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    return f"{sentence} (see `{context.command_path} --help`)" if context else sentence


def main() -> NoReturn:
    """Entry point of the `krafla` script."""
    chosen = os.environ.get("PYTHONIOENCODING", "").partition(":")[0]
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding=chosen or "utf-8", errors="replace")
    if instruction := os.environ.get(COMPLETE):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(cli, {}, "krafla", COMPLETE, instruction))
    sys.exit(call())


if __name__ == "__main__":
    main()
