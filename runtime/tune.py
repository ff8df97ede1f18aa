"""Finds the tile sizes and the prefetch distance that are best on this CPU, and keeps kernels made with them.

A variant is a descriptor with one number replaced. It is rendered, compiled, compared with the descriptor's own kernels
bit for bit, and timed beside them, round by round. Nothing here can change a result, only its cost.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from krafla.codegen.dots import BlockDot
from krafla.codegen.isa import Isa, Machine
from krafla.codegen.lanes import Block
from krafla.codegen.ops import BY_NAME, Op, Sizes
from krafla.codegen.registry import load_isas
from krafla.codegen.render import Renderer
from krafla.codegen.tiles import AmxUnit, VectorTile
from krafla.runtime import cache, host, progress, tuned
from krafla.runtime.bench_kernels import call_seconds, inputs
from krafla.runtime.bench_library import Array, Library
from krafla.runtime.cpu import cpu_name
from krafla.tools.errors import KraflaError

Isas = dict[str, Isa]
#: A variant must be that much faster to be kept: less is noise.
LEAST_GAIN = 1.02
GROUPS = (1, 2, 3, 4, 6)
TILE_GROUPS = (1, 2)
TILES = (3, 4, 5, 6, 8, 10, 12, 14, 16, 20)
CHUNKS = (16, 32, 64)
QUERIES = (2, 3, 4, 6, 8, 12)
DISTANCES = (0, 512, 1024, 2048, 4096, 8192)
STREAMED = 64 << 20  # more than caches hold: what prefetching is for


@dataclass(frozen=True)
class Choice:
    """What became of one number of the descriptor; `gain` is the speed relative to before."""

    knob: str
    was: str
    best: str
    gain: float


@dataclass(frozen=True)
class Tuning:
    """The outcome for one ISA."""

    isa: str
    cpu: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True)
class Knob:
    """A number to choose: the kernels that it changes, at what sizes they are timed, and the variants."""

    name: str
    ops: tuple[str, ...]
    changes: tuple[Sizes, ...]  # to the registry's bench sizes
    variants: dict[str, Isas]  # the current one first
    working_set: int = 0


def tune(isa: str | None = None, rounds: int = 5, report: progress.Report = progress.silent) -> Tuning:
    """Choose every number of an ISA's descriptor in turn, and keep the kernels if any gained."""
    name = host.choose(isa).name
    isas, choices = dict(load_isas()), []
    for make in (_tile_knob, _chunk_knob, _block_knob, _groups_knob, _prefetch_knob):
        knob = make(name, isas)
        if knob is None:
            continue
        speeds = _race(name, knob, rounds, report)
        was, best = next(iter(speeds)), max(speeds, key=speeds.__getitem__)
        if speeds[best] < LEAST_GAIN:
            best = was
        choices.append(Choice(knob.name, was, best, speeds[best]))
        isas = knob.variants[best]
    result = Tuning(name, cpu_name(), tuple(choices))
    _keep(name, isas, result)
    return result


def _with(isas: Isas, owner: Isa, **facets: Any) -> Isas:
    return {**isas, owner.name: replace(isas[owner.name], **facets)}


def _machine(name: str, isas: Isas) -> Machine:
    return Renderer(isas).machine(name)


def _named(variants: Iterator[tuple[str, Isas]], current: str) -> dict[str, Isas]:
    """The variants by name, the current one first."""
    named = dict(variants)
    return {current: named.pop(current), **named}


def _tile_knob(name: str, isas: Isas) -> Knob | None:
    """How many tokens share a load of weights, and how many row groups a load of activations."""
    machine = _machine(name, isas)
    tile = machine.tile
    if machine.pack is None or not isinstance(tile, VectorTile) or tile.matrix is not None:
        return None
    stepwise = tile.pairs is None and not isinstance(machine.pack.dot, BlockDot)

    def variants() -> Iterator[tuple[str, Isas]]:
        for tokens, groups in product(sorted({*TILES, tile.sizes[0]}), TILE_GROUPS if stepwise else (1,)):
            if tokens % groups:
                continue
            if tokens == tile.sizes[0]:
                sizes = tile.sizes
            elif tile.pairs is not None and tokens % 2:
                continue
            else:
                sizes = (tokens, *(size for size in (8, 4, 2, 1) if size < tokens))
            changed = replace(tile, sizes=sizes, groups=groups)
            yield _tile_name(changed), _with(isas, machine.owner("tile"), tile=changed)

    ops = tuple(f"matmul_{kind}_pk" for kind in ("q8", "q4"))
    sizes = {"rows": 256, "r1": 256, "cols": 1024, "y_stride": 256, "tokens": 120}
    return Knob("tokens per tile", ops, (sizes,), _named(variants(), _tile_name(tile)))


