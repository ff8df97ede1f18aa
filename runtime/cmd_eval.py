"""`krafla eval`: perplexity of a text, and how close a model's logits are to another's."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from krafla.runtime import drawing, options
from krafla.tools.errors import UsageError, access

if TYPE_CHECKING:
    from krafla.runtime.evaluate import Cut, Result, Setting
    from krafla.tools.bootstrap import Estimate

HELP = """Measure how well a model predicts a text: its perplexity.

With --against, --against-kv or --against-isa, also measure how close it is to a reference, which is that model
or setting and otherwise runs the same way: the Kullback-Leibler divergence of its predictions from the
reference's, how often both hold the same token the likeliest, and the error of its logits.

A text longer than the window is read in windows that overlap; each token is scored once, in the first window
that holds it. Intervals are of 95 %, by a block bootstrap over the text. The same options give the same figures,
to the last digit, for any number of threads.
"""
EXAMPLES = options.examples(
    "krafla eval",
    "krafla eval -m model.gguf --text book.txt --json",
    "krafla eval -m small-q4.mlb --against small-q8.mlb --plot divergence.svg",
    "krafla eval --kv q8 --against-kv f32",
)
KV = click.Choice(["f32", "f16", "q8"])
#: How figures are called for people, and whether they are percentages.
ROWS = {
    "perplexity": "perplexity",
    "reference_perplexity": "  of the reference",
    "perplexity_ratio": "  ratio",
    "divergence": "KL divergence, mean",
    "divergence_median": "  median",
    "divergence_90": "  90 % below",
    "divergence_99": "  99 % below",
    "divergence_largest": "  largest",
    "agreement": "same likeliest token",
    "logit_error": "logit error, RMS",
    "logit_error_largest": "  largest",
    "logit_spread": "  spread of logits",
}


@click.command("eval", help=HELP, epilog=EXAMPLES)
@options.model_option
@click.option("--text", metavar="FILE", help="The text, `-` for standard input [default: a built-in one].")
@click.option(
    "--against", metavar="MODEL", shell_complete=options.complete_model, help="Compare with this model."
)
@click.option("--kv", type=KV, default="f32", show_default=True, help="KV memory.")
@click.option("--against-kv", type=KV, help="KV memory of the reference [default: the same].")
@options.isa_option
@click.option(
    "--against-isa",
    metavar="NAME",
    shell_complete=options.complete_isa,
    help="Instruction set of the reference [default: the same].",
)
@click.option(
    "-n", "--tokens", type=click.IntRange(2), help="Only so many tokens of the text [default: all]."
)
@click.option("-c", "--window", type=click.IntRange(2), help="Positions of a window [default: at most 2048].")
@click.option("--stride", type=click.IntRange(1), help="Tokens between windows [default: half a window].")
@click.option("-t", "--threads", type=click.IntRange(1), help="Threads [default: the physical cores].")
@click.option("-b", "--batch", type=click.IntRange(1), help="Tokens per step [default: 128].")
@drawing.option
@options.quiet_option
@options.json_option
def command(**given: Any) -> None:
    """Run the subcommand."""
    from krafla.runtime import evaluate, progress

    text, name = _text(given["text"])
    started = time.perf_counter()
    with progress.console(given["quiet"]) as report:
        setting, against = _settings(given, report)
        both = [setting, against] if against else [setting]
        windows = evaluate.cut(text, both, given["window"], given["stride"], given["tokens"], report)
        result = evaluate.evaluate(
            windows,
            setting,
            against,
            given["threads"],
            given["batch"],
            report,
            lambda sentence: None if given["quiet"] else click.echo(f"krafla: {sentence}", err=True),
        )
        found = evaluate.summary(result.records, report)
    head = _head(setting, against, windows, result, name)
    if given["as_json"]:
        head["seconds"] = round(time.perf_counter() - started, 3)
        head["figures"] = {figure: asdict(one) for figure, one in found.items()}
        click.echo(json.dumps(head, ensure_ascii=False))
    else:
        click.echo(_table(head, found))
    title = Path(head["model"]).stem + (f" against {Path(head['against']['model']).stem}" if against else "")
    drawing.show([evaluate.plot(result.records, title)], given["plot"], given["as_json"])


def _text(source: str | None) -> tuple[str, str]:
    """The text, and what it is called."""
    from krafla.runtime.evaluate import built_in_text, read_text

    if source is None:
        return built_in_text(), "built-in text"
    if source == "-":
        return read_text(sys.stdin.buffer.read(), "standard input"), "standard input"
    with access(source, "read"):
        data = Path(source).read_bytes()
    return read_text(data, source), source


def _settings(given: dict[str, Any], report: Any) -> tuple[Setting, Setting | None]:
    """What is measured, and what it is compared with."""
    from krafla.runtime.evaluate import Setting
    from krafla.runtime.resolve import resolve

    files = resolve(given["model"], report)
    setting = Setting(files, given["isa"], given["kv"])
    if not any(given[name] for name in ("against", "against_kv", "against_isa")):
        return setting, None
    other = resolve(given["against"], report) if given["against"] else files
    against = Setting(other, given["against_isa"] or given["isa"], given["against_kv"] or given["kv"])
    if against == setting:
        raise UsageError("the model and the reference are the same, and run the same way")
    return setting, against


def _head(
    setting: Setting, against: Setting | None, windows: Cut, result: Result, name: str
) -> dict[str, Any]:
    """What was measured, and how."""
    from krafla.tools import bootstrap

    reference = against and {"model": str(against.files.mlb), "isa": result.against_isa, "kv": against.kv}
    return {
        "model": str(setting.files.mlb),
        "isa": result.isa,
        "kv": setting.kv,
        "against": reference,
        "threads": result.threads,
        "text": name,
        "tokens": len(windows.text),
        "scored": windows.scored,
        "windows": sum(1 for _ in windows),
        "window": windows.window,
        "stride": windows.stride,
        "interval": {
            "level": bootstrap.LEVEL,
            "method": "circular block bootstrap",
            "block": bootstrap.block_length(windows.scored),
            "resamples": bootstrap.RESAMPLES,
            "seed": bootstrap.SEED,
        },
    }


def _table(head: dict[str, Any], found: dict[str, Estimate]) -> str:
    """The figures for people."""

    def titled(one: dict[str, Any]) -> str:
        return f"{Path(one['model']).name} ({one['isa']}, kv {one['kv']})"

    count = head["windows"]
    windows = f"{count} windows of {head['window']}, {head['stride']} apart" if count > 1 else "1 window"
    lines = [f"model      {titled(head)}"]
    if head["against"]:
        lines.append(f"reference  {titled(head['against'])}")
    lines += [
        f"text       {head['text']}: {head['tokens']} tokens, {head['scored']} scored, {windows}",
        "",
        f"{'':<22}{'':>12}    95 % interval",
    ]
    for figure, label in ROWS.items():
        if figure in found:
            one = found[figure]
            form = "{:.2%}" if figure == "agreement" else "{:.5g}"
            interval = ""
            if one.low is not None and one.high is not None:
                interval = f"{form.format(one.low):>12} .. {form.format(one.high)}"
            lines.append(f"{label:<22}{form.format(one.value):>12}{interval}".rstrip())
    return "\n".join(lines)
