"""Calls kernels from tests: inputs made from the registry, guarded buffers, what the reference expects."""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krafla.codegen import reference, registry
from krafla.codegen.dots import Dot
from krafla.codegen.isa import Isa, Machine
from krafla.codegen.ops import BY_NAME, OPS, PAGE, Arg, Op, Sizes
from krafla.codegen.render import Renderer
from tests import native

Array = NDArray[Any]
Inputs = dict[
    str, Any
]  # by argument name: arrays in file order (row-major, one token after the other) and numbers

ML_OK, ML_E_ISA = 0, 5  # core/ml.h
CANARY = 0xA5
MARGIN = 128  # canary bytes on either side of a buffer
FLAVOURS = ("plain", "wild", "special", "tiny", "ties", "masked")
MATRIX_FLAVOURS = FLAVOURS[:3]
CTYPES = {"int": ctypes.c_int, "size_t": ctypes.c_size_t, "float": ctypes.c_float}
DTYPES = {
    "float": np.float32,
    "int8_t": np.int8,
    "uint8_t": np.uint8,
    "uint16_t": np.uint16,
    "int32_t": np.int32,
}


# --- Which machines this CPU can be -----------------------------------------------------------------------


@cache
def missing_feature(isa: str) -> str:
    """The first CPU feature of an ISA that this machine lacks, or an empty string."""
    library = native.build_library(["core/isa_check.c"])
    library.ml_cpu_has.argtypes = [ctypes.c_char_p]
    for feature in registry.machines()[isa].features:
        status = library.ml_cpu_has(feature.encode())
        assert status in (ML_OK, ML_E_ISA), f"the CPU check does not know {feature}, which {isa} asks for"
        if status == ML_E_ISA:
            return feature
    return ""


# --- Libraries of kernels ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kernels:
    """The kernels of one ISA, compiled for it as ml_config.h binds them."""

    machine: Machine
    isas: Mapping[str, Isa]
    library: ctypes.CDLL
    fused: bool
    layout: (
        Dot | None
    )  # whose packed layout the weights have: the machine's own, unless a test says otherwise

    def binds(self, op: Op) -> bool:
        return registry.bind(op, self.machine, self.isas) is not None

    def call(self, op: Op, arguments: Mapping[str, Any]) -> None:
        """The C call: arrays by address, numbers by value."""
        owner = registry.bind(op, self.machine, self.isas)
        assert owner is not None, f"{self.machine.name} has no {op.name}"
        function = getattr(self.library, op.symbol(owner.name))
        function.restype = None
        function.argtypes = [CTYPES.get(arg.type, ctypes.c_void_p) for arg in op.args]
        function(*(_c_value(arguments[arg.name]) for arg in op.args))


def _c_value(value: Any) -> Any:
    return value.ctypes.data if isinstance(value, np.ndarray) else value


def load(
    isa: str,
    *,
    fused: bool | None = None,
    numerics: str = "fused",
    isas: Mapping[str, Isa] | None = None,
    ops: Sequence[str] | None = None,
) -> Kernels:
    """Compiles the kernels an ISA binds into one library.

    The committed files are used unless `numerics` or `isas` ask for others, which are rendered into a folder
    named after their content. `fused` sets the class of the scalar code; `ops` limits what is compiled.
    """
    renderer = Renderer(numerics=numerics) if isas is None else Renderer(isas=dict(isas), numerics=numerics)
    machine = renderer.machine(isa)
    wanted = [op for op in OPS if ops is None or op.name in ops]
    names = [link.name for link in machine.chain]
    committed = isas is None and numerics == "fused"
    folder = native.ROOT / "generated" if committed else _rendered(renderer, names, wanted)
    bound = [(op, registry.bind(op, machine, renderer.isas)) for op in wanted]
    files = [folder / owner.name / f"{op.name}.c" for op, owner in bound if owner is not None]
    sources = [together(f"{isa}_{k}.c", files[k::2]) for k in range(min(2, len(files)))]
    own_class = machine.fused is not None and machine.fused and numerics == "fused"
    fused = own_class if fused is None else fused
    defines = [f"ML_FUSED={int(fused)}"]
    library = native.build_library(sources, machine.name, defines, (f"-I{folder}",))
    return Kernels(machine, renderer.isas, library, fused, machine.pack.dot if machine.pack else None)