def _tile_name(tile: VectorTile) -> str:
    return f"{tile.sizes[0]}" + (f" / {tile.groups} groups" if tile.groups > 1 else "")


def _chunk_knob(name: str, isas: Isas) -> Knob | None:
    """Blocks that are widened at a time for the matrix unit."""
    machine = _machine(name, isas)
    tile = machine.tile
    if not isinstance(tile, VectorTile) or not isinstance(tile.matrix, AmxUnit):
        return None
    unit = tile.matrix

    def variants() -> Iterator[tuple[str, Isas]]:
        for chunk in sorted({*CHUNKS, unit.chunk}):
            changed = replace(tile, matrix=replace(unit, chunk=chunk))
            yield str(chunk), _with(isas, machine.owner("tile"), tile=changed)

    sizes = {"rows": 256, "r1": 256, "y_stride": 256}
    ops = ("matmul_q8_pk", "matmul_q4_pk")
    return Knob("blocks per chunk", ops, (sizes,), _named(variants(), str(unit.chunk)))


def _block_knob(name: str, isas: Isas) -> Knob | None:
    """The register tile of attention: queries times vectors of positions or dimensions."""
    machine = _machine(name, isas)
    lanes, block = machine.f32.lanes, machine.f32.block
    if lanes < 4:
        return None
    owner = machine.owner("f32")

    def variants() -> Iterator[tuple[str, Isas]]:
        shapes = {(q, v) for q in QUERIES for v in (1, 2, 4) if q * v <= 24 and lanes * v <= 64}
        for queries, vectors in sorted({*shapes, (block.queries, block.vectors)}):
            current = (queries, vectors) == (block.queries, block.vectors)
            words = replace(machine.f32, block=block if current else Block(queries, vectors))
            yield f"{queries} x {vectors}", _with(isas, owner, f32=words)

    ops = ("dot_f32", "dot_f16", "axpy_f32", "axpy_f16", "axpy_q8")
    sizes = ({"queries": 4}, {"queries": 24})
    return Knob("queries x vectors", ops, sizes, _named(variants(), f"{block.queries} x {block.vectors}"))


def _groups_knob(name: str, isas: Isas) -> Knob | None:
    """How many row groups a matvec takes at once."""
    machine = _machine(name, isas)
    pack = machine.pack
    if pack is None or not isinstance(pack.dot, BlockDot):
        return None
    owner = machine.owner("pack")

    def variants() -> Iterator[tuple[str, Isas]]:
        for groups in sorted({*GROUPS, pack.groups}):
            condition = pack.groups_condition if groups == pack.groups else ""
            changed = replace(pack, groups=groups, groups_condition=condition)
            yield str(groups), _with(isas, owner, pack=changed)

    ops = ("matvec_q8_pk", "matvec_q4_pk")
    return Knob("row groups per matvec", ops, ({},), _named(variants(), str(pack.groups)))


def _prefetch_knob(name: str, isas: Isas) -> Knob | None:
    """How far ahead of a matvec its weights are asked for; 0: not at all."""
    machine = _machine(name, isas)
    if machine.pack is None:
        return None
    current = machine.prefetch_distance

    def variants() -> Iterator[tuple[str, Isas]]:
        for distance in sorted({*DISTANCES, current}):
            yield str(distance), _with(isas, isas[name], prefetch_distance=distance)

    ops = ("matvec_q8_pk", "matvec_q4_pk")
    return Knob("prefetch distance", ops, ({},), _named(variants(), str(current)), STREAMED)


