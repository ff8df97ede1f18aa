"""How fast the kernels of an ISA are, at the registry's shapes or a model's, and what share of the limit that is.

The limit of a call is the longer of two times: reading its bytes at the bandwidth measured for a working set of that
size, and doing its operations at the measured peak. Both are measured in the same run, on one thread.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from krafla.codegen.ops import OPS, Arg, Op, Sizes
from krafla.runtime.bench_library import Array, Library, huge
from krafla.tools.mlb import Q8_0, Header, Tensor

#: Weights and cache pages: their copies take turns, until they fill the working set.
STREAMED = ("wq", "wd", "k", "dk", "v", "dv")
MOST_BYTES = 256 << 20
PROMPT_TOKENS = 128
DTYPES = {
    "float": np.float32,
    "int32_t": np.int32,
    "uint16_t": np.uint16,
    "int8_t": np.int8,
    "uint8_t": np.uint8,
}


@dataclass(frozen=True)
class Speed:
    """One kernel at one shape."""

    isa: str
    op: str
    kernel_of: str  # the ISA of its chain that supplies the kernel
    sizes: Sizes
    working_set: int  # bytes
    seconds: float  # of one call: the median over rounds
    bytes_per_second: float
    operations_per_second: float
    limit: str  # "read", "int8" or "float"
    share: float  # of the limit
    rounds: tuple[float, ...] = ()  # seconds of one call in each round


def amount(expression: str, sizes: Sizes) -> int:
    """The value of an expression over the size arguments, as the registry writes them."""
    return Arg("int", "amount", "size", expression).count(sizes)


def measure(
    library: Library,
    ops: Sequence[Op] = OPS,
    model: tuple[Header, dict[str, Tensor]] | None = None,
    rounds: int = 5,
    seconds: float = 0.02,
) -> Iterator[Speed]:
    """Every kernel that the ISA binds, at the registry's shapes or, with a model, at the model's."""
    weights = sum(t.rows * t.row_bytes for t in model[1].values() if t.kind) if model else 0
    for op in ops:
        if library.binds(op):
            for sizes in model_shapes(op, *model) if model else op.bench:
                yield one(library, op, sizes, min(weights, MOST_BYTES), rounds, seconds)


def one(
    library: Library, op: Op, sizes: Sizes, working_set: int, rounds: int = 5, seconds: float = 0.02
) -> Speed:
    """One op at one shape, over at least `seconds` in each round."""
    traffic = amount(op.bytes, sizes)
    copies = max(1, working_set // traffic) if any(arg.name == "wq" for arg in op.args) else 1
    sets = inputs(library, op, sizes, copies)
    each = round_seconds(library, op, sets, rounds, seconds)
    taken = statistics.median(each)
    integer = op.name.startswith(("matvec", "matmul", "dot_q8"))
    kind = "int8" if integer else "float"
    operations = amount(op.flops, sizes)
    limits = {
        "read": traffic / library.read_bandwidth(traffic * copies),
        kind: operations / library.limits[kind]["per_second"],
    }
    limit = max(limits, key=limits.__getitem__)
    return Speed(
        isa=library.facts.name,
        op=op.name,
        kernel_of=library.binds(op) or "",
        sizes=sizes,
        working_set=traffic * copies,
        seconds=taken,
        bytes_per_second=traffic / taken,
        operations_per_second=operations / taken,
        limit=limit,
        share=limits[limit] / taken,
        rounds=each,
    )


def call_seconds(
    library: Library, op: Op, sets: Sequence[dict[str, Any]], rounds: int, seconds: float
) -> float:
    """Seconds of one call: the median over rounds of many calls each."""
    return statistics.median(round_seconds(library, op, sets, rounds, seconds))


def round_seconds(
    library: Library, op: Op, sets: Sequence[dict[str, Any]], rounds: int, seconds: float
) -> tuple[float, ...]:
    """Seconds of one call in each round; a round makes as many calls as take `seconds`."""
    repeats = len(sets)
    while (first := library.time(op, sets, repeats)) < seconds:
        repeats = max(2 * repeats, int(repeats * seconds / max(first, 1e-7)))
    return tuple(library.time(op, sets, repeats) / repeats for _ in range(rounds))


def inputs(library: Library, op: Op, sizes: Sizes, copies: int = 1) -> list[dict[str, Any]]:
    """Arguments for the op; what is streamed has `copies` of its own."""
    rng = np.random.default_rng(len(op.name))
    known = shape_variables(library, sizes)
    given: dict[str, Any] = dict(sizes)
    for arg in op.args:
        if arg.role == "value":
            given[arg.name] = 1e-5
        elif arg.role != "size":
            given[arg.name] = _array(rng, arg, arg.count(known))
    streamed = [name for name in STREAMED if name in given]
    return [given, *({**given, **{name: _copy(given[name]) for name in streamed}} for _ in range(copies - 1))]


def shape_variables(library: Library, sizes: Sizes) -> Sizes:
    """The sizes, and what shapes say about packed data."""
    pack, tile = library.machine.pack, library.machine.tile
    if pack is None or tile is None:
        return {**sizes, "group": 1, "x_bytes": 32, "tile": 1}
    return {**sizes, "group": pack.dot.group, "x_bytes": pack.dot.x_bytes, "tile": tile.tokens}


def _array(rng: np.random.Generator, arg: Arg, count: int) -> Array:
    dtype = np.dtype(DTYPES[arg.type.removeprefix("const ").split()[0]])
    array = huge(max(count, 1) * dtype.itemsize).view(dtype)
    if arg.role != "in" or "corrections" in arg.data or arg.data == "sums":
        return array  # zeros: what is updated in place must not run away over thousands of calls
    if dtype.kind == "f":
        array[:] = rng.uniform(0.001, 0.02, len(array))
    elif arg.data in ("f16", "packed scales f16"):
        array[:] = rng.uniform(0.001, 0.02, len(array)).astype(np.float16).view(np.uint16)
    else:
        array[:] = np.frombuffer(rng.bytes(array.nbytes), dtype)
        if dtype == np.int8:
            np.maximum(array, -127, out=array)
    return array


def _copy(array: Array) -> Array:
    copy = huge(array.nbytes).view(array.dtype)
    copy[:] = array
    return copy


def model_shapes(op: Op, header: Header, tensors: dict[str, Tensor]) -> list[Sizes]:
    """The sizes with which a model calls an op; none if it does not."""
    if "rows" in op.bench[0] and "cols" in op.bench[0]:
        return _matrix_shapes(op, header, tensors)
    head, queries = header.head_size, header.n_heads // header.n_kv_heads
    changes: dict[str, list[Sizes]] = {
        "tile_q8": [{"cols": n} for n in (header.dim, header.hidden_dim)],
        "quantize_q8": [{"n": n} for n in (header.dim, header.hidden_dim)],
        "rope": [
            {
                "head_dim": head,
                "rot_dim": header.rot_size,
                "n_heads": header.n_heads,
                "n_kv_heads": header.n_kv_heads,
            }
        ],
        "silu_mul": [{"n": header.hidden_dim}],
        "gelu_mul": [{"n": header.hidden_dim}],
        "rmsnorm": [{"n": header.dim}],
        "add": [{"n": header.dim}],
        "dot_f32": [{"queries": queries, "n": head, "q_stride": head}],
        "dot_f16": [{"queries": queries, "n": head, "q_stride": head}],
        "dot_q8": [{"queries": queries, "n": -(-head // 32) * 32}],
        **{f"axpy_{kv}": [{"queries": queries, "n": head, "y_stride": head}] for kv in ("f32", "f16", "q8")},
    }
    return [{**op.bench[0], **change} for change in changes.get(op.name, [{}])]


def _matrix_shapes(op: Op, header: Header, tensors: dict[str, Tensor]) -> list[Sizes]:
    kind = {"q8": Q8_0}.get(op.params["kind"])
    half = op.params.get("scale")
    if half is not None and (half == "f16") != bool(header.scale_f16):
        return []
    shapes: dict[tuple[int, int], Sizes] = {}
    for t in tensors.values():
        if (
            t.kind
            and (t.kind == Q8_0) == (kind == Q8_0)
            and (t.name != "tok_emb" or header.shared_classifier)
        ):
            sizes = {**op.bench[0], "rows": t.rows, "cols": t.cols, "r1": t.rows}
            if "tokens" in sizes:
                sizes |= {"y_stride": t.rows, "tokens": PROMPT_TOKENS}
            shapes[t.rows, t.cols] = sizes
    return list(shapes.values())
