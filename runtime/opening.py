"""Opens the model that a command line asks for."""

from __future__ import annotations

from typing import Any

import click

from krafla.runtime import progress
from krafla.runtime.model import Model
from krafla.runtime.speculate import Guesser, NgramDraft


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


def open_guesser(model: Model, given: dict[str, Any], report: progress.Report) -> Guesser | None:
    """What guesses ahead for `model`, by `options.guess_options`; a draft model goes before n-grams."""
    if given["draft"] is not None:
        from krafla.runtime.draft_model import DraftOfOne, load_draft

        names = ("isa", "threads", "kv")
        loading = {name: given[name] for name in names}
        return DraftOfOne(
            load_draft(model, given["draft"], pack=not given["no_pack"], report=report, **loading)
        )
    return NgramDraft() if given["speculate"] == "ngram" else None
