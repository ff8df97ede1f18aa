"""`krafla run`: complete a prompt or answer a question, word by word."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from krafla.runtime import options
from krafla.runtime.text import harmless
from krafla.tools.errors import UsageError

if TYPE_CHECKING:
    from krafla.runtime.model import Generation, Model
    from krafla.runtime.speculate import Guesser

PROMPT_HELP = """Complete PROMPT or answer it; without PROMPT, read standard input.

A model with a chat template (an instruct model) gets PROMPT as a user's message and answers it. A model
without one continues PROMPT as plain text, and so does --raw. The text goes to standard output as it is made,
everything else to standard error. The same model, prompt, options and seed give the same text on any number
of threads.
"""


EXAMPLES = options.examples(
    'krafla run "Why is the sky blue?"',
    "krafla run -m model.gguf --temp 0.8 --seed 1 -n 100 < question.txt",
    'krafla run --raw --json "The capital of France is"',
)


@click.command("run", help=PROMPT_HELP, epilog=EXAMPLES)
@click.argument("prompt", required=False)
@options.model_option
@options.sampling_options
@options.engine_options
@options.guess_options
@click.option("--raw", is_flag=True, help="Continue the prompt as plain text, also with an instruct model.")
@click.option("--system", metavar="TEXT", help="System message for a model with a chat template.")
@click.option("--imatrix", metavar="FILE", help="Write an importance matrix of all tokens, for `convert`.")
@click.option("--profile", is_flag=True, help="Tell where the time went.")
@options.quiet_option
@options.json_option
def command(prompt: str | None, **given: Any) -> None:
    """Run the subcommand."""
    from krafla.runtime import progress
    from krafla.runtime.opening import open_guesser, open_model

    text = _prompt(prompt)
    started = time.perf_counter()
    with progress.console(given["quiet"]) as report:
        model = open_model(given, report, profile=given["profile"], imatrix=given["imatrix"] is not None)
        guesser = open_guesser(model, given, report)
    load_seconds = time.perf_counter() - started
    with model:
        generation = _generate(model, text, given, guesser)
        output = _stream(generation, show=not given["as_json"])
        if given["imatrix"] is not None:
            model.write_imatrix(given["imatrix"])
        if given["as_json"]:
            click.echo(json.dumps(_record(model, generation, output, load_seconds), ensure_ascii=False))
        if not given["quiet"]:
            click.echo(_speed(model, generation), err=True)
        if given["profile"]:
            click.echo(_profile(model), err=True)


def _prompt(prompt: str | None) -> str:
    if prompt is not None:
        return prompt
    if sys.stdin.isatty():
        raise UsageError("PROMPT is missing: give it as an argument or on standard input")
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _generate(model: Model, text: str, given: dict[str, Any], guesser: Guesser | None) -> Generation:
    prompt: str | list[int] = text
    if given["raw"] and given["system"]:
        raise UsageError("--system needs the chat template, which --raw leaves out")
    if model.template is not None and not given["raw"]:
        messages = [{"role": "system", "content": given["system"]}] if given["system"] else []
        prompt = model.chat_ids([*messages, {"role": "user", "content": text}])
    elif given["system"]:
        raise UsageError(f"--system: {model.files.mlb.name} has no chat template")
    return model.generate(prompt, guesser=guesser, **{name: given[name] for name in options.SAMPLING})


def _stream(generation: Generation, show: bool) -> str:
    pieces = []
    clean = harmless if sys.stdout.isatty() else str
    try:
        for piece in generation:
            pieces.append(piece)
            if show:
                sys.stdout.write(clean(piece))
                sys.stdout.flush()
    finally:  # also after Ctrl-C
        if show:
            print(flush=True)
    return "".join(pieces)


def _record(model: Model, generation: Generation, output: str, load_seconds: float) -> dict[str, Any]:
    return {
        "text": output,
        "finish": generation.finish,
        "prompt_tokens": len(generation.prompt),
        "tokens": len(generation.ids),
        "guessed": generation.guessed,
        "guessed_right": generation.guessed_right,
        "seed": generation.seed,
        "model": str(model.files.mlb),
        "isa": model.isa,
        "threads": model.config.threads,
        "load_seconds": round(load_seconds, 4),
        "prompt_seconds": round(generation.prefill_seconds, 4),
        "decode_seconds": round(generation.decode_seconds, 4),
    }


def _speed(model: Model, generation: Generation) -> str:
    threads = f"{model.config.threads} thread{'s' if model.config.threads > 1 else ''}"
    parts = [f"{model.isa}, {threads}"]
    if generation.prefill_seconds:
        rate = len(generation.prompt) / generation.prefill_seconds
        parts.append(f"prompt {len(generation.prompt)} tokens at {rate:.0f}/s")
    if generation.decode_seconds:
        # The first token comes out of the prompt's last step.
        rate = max(len(generation.ids) - 1, 0) / generation.decode_seconds
        parts.append(f"{len(generation.ids)} tokens at {rate:.0f}/s")
    if generation.guessed:
        parts.append(f"{generation.guessed_right} of {generation.guessed} guesses right")
    return f"[{'; '.join(parts)}]"


def _profile(model: Model) -> str:
    seconds = model.profile()
    total = sum(seconds.values()) or 1.0
    return "\n".join(f"  {name:<12}{value:8.3f} s {value / total:6.1%}" for name, value in seconds.items())