def _race(name: str, knob: Knob, rounds: int, report: progress.Report) -> dict[str, float]:
    """The speed of every variant relative to the first, as the geometric mean over kernels and sizes."""
    ops = [BY_NAME[op] for op in (*knob.ops, "tile_q8")]
    with tempfile.TemporaryDirectory() as scratch:
        libraries = {}
        for done, (variant, isas) in enumerate(knob.variants.items()):
            report(f"{name}: trying {knob.name}", done, len(knob.variants))
            generated = Path(scratch) / str(done)
            write(Renderer(isas), name, generated)
            libraries[variant] = Library(name, generated, ops, variant=_machine(name, isas))
        for op in (BY_NAME[op] for op in knob.ops):
            _check(libraries, op, knob.name)
        times: dict[str, list[float]] = {variant: [] for variant in libraries}
        for op in (BY_NAME[op] for op in knob.ops):
            for change in knob.changes:
                for variant, seconds in _times(libraries, op, change, knob.working_set, rounds).items():
                    times[variant].append(seconds)
    report(f"{name}: trying {knob.name}", len(knob.variants), len(knob.variants))
    first = times[next(iter(times))]
    return {
        variant: statistics.geometric_mean(a / b for a, b in zip(first, own, strict=True))
        for variant, own in times.items()
    }


def _times(
    libraries: Mapping[str, Library], op: Op, change: Sizes, working_set: int, rounds: int
) -> dict[str, float]:
    """Median seconds per call; the variants take turns, so that noise meets all of them."""
    sizes = {**op.bench[0], **change}
    copies = max(1, working_set // (sizes["rows"] * sizes["cols"])) if working_set else 1
    sets = {variant: inputs(library, op, sizes, copies) for variant, library in libraries.items()}
    taken: dict[str, list[float]] = {variant: [] for variant in libraries}
    for _ in range(rounds):
        for variant, library in libraries.items():
            taken[variant].append(call_seconds(library, op, sets[variant], 1, 0.01))
    return {variant: statistics.median(times) for variant, times in taken.items()}


def _check(libraries: Mapping[str, Library], op: Op, knob: str) -> None:
    """Every variant gives the first one's bits, on every case of the registry."""
    first, *others = libraries
    for sizes in op.cases:
        wanted = outputs(libraries[first], op, sizes)
        for variant in others:
            if outputs(libraries[variant], op, sizes) != wanted:
                raise KraflaError(f"{op.name} with {knob} {variant} gives other bits than with {first}")


def outputs(library: Library, op: Op, sizes: Sizes) -> list[bytes]:
    """What a kernel writes for inputs that depend on the op and the sizes only."""
    given = inputs(library, op, sizes)[0]
    if any(arg.name == "xt" for arg in op.args):
        given |= _tiled(library, sizes)
    library.time(op, [given], 1)
    written = [arg for arg in op.args if arg.role in ("out", "inout")]
    known = {**sizes, "group": 1, "x_bytes": 1, "tile": 1}
    return [given[arg.name][: arg.count(known)].tobytes() for arg in written]


def _tiled(library: Library, sizes: Sizes) -> dict[str, Array]:
    """Activations in the variant's own arrangement."""
    rng = np.random.default_rng(7)
    tokens, cols = sizes.get("tokens", 1), sizes["cols"]
    xq = rng.integers(-127, 128, tokens * cols).astype(np.int8)
    row_major = {
        "xq": xq,
        "xd": rng.uniform(0.001, 0.02, tokens * cols // 32).astype(np.float32),
        "xs": xq.reshape(-1, 32).sum(axis=1, dtype=np.int32),
    }
    op = BY_NAME["tile_q8"]
    given = inputs(library, op, {"tokens": tokens, "cols": cols})[0] | row_major
    library.time(op, [given], 1)
    return {"xt": given["xt"], "xd": given["xdt"], "xs": given["xst"]}


def write(renderer: Renderer, name: str, folder: Path) -> None:
    """The kernels of an ISA and of all that it falls back on, unformatted: no compiler minds."""
    chain: Sequence[Isa] = renderer.machine(name).chain
    for path, text in renderer.files([isa.name for isa in chain]).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def _keep(name: str, isas: Isas, result: Tuning) -> None:
    """Replace what was kept for this CPU; nothing is kept where the descriptor is best."""
    home = tuned.home(name)
    cache.room("tuned")
    with cache.lock(home):
        shutil.rmtree(home, ignore_errors=True)
        if any(choice.best != choice.was for choice in result.choices):
            write(Renderer(isas), name, home)
            (home / tuned.RECORD).write_text(json.dumps(asdict(result), indent=1), encoding="utf-8")
