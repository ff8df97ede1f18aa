"""Options that several subcommands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

model_option = click.option(
    "-m",
    "--model",
    metavar="MODEL",
    help="An .mlb or .gguf file, a Hugging Face folder, or a name that `krafla pull` knows "
    "[default: SmolLM2-135M-Instruct].",
)
isa_option = click.option("--isa", metavar="NAME", help="Instruction set to run on [default: the best here].")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Standard error stays empty unless it fails.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
