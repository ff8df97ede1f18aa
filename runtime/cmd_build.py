"""The command line of build.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from krafla.runtime import bundle, crossbuild, progress
from krafla.runtime.resolve import resolve
from krafla.runtime.targets import PLATFORMS, Variant, platform, variant, variants
from krafla.tools.errors import KraflaError, UsageError

_ALL = "all"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--target", "names", multiple=True, metavar="TARGET", help="A word of --list, or all (repeatable)."
)
@click.option("--isa", "isas", multiple=True, metavar="NAME", help="Only this ISA (repeatable).")
@click.option("--list", "listing", is_flag=True, help="List targets and the ISAs that each has.")
@click.option("--threads", type=click.Choice(["pthread", "1"]), default="pthread", help="1: no thread code.")
@click.option(
    "--asm", is_flag=True, help="Hand-written kernels (runtime/csrc/asm) take the place of generated ones."
)
@click.option("--debug", is_flag=True, help="Debug information, little optimization.")
@click.option("--model", metavar="MODEL", help="Also make ml_run_MODEL: ml_run and a model in one file.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default="dist", show_default=True)
@click.option("-j", "--jobs", type=click.IntRange(1), help="Compilers at a time [default: the CPUs].")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def command(
    names: tuple[str, ...], isas: tuple[str, ...], listing: bool, out: Path, quiet: bool, **given: object
) -> None:
    """Build the shared library, ml_run, ml_bench and test_kernels for other machines.

    Files go to OUT/TARGET/ISA/ with a manifest. The same sources give the same bytes, on any machine. A
    second run builds what has changed.
    """
    if listing:
        click.echo(list_targets())
        return
    if not names:
        raise UsageError(f"--target is missing: it is one of {', '.join(PLATFORMS)}, or {_ALL}")
    chosen = choose(names, isas)
    settings = crossbuild.Settings(str(given["threads"]), bool(given["asm"]), bool(given["debug"]))
    builds = [crossbuild.plan(one, settings) for one in chosen]
    model = given["model"]
    if model is not None:
        check_bundles(chosen)
    with progress.console(quiet) as report:
        crossbuild.run(builds, report, given["jobs"] if isinstance(given["jobs"], int) else None)
        for build in builds:
            folder = crossbuild.deliver(build, out)
            if model is not None:
                add_model(build, folder, str(model), report)
            click.echo(folder)


def choose(names: tuple[str, ...], isas: tuple[str, ...]) -> list[Variant]:
    """The variants that are asked for; with `all` targets, an ISA is built where it is possible."""
    if _ALL in names:
        found = [
            one for on in PLATFORMS.values() for one in variants(on).values() if not isas or one.name in isas
        ]
        if not found:
            raise UsageError(f"--isa {isas[0]}: no target has it")
        return found
    found = []
    for name in names:
        on = platform(name)
        found += [variant(on, isa) for isa in isas] if isas else variants(on).values()
    return found


def list_targets() -> str:
    """A line per target."""
    return "\n".join(f"{name:<16}{' '.join(variants(on))}" for name, on in PLATFORMS.items())


def check_bundles(chosen: list[Variant]) -> None:
    """Refuse targets whose executables end where their format says."""
    for one in chosen:
        if one.platform.system not in ("linux", "windows"):
            raise UsageError(
                f"--model: executables of {one.platform.name} cannot carry other files, Linux and Windows ones can"
            )


def add_model(build: crossbuild.Build, folder: Path, model: str, report: progress.Report) -> None:
    """The executable that is a model."""
    files = resolve(model, report)
    suffix = build.variant.platform.program_suffix
    bundle.append(
        folder / f"ml_run{suffix}", bundle.members(files), folder / f"ml_run_{files.mlb.stem}{suffix}"
    )


def call(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit code."""
    try:
        command.main(arguments, prog_name="build.py", standalone_mode=False)
        return 0
    except click.ClickException as error:
        return _complain(error.format_message(), 2)
    except KraflaError as error:
        return _complain(error.message, error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _complain(sentence: str, code: int) -> int:
    print(f"build.py: {' '.join(sentence.split())}", file=sys.stderr)
    return code


def main() -> None:
    """Entry point."""
    sys.exit(call())