def together(name: str, files: Sequence[Path]) -> Path:
    """Kernels in one source, so that the intrinsics' headers are read once; static helpers get their file's name."""
    lines: list[str] = []
    for path in files:
        text = path.read_text(encoding="utf-8")
        helpers = sorted(set(re.findall(r"^static [^;{=]*?\b(\w+)\(", text, re.MULTILINE)))
        lines += [f"#define {helper} {path.stem}_{helper}" for helper in helpers]
        lines += [f"/* {path.parent.name}/{path.name} */", text]
        lines += [f"#undef {helper}" for helper in helpers]
    return native.write_source(name, "\n".join(lines) + "\n")


def _rendered(renderer: Renderer, names: Sequence[str], ops: Sequence[Op]) -> Path:
    """Renders the files of some ISAs (unformatted, no compiler minds) into a folder named by content."""
    wanted = {f"{op.name}.c" for op in ops}
    files = {
        path: text
        for path, text in renderer.files(list(names)).items()
        if path.endswith(".h") or Path(path).name in wanted
    }
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:20]
    folder = native.CACHE / "rendered" / digest
    if not folder.exists():
        temporary = folder.with_name(f"{digest}.{id(files)}")
        for path, text in files.items():
            (temporary / path).parent.mkdir(parents=True, exist_ok=True)
            (temporary / path).write_text(text, encoding="utf-8")
        try:
            temporary.rename(folder)
        except OSError:
            shutil.rmtree(temporary)
    return folder


# --- Inputs -----------------------------------------------------------------------------------------------


def generator(*key: object) -> np.random.Generator:
    """Random numbers that depend on the test's name and nothing else."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def floats(rng: np.random.Generator, count: int, flavour: str) -> Array:
    """Single-precision values of one flavour; denormals, infinities and NaN among them."""
    plain = (rng.standard_normal(count) * 3).astype(np.float32)
    if flavour == "plain":
        return plain
    if flavour == "wild":  # any exponent
        return np.ldexp(rng.uniform(-2, 2, count), rng.integers(-149, 100, count)).astype(np.float32)
    if flavour == "tiny":  # where quantization gives up, and below
        return (rng.uniform(-2, 2, count) * 10.0 ** rng.integers(-45, -29)).astype(np.float32)
    if flavour == "ties":  # halves, up to the largest quant
        return (rng.integers(-254, 255, count) / 2).astype(np.float32)
    if flavour == "masked":  # nothing but -inf, at times a NaN
        nan = rng.random(count) < rng.choice([0, 0.1])
        return np.where(nan, np.nan, -np.inf).astype(np.float32)
    specials = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, 1e-41, -1e-45, 3.4e38, 88.5, -87.4, -104.0]
    picks = rng.choice(np.array(specials, np.float32), count)
    return np.where(rng.random(count) < min(0.5, 4 / max(count, 1)), picks, plain).astype(np.float32)


def scales(rng: np.random.Generator, count: int, flavour: str, dtype: type) -> Array:
    """Scales: usual ones, or the extreme ones that a file may hold (f16 reaches 65504)."""
    values = rng.uniform(-0.02, 0.02, count)
    if flavour != "plain":
        extreme = [0.0, 1e-30, 65504.0, 6e-8, -65504.0, 1.0]
        values = np.where(rng.random(count) < 0.5, rng.choice(extreme, count), values)
    return values.astype(dtype)


def quants(rng: np.random.Generator, count: int, flavour: str) -> Array:
    """int8 quants; the special flavour has only extreme ones, of one sign in half of the blocks of 32."""
    if flavour != "special":
        return rng.integers(-127, 128, count).astype(np.int8)
    signs = np.where(rng.random(-(-count // 32)) < 0.5, 1, -1).repeat(32)[:count]
    mixed = np.where(rng.random(-(-count // 32)) < 0.5, 1, 0).repeat(32)[:count] * rng.choice([0, 1], count)
    return (127 * signs * np.where(mixed == 1, -1, 1)).astype(np.int8)


def inputs(op: Op, sizes: Sizes, flavour: str) -> Inputs:
    """Arguments of a call, by name; matrices and activations in file order, whatever the op's layout is."""
    rng = generator(op.name, sorted(sizes.items()), flavour)
    made: Inputs = dict(sizes)
    if "cols" in sizes:
        return made | _matrix(rng, op, sizes, flavour)
    if op.name == "dot_q8":
        made["q"] = quants(rng, sizes["queries"] * sizes["n"], flavour)
        made["k"] = quants(rng, PAGE * sizes["n"], flavour)
    for arg in op.args:
        if arg.name in made or arg.role == "size" or arg.data in ("tiled quants", "corrections"):
            continue
        if arg.role == "value":
            made[arg.name] = {"wild": 0.0, "special": 65504.0}.get(flavour, 1e-5)
        elif arg.role != "out":
            made[arg.name] = _array(rng, arg, arg.count(sizes), flavour)
    return made


