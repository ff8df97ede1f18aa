"""Opens the model that a command line asks for."""

from __future__ import annotations

from typing import Any

import click

from krafla.runtime import progress
from krafla.runtime.model import Model


def open_model(given: dict[str, Any], report: progress.Report, **more: Any) -> Model:
    """The model of `options.model_option` and `options.engine_options`; `more` goes to `Model.load`."""
    names = ("isa", "threads", "ctx", "kv", "batch", "pack_cache")
    return Model.load(
        given["model"],
        pack=not given["no_pack"],
        report=report,
        announce=lambda sentence: None if given["quiet"] else click.echo(f"krafla: {sentence}", err=True),
        **{name: given[name] for name in names},
        **more,
    )
