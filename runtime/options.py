"""Options that several subcommands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from krafla.runtime.paths import ROOT

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def examples(*lines: str) -> str:
    """The epilog of a command's help: an example a line; a test parses each of them."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def complete_model(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of models for the shell, and files."""
    from krafla.runtime import shelf

    names = [name for name in shelf.names() if name.lower().startswith(incomplete.lower())]
    # The shell's script forgets what comes before an item of type file.
    return [CompletionItem(incomplete, type="file"), *map(CompletionItem, names)]


def complete_isa(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of instruction sets for the shell."""
    names = sorted(path.stem for path in (ROOT / "isa_specs").glob("[a-z]*.py"))
    return [name for name in names if name.startswith(incomplete)]


model_option = click.option(
    "-m",
    "--model",
    metavar="MODEL",
    shell_complete=complete_model,
    help="An .mlb or .gguf file, a Hugging Face folder, or a name that `krafla pull` knows "
    "[default: SmolLM2-135M-Instruct].",
)
isa_option = click.option(
    "--isa",
    metavar="NAME",
    shell_complete=complete_isa,
    help="Instruction set to run on [default: the best here].",
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Standard error stays empty unless it fails.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")

_LIMIT = click.option(
    "-n", "max_tokens", type=click.IntRange(0), default=512, help="Tokens at most [default: 512]."
)
_CHOICE = (
    click.option(
        "--temp",
        "temperature",
        type=float,
        default=0.0,
        help="Temperature [default: 0, the likeliest token].",
    ),
    click.option("--top-p", type=float, default=1.0, help="Sample among this much probability [default: 1]."),
    click.option("--top-k", type=int, default=0, help="Sample among this many tokens [default: all]."),
    click.option(
        "--min-p", type=float, default=0.0, help="Leave out tokens below this part of the likeliest."
    ),
    click.option(
        "--seed", type=click.IntRange(0, 2**64 - 1), help="Seed of the sampler [default: a new one]."
    ),
)
#: The names of the sampling options, which are those of `Model.generate`.
SAMPLING = ("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed")

_ENGINE = (
    click.option("-t", "--threads", type=click.IntRange(1), help="Threads [default: the physical cores]."),
    click.option(
        "-c", "--ctx", type=click.IntRange(1), help="Positions [default: the model's, at most 4096]."
    ),
    click.option("-b", "--batch", type=click.IntRange(1), help="Prompt tokens per step [default: 128]."),
    click.option(
        "--kv", type=click.Choice(["f32", "f16", "q8"]), default="f32", help="KV memory [default: f32]."
    ),
    isa_option,
    click.option("--no-pack", is_flag=True, help="Keep the weights row by row: slower."),
    click.option("--pack-cache", is_flag=True, help="Keep the packed weights in a file beside the model."),
)


#: How tokens are guessed; the text stays the same.
_GUESSES = (
    click.option(
        "--speculate",
        type=click.Choice(["off", "ngram"]),
        default="off",
        help="Guess tokens from the text so far; changes the speed only [default: off].",
    ),
    click.option("--draft", metavar="MODEL", help="A smaller model with the same tokens that guesses ahead."),
)


def guess_options(function: Decorated) -> Decorated:
    """Speculation; `opening.open_guesser` takes them."""
    return _all(_GUESSES, function)


def sampling_options(function: Decorated) -> Decorated:
    """How tokens are chosen, and how many of them."""
    return _all((_LIMIT, *_CHOICE), function)


def choice_options(function: Decorated) -> Decorated:
    """How tokens are chosen."""
    return _all(_CHOICE, function)


def engine_options(function: Decorated) -> Decorated:
    """How the model runs; `opening.open_model` takes them."""
    return _all(_ENGINE, function)


def _all(given: tuple[Callable[[Any], Any], ...], function: Decorated) -> Decorated:
    for option in reversed(given):  # decorators apply from the last to the first
        function = option(function)
    return function
