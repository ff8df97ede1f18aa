"""`krafla bench`: how fast models and kernels run here, and what share of the machine's limits that is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from krafla.runtime import drawing, options
from krafla.tools.errors import UsageError

if TYPE_CHECKING:
    from krafla.runtime.bench_compare import Old, Ratio
    from krafla.runtime.bench_kernels import Speed
    from krafla.runtime.bench_models import Result
    from krafla.runtime.progress import Report
    from krafla.runtime.tune import Tuning

HELP = """Measure a model: tokens per second of a prompt (prefill) and of generation (decode), as medians over rounds.

Each row says what share of the machine's limit it reaches, by a read bandwidth and an int8 peak measured in the
same run. Options with several values take them separated by commas. With --kernels, measure the kernels one by
one, at the registry's shapes or, with -m, at the model's. With --tune, find this CPU's best tile sizes and
prefetch distance for --isa; libraries are compiled with them from then on.

With --compare, each row has the ratio to the same work in an older run's --json output, above 1 for faster; `~`
marks a difference that chance explains: rounds of both runs in such an order are no rarer than 1 in 20 (a rank
test, which takes at least 4 rounds in both to find anything).
"""


def _numbers(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r}: give whole numbers separated by commas") from None
    if min(numbers) < 0:
        raise click.BadParameter(f"{value!r}: no number may be negative")
    return numbers


def _several(flags: tuple[str, ...], default: str, help_text: str) -> Callable[[Any], Any]:
    return click.option(*flags, default=default, show_default=True, callback=_numbers, help=help_text)


EXAMPLES = options.examples(
    "krafla bench",
    "krafla bench -m model.gguf --isa all -t 1,2 -d 0,1024 --kv f32,q8",
    "krafla bench --kernels --op matmul",
    "krafla bench --tune",
)


@click.command("bench", help=HELP, epilog=EXAMPLES)
@options.model_option
@click.option("--isa", metavar="NAMES", help="Instruction sets, or `all` [default: the best here].")
@_several(("-t", "--threads"), "1", "Threads.")
@_several(("-d", "--depth"), "0", "Tokens in the cache before the measured ones.")
@_several(("-p", "--prefill"), "512", "Tokens of the prompt; 0 leaves prefill out.")
@_several(("-n", "--decode"), "64", "Tokens generated; 0 leaves decode out.")
@_several(("-b", "--batch"), "128", "Prompt tokens per step.")
@click.option("--kv", default="f32", show_default=True, help="KV memory: f32, f16, q8.")
@click.option("-r", "--rounds", type=click.IntRange(1), default=5, show_default=True, help="Rounds.")
@click.option("--kernels", is_flag=True, help="Measure kernels instead of a model.")
@click.option("--op", "ops", metavar="NAMES", help="With --kernels: only these, by the start of their names.")
@click.option("--tune", is_flag=True, help="Find this CPU's best tile sizes, and keep them.")
@click.option("--compare", metavar="OLD.json", help="Show ratios to this older --json output.")
@drawing.option
@options.quiet_option
@options.json_option
def command(**given: Any) -> None:
    """Run the subcommand."""
    from krafla.runtime import progress

    if given["kernels"] and given["tune"]:
        raise UsageError("--kernels and --tune exclude each other")
    for name in ("compare", "plot"):
        if given[name] and (given["tune"] or (given["kernels"] and name == "plot")):
            raise UsageError(f"--{name} and --{'tune' if given['tune'] else 'kernels'} exclude each other")
    work = _kernels if given["kernels"] else _tune if given["tune"] else _models
    with progress.console(given["quiet"]) as report:
        work(given, report)


def _isas(names: str | None) -> list[str | None]:
    if names != "all":
        return [None] if names is None else list(names.split(","))
    from krafla.runtime import host

    return [isa.facts.name for isa in host.survey() if isa.usable]


def _old(given: dict[str, Any]) -> Old | None:
    """The run to compare with, read before anything is measured."""
    from krafla.runtime.bench_compare import Old

    if given["compare"] is None:
        return None
    return Old.read(Path(given["compare"]), "kernels" if given["kernels"] else "models")


def _show(
    given: dict[str, Any],
    rows: Iterable[Any],
    head: str,
    line: Callable[[Any], str],
    old: Old | None = None,
    **more: Any,
) -> list[Any]:
    """One line per row as it comes, or everything as one JSON object; the rows."""
    shown, listed, matched = [], [], 0
    as_json = given["as_json"]
    if not as_json:
        click.echo(head + ("   ratio  spread before" if old else ""))
    for row in rows:
        ratio = old.ratio(asdict(row)) if old else None
        matched += ratio is not None
        shown.append(row)
        listed.append({**asdict(row), **({"compared": ratio and asdict(ratio)} if old else {})})
        if not as_json:
            click.echo(line(row) + (_ratio(ratio) if old else ""))
    if old:
        old.need(matched)
        more["differences"] = old.differences(more)
        for sentence in more["differences"] if not given["quiet"] else ():
            click.echo(f"krafla: {sentence}", err=True)
    if as_json:
        click.echo(json.dumps({**more, "rows": listed}))
    return shown


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return f"{'-':>8}"
    return f"{ratio.ratio:>8.3f} {'~' if ratio.within_noise else ' '}{ratio.old_spread:>7.0%}"


def _models(given: dict[str, Any], report: Report) -> None:
    from krafla.runtime import bench_models as models
    from krafla.runtime.bench_plot import plots
    from krafla.runtime.cpu import cpu_name
    from krafla.runtime.resolve import resolve

    old = _old(given)
    mlb = resolve(given["model"], report).mlb
    settings = [
        models.Setting(isa=isa, threads=threads, batch=batch, kv=kv)
        for isa in _isas(given["isa"])
        for threads in given["threads"]
        for batch in given["batch"]
        for kv in given["kv"].split(",")
    ]
    works = [
        models.Work(kind, tokens, depth)
        for depth in given["depth"]
        for kind in ("prefill", "decode")
        for tokens in given[kind]
        if tokens
    ]
    if not works:
        raise UsageError("-p 0 and -n 0 leave nothing to measure")
    found = models.measure(mlb, settings, works, given["rounds"], report)
    head = "isa            threads  batch  kv   work             depth    tokens/s   spread   share of limit"
    rows = _show(given, found, head, _model_line, old, model=str(mlb), cpu=cpu_name())
    if given["plot"] or len(rows) > 2:
        drawing.show(plots(rows, mlb.stem), given["plot"], given["as_json"])


def _model_line(row: Result) -> str:
    return (
        f"{row.isa:<15}{row.threads:>7}{row.batch:>7}  {row.kv:<5}{row.kind + ' ' + str(row.tokens):<15}"
        f"{row.depth:>7}{row.tokens_per_second:>12.1f}{row.spread:>9.0%}{row.share:>10.0%} {row.limit}"
    )


def _kernels(given: dict[str, Any], report: Report) -> None:
    from krafla.codegen.ops import OPS
    from krafla.runtime import bench_kernels as kernels
    from krafla.runtime.bench_library import Library
    from krafla.runtime.bench_models import read_model
    from krafla.runtime.cpu import cpu_name
    from krafla.runtime.resolve import resolve

    old = _old(given)
    starts = tuple(given["ops"].split(",")) if given["ops"] else ("",)
    ops = [op for op in OPS if op.name.startswith(starts)]
    if not ops:
        raise UsageError(f"--op {given['ops']}: no kernel's name starts so")
    model = read_model(Path(resolve(given["model"], report).mlb)) if given["model"] else None
    libraries = [Library(isa, ops=ops, report=report) for isa in _isas(given["isa"])]
    rows = (row for one in libraries for row in kernels.measure(one, ops, model, given["rounds"]))
    limits = {one.facts.name: one.limits for one in libraries}
    head = f"{'isa':<14}{'kernel':<20}{'shape':<30}        time    GB/s      GOPS   share of limit"
    _show(given, rows, head, _kernel_line, old, cpu=cpu_name(), limits=limits)
    if not given["as_json"]:
        for name, found in limits.items():
            told = (f"{one['per_second'] / 1e9:.0f} GOPS ({one['instructions']})" for one in found.values())
            click.echo(f"{name}: at most {', '.join(told)} per thread", err=True)


def _kernel_line(row: Speed) -> str:
    shown = ("rows", "cols", "tokens", "queries", "n", "n_heads")
    shape = " ".join(f"{name} {row.sizes[name]}" for name in shown if name in row.sizes)
    return (
        f"{row.isa:<14}{row.op:<20}{shape:<30}{row.seconds * 1e6:>9.1f} us{row.bytes_per_second / 1e9:>8.1f}"
        f"{row.operations_per_second / 1e9:>10.1f}{row.share:>8.0%} {row.limit}"
    )


def _tune(given: dict[str, Any], report: Report) -> None:
    from krafla.runtime import tune

    found = [tune.tune(isa, given["rounds"], report) for isa in _isas(given["isa"])]
    _show(
        given,
        found,
        "isa           knob                was            best           gain",
        _tuning,
    )


def _tuning(row: Tuning) -> str:
    return "\n".join(
        f"{row.isa:<14}{one.knob:<20}{one.was:<15}{one.best:<15}{one.gain - 1:>+6.1%}" for one in row.choices
    )
