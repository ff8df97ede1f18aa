"""How fast whole models run: prefill and decode at a depth, as medians over rounds, beside the machine's limits."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from krafla.runtime import progress
from krafla.runtime.bench_library import Library
from krafla.runtime.engine import engine
from krafla.tools.errors import UsageError, access
from krafla.tools.mlb import HEADER_BYTES, Header, Tensor, layout

KV_TYPES = ("f32", "f16", "q8")


@dataclass(frozen=True)
class Setting:
    """How a model is opened for a measurement."""

    isa: str | None = None
    threads: int = 1
    batch: int = 128
    kv: str = "f32"
    context: int = 0  # 0: as much as the work takes
    pack: bool = True
    flags: tuple[str, ...] = ()  # more of them for the compiler


@dataclass(frozen=True)
class Work:
    """What is timed: so many tokens as one prompt (prefill) or one by one (decode), after `depth` others."""

    kind: str  # "prefill" or "decode"
    tokens: int
    depth: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.tokens}" + (f" at {self.depth}" if self.depth else "")


@dataclass(frozen=True)
class Result:
    """One kind of work under one setting."""

    isa: str
    threads: int
    batch: int
    kv: str
    kind: str
    tokens: int
    depth: int
    seconds: tuple[float, ...]  # of each round
    tokens_per_second: float  # the median
    limit: str  # "read" for decode, "int8" for prefill
    share: float  # of the limit

    @property
    def spread(self) -> float:
        """The slowest round's excess over the fastest, relative to the median."""
        return (max(self.seconds) - min(self.seconds)) / statistics.median(self.seconds)


class Runner:
    """One open sequence; `run` times work on it. Use in a `with` block."""

    def __init__(
        self, mlb: Path, setting: Setting, context: int, report: progress.Report = progress.silent
    ) -> None:
        self.setting = setting
        self.api, facts = engine(setting.isa, report, setting.flags)
        self.isa = facts.name
        if setting.kv not in KV_TYPES:
            raise UsageError(f"kv is {setting.kv}, must be one of {', '.join(KV_TYPES)}")
        options = self.api.types.ml_options(
            threads=setting.threads,
            batch=setting.batch,
            context=setting.context or context,
            kv_type=KV_TYPES.index(setting.kv),
            pack=setting.pack,
        )
        self._engine, self._sequence = ctypes.c_void_p(), ctypes.c_int32()
        self.api.fn.ml_engine_open(ctypes.byref(self._engine), str(mlb).encode(), ctypes.byref(options))
        self.info = self.api.types.ml_info()
        self.api.fn.ml_engine_info(self._engine, ctypes.byref(self.info))
        self.api.fn.ml_sequence_open(self._engine, ctypes.byref(self._sequence))
        self._logits = (ctypes.c_float * self.info.vocab)()
        rng = np.random.default_rng(1)
        self._tokens = rng.integers(0, self.info.vocab, self.info.context).tolist()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *exception: object) -> None:
        self.api.fn.ml_engine_close(self._engine)

    def run(self, work: Work) -> float:
        """Seconds for the work."""
        self._go_to(work.depth)
        end = work.depth + work.tokens
        if end > self.info.context:
            raise UsageError(f"{end} tokens are more than the context holds ({self.info.context})")
        step = self.setting.batch if work.kind == "prefill" else 1
        starts = range(work.depth, end, step)
        steps = [
            self._rows(at, min(at + step, end), work.kind == "decode" or at + step >= end) for at in starts
        ]
        started = time.perf_counter()
        for rows in steps:
            self.api.fn.ml_forward(self._engine, rows, len(rows), self._logits)
        return time.perf_counter() - started

    def _go_to(self, depth: int) -> None:
        """Make the sequence hold the first `depth` tokens."""
        fn = self.api.fn
        length = min(fn.ml_sequence_length(self._engine, self._sequence), depth)
        length = max(fn.ml_sequence_reachable(self._engine, self._sequence, length), 0)
        fn.ml_sequence_truncate(self._engine, self._sequence, length)
        for at in range(length, depth, self.setting.batch):
            rows = self._rows(at, min(at + self.setting.batch, depth), False)
            fn.ml_forward(self._engine, rows, len(rows), self._logits)

    def _rows(self, start: int, end: int, last_wanted: bool) -> Any:
        rows = (self.api.types.ml_row * (end - start))()
        for row, position in zip(rows, range(start, end), strict=True):
            row.sequence, row.position, row.token = self._sequence, position, self._tokens[position]
        rows[end - start - 1].wants_logits = int(last_wanted)
        return rows


