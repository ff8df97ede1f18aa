"""krafla-gen: writes generated/ from the descriptors, checks it, and explains it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import click

import krafla.generated
from krafla.codegen.check import Drift, compare, write
from krafla.codegen.explain import UnknownNameError, explain, list_isas
from krafla.codegen.format import FormatterError
from krafla.codegen.registry import DescriptorError, load_isas
from krafla.codegen.render import Numerics, Renderer

_GENERATED = Path(str(krafla.generated.__path__[0]))


def _fail(sentence: str, code: int) -> NoReturn:
    click.echo(f"krafla-gen: {sentence}", err=True)
    sys.exit(code)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--isa", "names", multiple=True, metavar="NAME", help="Only this ISA (repeatable).")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder to write or check.")
@click.option(
    "--check", is_flag=True, help="Write nothing; fail if the folder differs from a fresh rendering."
)
@click.option("--list", "listing", is_flag=True, help="List the ISAs: parent, facets, kernels of their own.")
@click.option(
    "--explain", "subject", metavar="NAME", help="Explain an ISA or an op: who provides what, and why."
)
@click.option(
    "--numerics",
    type=click.Choice(["fused", "unfused"]),
    default="fused",
    show_default=True,
    help="unfused: every ISA rounds multiply-add twice, so that all agree bit for bit.",
)
def main(
    names: tuple[str, ...],
    out: Path | None,
    check: bool,
    listing: bool,
    subject: str | None,
    numerics: Numerics,
) -> None:
    """Write the C kernels of every ISA from its descriptor.

    Exit codes: 0 done, 1 the folder differs (--check), 2 unknown name, 4 cannot write.
    """
    try:
        isas = load_isas()
        unknown = [name for name in names if name not in isas]
        if unknown:
            _fail(f"--isa {unknown[0]}: no such ISA; there are {', '.join(isas)}", 2)
        if listing:
            click.echo(list_isas(isas))
        elif subject is not None:
            click.echo(explain(subject, isas))
        else:
            _generate(Renderer(isas, numerics), names or tuple(isas), out or _GENERATED, check)
    except (DescriptorError, UnknownNameError) as error:
        _fail(str(error), 2)
    except (OSError, FormatterError) as error:
        _fail(str(error), 4)


def _generate(renderer: Renderer, names: tuple[str, ...], out: Path, check: bool) -> None:
    if check:
        drift = compare(renderer, names, out)
        _report(drift)
        sys.exit(1 if drift else 0)
    written = write(renderer, names, out)
    drift = compare(renderer, names, out)
    for path in drift.orphan:
        (out / path).unlink()
    click.echo(f"{len(written)} files written to {out}", err=True)


def _report(drift: Drift) -> None:
    for word, paths in (("stale", drift.stale), ("missing", drift.missing), ("orphan", drift.orphan)):
        for path in paths:
            click.echo(f"{word}: {path}")


if __name__ == "__main__":
    main()