def _array(rng: np.random.Generator, arg: Arg, count: int, flavour: str) -> Array:
    if arg.data == "f32":
        return floats(rng, count, flavour)
    if arg.data == "f16":
        with np.errstate(all="ignore"):
            return floats(rng, count, flavour).astype(np.float16).view(np.uint16)
    if arg.data == "quants":
        return quants(rng, count, flavour)
    assert arg.data == "scales", f"no inputs known for {arg.data!r}"
    return scales(rng, count, flavour, np.float32)


def _matrix(rng: np.random.Generator, op: Op, sizes: Sizes, flavour: str) -> Inputs:
    rows, cols, tokens = sizes.get("rows", 1), sizes["cols"], sizes.get("tokens", 1)
    blocks = cols // 32
    xq = quants(rng, tokens * cols, flavour)
    half = op.params.get("scale") == "f16"
    if op.params.get("kind") == "q4":
        wq = rng.integers(0, 256, (rows, cols // 2)).astype(np.uint8)
        if flavour == "special":
            wq = rng.choice(np.array([0x00, 0xFF, 0x0F, 0xF0], np.uint8), wq.shape)
    else:
        wq = quants(rng, rows * cols, flavour).reshape(rows, cols)
    return {
        "wq": wq,
        "wd": scales(rng, rows * blocks, flavour, np.float16 if half else np.float32).reshape(rows, blocks),
        "xq": xq.reshape(tokens, cols),
        "xd": np.abs(scales(rng, tokens * blocks, flavour, np.float32)).reshape(tokens, blocks),
        "xs": xq.reshape(tokens, blocks, 32).sum(axis=2, dtype=np.int32),
    }


# --- Calls ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Guarded:
    """An array between canaries; `misaligned` puts it one element past a 64-byte boundary."""

    raw: NDArray[np.uint8]
    array: Array
    start: int

    @classmethod
    def of(cls, content: Array, misaligned: bool) -> Guarded:
        raw = np.full(content.nbytes + 2 * MARGIN + 64, CANARY, np.uint8)
        start = MARGIN + (-(raw.ctypes.data + MARGIN)) % 64 + (content.itemsize if misaligned else 0)
        array = raw[start : start + content.nbytes].view(content.dtype)
        array[:] = content.reshape(-1)
        return cls(raw, array, start)

    def intact(self) -> bool:
        end = self.start + self.array.nbytes
        return bool((self.raw[: self.start] == CANARY).all() and (self.raw[end:] == CANARY).all())


def c_arguments(kernels: Kernels, op: Op, given: Inputs) -> dict[str, Any]:
    """What the C function gets: weights and activations in the op's layout, outputs not yet written."""
    machine = kernels.machine
    sizes = machine_sizes(machine, given)
    values = given
    if is_packed(op):
        values = packed_arguments(kernels, op, given)
    elif op.name == "dot_q8":
        values = packed_keys(kernels, given)
    arguments = {}
    for arg in op.args:
        value = values[arg.name] if arg.role != "out" else None
        if value is None:
            value = unwritten(DTYPES[arg.type.removeprefix("const ").split()[0]], arg.count(sizes))
        arguments[arg.name] = value
    return arguments


def run(kernels: Kernels, op: Op, given: Inputs, misaligned: bool = False) -> dict[str, Array]:
    """Calls a kernel on guarded copies of the inputs; checks that nothing but its outputs has changed."""
    arguments = c_arguments(kernels, op, given)
    buffers = {
        name: Guarded.of(value, misaligned)
        for name, value in arguments.items()
        if isinstance(value, np.ndarray)
    }
    kernels.call(op, {**arguments, **{name: buffer.array for name, buffer in buffers.items()}})
    outputs = {}
    for arg in op.args:
        if arg.name not in buffers:
            continue
        buffer = buffers[arg.name]
        assert buffer.intact(), f"{op.name} of {kernels.machine.name} writes around {arg.name}"
        if arg.role == "in":
            before = arguments[arg.name].reshape(-1)
            assert buffer.array.tobytes() == before.tobytes(), f"{op.name} writes to its input {arg.name}"
        else:
            outputs[arg.name] = buffer.array.copy()
    return outputs


def unwritten(dtype: type, count: int) -> Array:
    """What an output holds before the call: no kernel computes it by chance."""
    return np.full(count * np.dtype(dtype).itemsize, 0x5B, np.uint8).view(dtype)


def is_packed(op: Op) -> bool:
    return "_pk" in op.name


def machine_sizes(machine: Machine, given: Inputs) -> Sizes:
    """The size arguments, and what shapes say about packed data."""
    sizes = {name: value for name, value in given.items() if isinstance(value, int)}
    if machine.pack is not None and machine.tile is not None:
        dot = machine.pack.dot
        sizes |= {"group": dot.group, "x_bytes": dot.x_bytes, "tile": machine.tile.tokens}
    return sizes


def packed_keys(kernels: Kernels, given: Inputs) -> Inputs:
    """The inputs of dot_q8 as it reads them: keys packed like rows of weights, each query through tile_q8."""
    n, queries, dot = given["n"], given["queries"], kernels.layout
    if dot is None:
        return {**given, "xt": given["q"], "k": given["k"].view(np.uint8), "xs": np.zeros(queries, np.int32)}
    quants = given["q"].reshape(queries, 1, n)
    tiled = [
        run(
            kernels,
            BY_NAME["tile_q8"],
            {
                "cols": n,
                "tokens": 1,
                "xq": one,
                "xd": np.ones((1, n // 32), np.float32),
                "xs": one.reshape(1, n // 32, 32).sum(axis=2, dtype=np.int32),
            },
        )
        for one in quants
    ]
    used = n // 32 * dot.x_bytes
    return {
        **given,
        "xt": np.concatenate([one["xt"][:used] for one in tiled]),
        "xs": np.array([one["xst"][: 2 * (n // 32) : 2].sum() for one in tiled], np.int32),
        "k": reference.pack_q8(given["k"].reshape(PAGE, n), dot.group, dot.step, dot.q8_offset).view(
            np.uint8
        ),
    }


def packed_arguments(kernels: Kernels, op: Op, given: Inputs) -> Inputs:
    """The same inputs as a packed kernel reads them: weights packed, activations through tile_q8."""
    dot = kernels.layout
    assert dot is not None
    if op.params["kind"] == "q8":
        wq = reference.pack_q8(given["wq"], dot.group, dot.step, dot.q8_offset)
    else:
        wq = reference.pack_q4(given["wq"], dot.group, dot.step, dot.q4_xor)
    wd = reference.pack_scales(given["wd"], dot.group)
    tiled = run(kernels, BY_NAME["tile_q8"], {**given, "tokens": given.get("tokens", 1)})
    sizes = machine_sizes(kernels.machine, given)
    counts = {arg.name: arg.count(sizes) for arg in op.args if arg.name in ("xt", "xd", "xs")}
    return {
        **given,
        "wq": wq,
        "wd": wd.view(np.uint16) if wd.dtype == np.float16 else wd,
        "xt": tiled["xt"][: counts["xt"]],
        "xd": tiled["xdt"][: counts["xd"]],
        "xs": tiled["xst"][: counts["xs"]],
    }


# --- What is expected -------------------------------------------------------------------------------------


def expected(op: Op, given: Inputs, *, fused: bool) -> dict[str, Array]:
    """The outputs of a call by the NumPy reference."""
    view = (
        {**given, "xq": given["xq"][0], "xd": given["xd"][0]}
        if "wq" in given and "tokens" not in given
        else given
    )
    if "queries" in given:
        return _expected_attention(op, given, fused=fused)
    wanted = [name for name in inspect.signature(op.reference).parameters if name != "fused"]
    results = op.reference(**{name: view[name] for name in wanted}, fused=fused)
    names = [arg.name for arg in op.args if arg.role in ("out", "inout")]
    outputs = dict(zip(names, results if isinstance(results, tuple) else (results,), strict=True))
    return {"y": only_rows(outputs["y"], given)} if "wq" in given else outputs


def _expected_attention(op: Op, given: Inputs, *, fused: bool) -> dict[str, Array]:
    """The outputs over a page: rows of the queries lie a stride apart, keys as the op's cache stores them."""
    count, n = given["queries"], given["n"]
    scores = op.name.startswith("dot")
    name = "s" if scores else "y"
    width = PAGE if scores else n
    if scores:
        keys = given["k"].reshape(PAGE, n) if "dk" in given else given["k"].reshape(n, PAGE)
        scales = (given["dk"],) if "dk" in given else ()
        queries = _rows_apart(given["q"], count, n, given.get("q_stride", n))
        result = op.reference(queries, *((given["dq"],) if scales else ()), keys, *scales, fused=fused)
        buffer = unwritten(np.float32, (count - 1) * given["s_stride"] + width)
    else:
        weights = _rows_apart(given["p"], count, given["rows"], given["p_stride"])
        before = _rows_apart(given["y"], count, n, given["y_stride"])
        result = op.reference(before.copy(), weights, given["v"].reshape(-1, n), fused=fused)
        buffer = given["y"].copy()
    _rows_apart(buffer, count, width, given[f"{name}_stride"])[:] = result
    return {name: buffer}


def _rows_apart(cells: Array, rows: int, width: int, stride: int) -> Array:
    """A view of rows that lie `stride` elements apart."""
    item = cells.itemsize
    return np.lib.stride_tricks.as_strided(cells, (rows, width), (stride * item, item))


def only_rows(y: Array, given: Inputs) -> Array:
    """The y buffer of a matvec or matmul: rows [r0, r1) of every token written, all else as before."""
    tokens, rows = given.get("tokens", 1), given["rows"]
    stride = given.get("y_stride", rows)
    buffer = unwritten(np.float32, tokens * stride)
    part = slice(given["r0"], given["r1"])
    buffer.reshape(tokens, stride)[:, part] = y.reshape(tokens, rows)[:, part]
    return buffer[: (tokens - 1) * stride + rows]


def by_scalar(scalar: Kernels, op: Op, given: Inputs) -> dict[str, Array]:
    """The outputs of a call by scalar kernels: packed ops through their row-major twin, token by token."""
    if not is_packed(op):
        return run(scalar, op, given)
    twin = BY_NAME[f"matvec_{op.params['kind']}"]
    rows = given["rows"]
    y = np.empty((given.get("tokens", 1), rows), np.float32)
    for t in range(len(y)):
        one = {"xq": given["xq"][t], "xd": given["xd"][t], "xs": given["xs"][t]}
        whole = {**given, **one, "wd": given["wd"].astype(np.float32), "r0": 0, "r1": rows}
        y[t] = run(scalar, twin, whole)["y"]
    return {"y": only_rows(y, given)}


def difference(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> str:
    """Empty if all outputs are equal bit for bit (any NaN equals any NaN), else a sentence on the first."""
    for name, want in wanted.items():
        have = found[name].reshape(-1)
        flat = np.ascontiguousarray(want).reshape(-1).astype(have.dtype, copy=False)
        same = have.view(f"u{have.itemsize}") == flat.view(f"u{flat.itemsize}")
        if have.dtype == np.float32:
            same |= np.isnan(have) & np.isnan(flat)
        if not same.all():
            at = int(np.argmin(same))
            return (
                f"{name}[{at}] is {have[at]!r}, expected {flat[at]!r}; {(~same).sum()} of {same.size} differ"
            )
    return ""


def cases(op: Op, flavours: Iterable[str] = FLAVOURS) -> Iterator[tuple[str, Inputs]]:
    """Every case of the registry in every flavour that makes a difference to the op."""
    for flavour in flavours:
        for sizes in op.cases:
            if "cols" in sizes and flavour not in MATRIX_FLAVOURS:
                continue
            yield f"{flavour} {sizes}", inputs(op, sizes, flavour)
