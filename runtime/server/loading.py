"""Opens the scheduler's model, and its draft model if there is one, sized for the machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from krafla.runtime import progress
from krafla.runtime.batch import Batch
from krafla.runtime.draft_model import check_can_speculate, load_draft
from krafla.runtime.model import Model
from krafla.runtime.resolve import resolve
from krafla.runtime.server.steps import Steps
from krafla.tools.mlb import Header

if TYPE_CHECKING:
    from krafla.runtime.server.scheduler import SchedulerOptions
    from krafla.runtime.server.statistics import Counters

DEFAULT_CONTEXT = 4096  # as in the engine
CONTEXTS = 4  # that the pool holds, unless told otherwise
ELEMENT_BYTES = {"f32": 4, "f16": 2, "q8": 2}  # at most, with scales


def open_model(
    options: SchedulerOptions,
    counters: Counters,
    report: progress.Report = progress.silent,
    announce: Callable[[str], None] = lambda sentence: None,
) -> tuple[Model, Steps]:
    """The model and what runs requests on it."""
    o = options
    files = resolve(o.model, report)
    model = Model.load(
        files.mlb,
        o.isa,
        o.threads,
        o.ctx,
        o.kv,
        o.pack,
        batch=o.batch,
        pack_cache=o.pack_cache,
        sequences=o.parallel,
        positions=o.positions or default_positions(Header.read(files.mlb), o.ctx, o.kv, _memory()),
        report=report,
        announce=announce,
    )
    draft = None
    try:
        batch = Batch(model)
        if o.speculate != "off":
            check_can_speculate(model)
        if o.draft is not None:
            loading = {"isa": o.isa, "threads": o.threads, "kv": o.kv, "pack": o.pack, "report": report}
            draft = load_draft(model, o.draft, o.draft_tokens, sequences=o.parallel, **loading)
    except BaseException:
        model.close()
        raise
    return model, Steps(batch, o.parallel, counters, o.speculate == "ngram", draft, o.prefix_cache)


def default_positions(header: Header, ctx: int | None, kv: str, memory: int) -> int:
    """Some contexts' worth, but at most half of the memory (bytes; 0: unknown), and at least one context."""
    context = ctx or min(header.max_seq, DEFAULT_CONTEXT)
    per_position = 2 * header.n_layers * header.kv_dim * ELEMENT_BYTES[kv]
    most = memory // 2 // per_position if memory else CONTEXTS * context
    return max(context, min(CONTEXTS * context, most))


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0
