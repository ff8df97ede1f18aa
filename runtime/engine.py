"""Opens the compiled engine: chooses the ISA, builds the library if needed, checks the CPU first."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from os import PathLike
from pathlib import Path

from krafla.runtime import compile as compiler
from krafla.runtime import host, progress
from krafla.runtime.bind import Api
from krafla.runtime.isas import IsaFacts
from krafla.runtime.tokenizer import Tokenizer
from krafla.tools.errors import AccessError, IsaError

#: More than any model's vocabulary: a tokenizer opened on its own has no model to fit.
ANY_VOCAB = 1 << 24


def engine(
    isa: str | None = None, report: progress.Report = progress.silent, flags: Sequence[str] = ()
) -> tuple[Api, IsaFacts]:
    """The bound library for the named ISA, or for this CPU's best; `flags` of the compiler are for measurements."""
    facts = host.choose(isa)
    plan = compiler.engine_plan(facts)
    return _load(compiler.build(replace(plan, flags=(*plan.flags, *flags)), report)), facts


@cache
def _load(path: Path) -> Api:
    api = Api(path)
    missing = ctypes.c_void_p()
    if api.fn.ml_isa_check(ctypes.byref(missing)):
        feature = ctypes.string_at(missing.value).decode() if missing.value else "a feature"
        raise IsaError(f"this CPU lacks {feature}, which {path.name} needs")
    return api


def open_tokenizer(path: str | PathLike[str] | None, report: progress.Report = progress.silent) -> Tokenizer:
    """The tokenizer of a model (or an .mlt file or tokenizer.bin itself), without loading weights."""
    from krafla.runtime.resolve import is_tokenizer, resolve

    api, _ = engine(None, report)
    if path is not None and is_tokenizer(Path(path)):
        return Tokenizer(api, Path(path), ANY_VOCAB)
    files = resolve(path, report)
    if files.tokenizer is None:
        raise AccessError(f"{files.mlb.name}: there is no tokenizer beside it")
    return Tokenizer(api, files.tokenizer, ANY_VOCAB)
