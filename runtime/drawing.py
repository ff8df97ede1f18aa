"""Where plots go: into an SVG file, or as characters below the figures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from krafla.tools.errors import access
from krafla.tools.svg_plot import Plot, stacked
from krafla.tools.text_plot import draw


def _file(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value not in (None, "-") and Path(str(value)).suffix.lower() != ".svg":
        raise click.BadParameter(f"{value!r}: the file's name must end in .svg")
    return value


option = click.option(
    "--plot",
    metavar="FILE.svg",
    callback=_file,
    help="Draw it into FILE.svg, or as text with `-` [default: as text on a terminal].",
)


def show(plots: Sequence[Plot], target: str | None, as_json: bool) -> None:
    """Draw plots: into the file `target`, or as text if it is "-" or, where it is None, on a terminal."""
    if target not in (None, "-"):
        path = Path(str(target))
        with access(path, "write"):
            path.write_text(stacked(plots), encoding="utf-8")
    elif not as_json and (target or sys.stdout.isatty()):
        for plot in plots:
            click.echo(f"\n{draw(plot)}")