def read_model(mlb: Path) -> tuple[Header, dict[str, Tensor]]:
    """The header of a model and where its tensors lie."""
    with access(mlb, "read"), mlb.open("rb") as file:
        header = Header.unpack(file.read(HEADER_BYTES), mlb.name)
        flags = file.read(header.n_layers) if header.layer_flags else b""
    return header, layout(header, flags)


def measure(
    mlb: Path,
    settings: Sequence[Setting],
    works: Sequence[Work],
    rounds: int = 5,
    report: progress.Report = progress.silent,
) -> Iterator[Result]:
    """All work under all settings; one round of everything is run before it counts."""
    model = read_model(mlb)
    context = min(max(work.depth + work.tokens for work in works), model[0].max_seq)
    for setting in settings:
        with Runner(mlb, setting, context, report) as runner:
            seconds: dict[Work, list[float]] = {work: [] for work in works}
            for number in range(rounds + 1):
                for work in works:
                    taken = runner.run(work)
                    if number:
                        seconds[work].append(taken)
            limits = Limits(Library(runner.isa, ops=(), report=report), *model)
            for work in works:
                yield _result(runner, work, tuple(seconds[work]), limits)


def _result(runner: Runner, work: Work, seconds: tuple[float, ...], limits: Limits) -> Result:
    taken = statistics.median(seconds)
    least = limits.seconds(work, runner.setting)
    limit = max(least, key=least.__getitem__)
    return Result(
        isa=runner.isa,
        threads=runner.info.threads,
        batch=runner.setting.batch,
        kv=runner.setting.kv,
        kind=work.kind,
        tokens=work.tokens,
        depth=work.depth,
        seconds=seconds,
        tokens_per_second=work.tokens / taken,
        limit=limit,
        share=least[limit] / taken,
    )


@dataclass
class Limits:
    """What the machine allows at most: the least time for work on a model."""

    library: Library
    header: Header
    tensors: dict[str, Tensor]

    def weight_bytes(self) -> int:
        """Bytes of weights that one token reads: every matrix once, of the embedding only a row."""
        used = [t for t in self.tensors.values() if t.kind and self._multiplied(t)]
        return sum(t.rows * (t.row_bytes + t.blocks * t.scale_bytes) for t in used)

    def products(self) -> tuple[int, int]:
        """Multiplications per token in the layers, and in the classifier."""
        layers = sum(t.rows * t.cols for t in self.tensors.values() if t.kind and "layers." in t.name)
        return layers, self.header.vocab * self.header.dim

    def cache_bytes(self, kv: str) -> float:
        """Bytes of keys and values of one position in all layers."""
        h = self.header
        size = {"f32": 4.0, "f16": 2.0, "q8": 1 + 4 / h.head_size}[kv]
        return 2 * h.n_layers * h.kv_dim * size

    def seconds(self, work: Work, setting: Setting) -> dict[str, float]:
        """The least seconds by reading every byte once per step, and by doing every product."""
        steps = work.tokens if work.kind == "decode" else -(-work.tokens // setting.batch)
        cache = self.cache_bytes(setting.kv) * (work.depth + work.tokens / 2)
        traffic = steps * (self.weight_bytes() + cache)
        layers, classifier = self.products()
        operations = 2 * (work.tokens * layers + (work.tokens if work.kind == "decode" else 1) * classifier)
        return {
            "read": traffic / self.library.read_bandwidth(self.weight_bytes(), setting.threads),
            "int8": operations / self.library.peak("int8", setting.threads),
        }

    def _multiplied(self, tensor: Tensor) -> bool:
        return tensor.name != "tok_emb" or bool(self.header.shared_classifier)
