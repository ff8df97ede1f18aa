"""The op registry: every kernel declared once.

Headers, bindings, ctypes signatures, tests, benches and the kernel page of the docs are made from these
declarations. Shapes are Python expressions over the op's size arguments and, for packed data, over `group` (rows per
group), `x_bytes` (bytes of activations per block and token) and `tile` (tokens of the largest tile).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from krafla.codegen import reference
from krafla.codegen.isa import Machine

Role = Literal["in", "out", "inout", "size", "value"]
Sizes = dict[str, int]


@dataclass(frozen=True)
class Arg:
    """One C argument: type, name, role, element count (a shape expression), what its numbers are, and a sentence."""

    type: str
    name: str
    role: Role
    shape: str = ""
    data: str = ""
    doc: str = ""

    @property
    def declaration(self) -> str:
        """The argument as C writes it."""
        return f"{self.type}{'' if self.type.endswith('*') else ' '}{self.name}"

    def count(self, sizes: Sizes) -> int:
        """Elements of the array for these sizes."""
        return int(eval(self.shape, {"__builtins__": {}, "ceil": _ceil_div}, dict(sizes)))


@dataclass(frozen=True)
class Op:
    """One kernel. `needs` are the facets it is rendered from; `params` are constants of its template."""

    name: str
    doc: str
    args: tuple[Arg, ...]
    needs: frozenset[str]
    template: str
    cases: tuple[Sizes, ...]
    bench: tuple[Sizes, ...]
    flops: str
    bytes: str
    params: dict[str, str] = field(default_factory=dict)
    optional: bool = False
    prefers: frozenset[str] = frozenset()  # facets that it uses where the machine has them
    returns: str = "void"

    def symbol(self, isa: str) -> str:
        """The C name of this op's kernel for an ISA."""
        return f"ml_k_{self.name}_{isa}"

    def signature(self, isa: str) -> str:
        """The C declaration, without a semicolon."""
        arguments = ", ".join(arg.declaration for arg in self.args)
        return f"{self.returns} {self.symbol(isa)}({arguments})"

    @property
    def reference(self) -> Callable[..., Any]:
        """The NumPy reference of the same name."""
        function: Callable[..., Any] = getattr(reference, self.name)
        return function

    def available(self, machine: Machine) -> bool:
        """Whether the machine has all facets this op needs (only optional ops may be absent)."""
        if any(getattr(machine, facet) is None for facet in self.needs):
            return False
        if self.params.get("scale") != "f16":
            return True
        return machine.pack is not None and machine.pack.f16 is not None


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def _f(name: str, role: Role, shape: str, doc: str = "", data: str = "f32") -> Arg:
    return Arg("const float *" if role == "in" else "float *", name, role, shape, data, doc)


def _n(name: str, doc: str = "") -> Arg:
    return Arg("int", name, "size", doc=doc)


def _value(name: str, doc: str) -> Arg:
    return Arg("float", name, "value", data="f32", doc=doc)


_STRIDE = Arg("size_t", "stride", "size", doc="elements from one row to the next")

_X = (
    Arg("const int8_t *", "xq", "in", "cols", "quants", "activation quants"),
    Arg("const float *", "xd", "in", "cols // 32", "scales", "activation scales"),
    Arg("const int32_t *", "xs", "in", "cols // 32", "sums", "sum of each block's quants"),
)
_ROWS = (
    _n("cols", "a multiple of 32"),
    _n("r0", "first row; a multiple of the pack group in packed kernels"),
    _n("r1", "one past the last row"),
)


def _row_matvec(kind: str) -> Op:
    weights = ("const int8_t *", "rows * cols") if kind == "q8" else ("const uint8_t *", "rows * cols // 2")
    return Op(
        name=f"matvec_{kind}",
        doc=f"y[r0..r1) = W x for row-major {kind.upper()}_0 weights and Q8_0 activations.",
        args=(
            _f("y", "out", "rows", "indexed by absolute row"),
            Arg(weights[0], "wq", "in", weights[1], f"{kind} quants", "the whole matrix, row by row"),
            Arg("const float *", "wd", "in", "rows * cols // 32", "scales", "one scale per block"),
            *_X,
            *_ROWS,
        ),
        needs=frozenset({"rowdot"}),
        template="matvec.c.j2",
        params={"kind": kind},
        cases=(
            {"rows": 1, "cols": 32, "r0": 0, "r1": 1},
            {"rows": 7, "cols": 96, "r0": 0, "r1": 7},
            {"rows": 33, "cols": 288, "r0": 5, "r1": 30},
            {"rows": 16, "cols": 1024, "r0": 0, "r1": 16},
        ),
        bench=({"rows": 2048, "cols": 2048, "r0": 0, "r1": 2048},),
        flops="2 * rows * cols",
        bytes=f"rows * cols * {'36 // 32' if kind == 'q8' else '20 // 32'}",
    )


_PACK_CASES: tuple[Sizes, ...] = (
    {"rows": 1, "cols": 32, "r0": 0, "r1": 1},
    {"rows": 16, "cols": 96, "r0": 0, "r1": 16},
    {"rows": 35, "cols": 288, "r0": 16, "r1": 35},
    {"rows": 64, "cols": 1024, "r0": 0, "r1": 64},
)


def _packed_weights(kind: str, scale: str) -> tuple[Arg, Arg]:
    bytes_per_block = 32 if kind == "q8" else 16
    groups = "ceil(rows, group) * group * (cols // 32)"
    return (
        Arg(
            "const uint8_t *", "wq", "in", f"{groups} * {bytes_per_block}", f"packed {kind}", "packed quants"
        ),
        Arg(
            "const float *" if scale == "f32" else "const uint16_t *",
            "wd",
            "in",
            groups,
            f"packed scales {scale}",
            "packed scales",
        ),
    )


def _packed_x(tokens: str) -> tuple[Arg, Arg, Arg]:
    return (
        Arg(
            "const int8_t *", "xt", "in", f"{tokens} * (cols // 32) * x_bytes", "tiled quants", "from tile_q8"
        ),
        Arg("const float *", "xd", "in", f"{tokens} * (cols // 32)", "tiled scales", "from tile_q8"),
        Arg(
            "const int32_t *", "xs", "in", f"{tokens} * (cols // 32) * 2", "tiled corrections", "from tile_q8"
        ),
    )


def _packed_bytes(kind: str, scale: str) -> str:
    quants = 32 if kind == "q8" else 16
    return f"rows * cols * {quants + (4 if scale == 'f32' else 2)} // 32"


def _packed_matvec(kind: str, scale: str) -> Op:
    return Op(
        name=f"matvec_{kind}_pk" + ("_f16" if scale == "f16" else ""),
        doc=f"y[r0..r1) = W x for packed {kind.upper()}_0 weights with {scale} scales.",
        args=(
            _f("y", "out", "rows", "indexed by absolute row"),
            *_packed_weights(kind, scale),
            *_packed_x("1"),
            *_ROWS,
        ),
        needs=frozenset({"pack"}),
        template="matvec_pk.c.j2",
        params={"kind": kind, "scale": scale},
        optional=True,
        cases=_PACK_CASES,
        bench=({"rows": 2048, "cols": 2048, "r0": 0, "r1": 2048},),
        flops="2 * rows * cols",
        bytes=_packed_bytes(kind, scale),
    )


def _packed_matmul(kind: str, scale: str) -> Op:
    tokens = (1, 2, 3, 5, 13, 31)
    return Op(
        name=f"matmul_{kind}_pk" + ("_f16" if scale == "f16" else ""),
        doc=f"y[token][r0..r1) = W x[token] for packed {kind.upper()}_0 weights with {scale} scales.",
        args=(
            _f("y", "out", "(tokens - 1) * y_stride + rows", "token after token"),
            Arg("size_t", "y_stride", "size", doc="floats from one token's outputs to the next"),
            *_packed_weights(kind, scale),
            *_packed_x("ceil(tokens, tile) * tile"),
            _ROWS[0],
            _n("tokens", "at least 1"),
            *_ROWS[1:],
        ),
        needs=frozenset({"pack", "tile"}),
        template="matmul_pk.c.j2",
        params={"kind": kind, "scale": scale},
        optional=True,
        cases=tuple(
            {**case, "tokens": t, "y_stride": case["rows"] + 3}
            for case, t in zip(_PACK_CASES * 2, tokens, strict=False)
        ),
        bench=({"rows": 2048, "cols": 2048, "r0": 0, "r1": 2048, "tokens": 128, "y_stride": 2048},),
        flops="2 * rows * cols * tokens",
        bytes=_packed_bytes(kind, scale),
    )


_TILE = Op(
    name="tile_q8",
    doc="Arranges quantized activations of some tokens as this ISA's packed kernels read them.",
    args=(
        Arg("int8_t *", "xt", "out", "ceil(tokens, tile) * tile * (cols // 32) * x_bytes", "tiled quants"),
        Arg("float *", "xdt", "out", "ceil(tokens, tile) * tile * (cols // 32)", "tiled scales"),
        Arg(
            "int32_t *",
            "xst",
            "out",
            "ceil(tokens, tile) * tile * (cols // 32) * 2",
            "tiled corrections",
            "per block: -offset * sum for Q8 weights of every token, then for Q4 weights",
        ),
        Arg("const int8_t *", "xq", "in", "tokens * cols", "quants", "token after token"),
        Arg("const float *", "xd", "in", "tokens * (cols // 32)", "scales"),
        Arg("const int32_t *", "xs", "in", "tokens * (cols // 32)", "sums"),
        _n("cols", "a multiple of 32"),
        _n("tokens", "at least 1; exactly 1 gives what the packed matvecs read"),
    ),
    needs=frozenset({"pack", "tile"}),
    template="tile_q8.c.j2",
    optional=True,
    cases=({"cols": 32, "tokens": 1}, {"cols": 96, "tokens": 3}, {"cols": 288, "tokens": 29}),
    bench=({"cols": 2048, "tokens": 128},),
    flops="0",
    bytes="2 * cols * tokens",
)

_VECTOR_SIZES = (1, 4, 15, 16, 31, 32, 33, 100, 1025)
_VECTOR_CASES: tuple[Sizes, ...] = tuple({"n": n} for n in _VECTOR_SIZES)
PAGE = 64  # positions per page of the KV cache: ML_PAGE of core/ml.h

_SCORE_CASES: tuple[Sizes, ...] = tuple(
    {"queries": queries, "n": n, "s_stride": PAGE + pad, "q_stride": n + pad}
    for queries, n, pad in ((1, 2, 0), (3, 16, 5), (6, 64, 64), (13, 80, 0), (4, 128, 1), (2, 34, 3))
)
_Q8_SCORE_CASES: tuple[Sizes, ...] = tuple(
    {"queries": queries, "n": n, "s_stride": PAGE + pad}
    for queries, n, pad in ((1, 32, 0), (3, 64, 5), (6, 64, 64), (13, 96, 0), (4, 128, 1))
)
_WEIGH_CASES: tuple[Sizes, ...] = tuple(
    {"queries": queries, "rows": rows, "n": n, "y_stride": n + pad, "p_stride": rows + pad}
    for queries, rows, n, pad in (
        (1, 1, 2, 0),
        (3, 5, 16, 5),
        (6, 64, 64, 64),
        (13, 64, 80, 0),
        (4, 7, 128, 1),
        (2, 9, 34, 3),
    )
)


def _elementwise(name: str, doc: str, target: str, flops: int) -> Op:
    other = "x" if target == "y" else "u"
    return Op(
        name=name,
        doc=doc,
        args=(_f(target, "inout", "n"), _f(other, "in", "n"), _n("n")),
        needs=frozenset({"f32"}),
        template=f"{name}.c.j2",
        cases=_VECTOR_CASES,
        bench=({"n": 8192},),
        flops=f"{flops} * n",
        bytes="12 * n",
    )


_QUERIES = _n("queries", "at least 1")


def _float_keys(element: str, data: str) -> tuple[Arg, ...]:
    return (
        _f("q", "in", "(queries - 1) * q_stride + n"),
        Arg("size_t", "q_stride", "size", doc="floats from one query to the next"),
        _QUERIES,
        Arg(
            f"const {element} *",
            "k",
            "in",
            f"{PAGE} * n",
            data,
            "the page's keys, dimension after dimension: a lane owns a position",
        ),
    )


def _q8_keys() -> tuple[Arg, ...]:
    return (
        Arg(
            "const int8_t *", "xt", "in", "queries * (n // 32) * x_bytes", "tiled quants", "each from tile_q8"
        ),
        _f("dq", "in", "queries", "one scale per query", "scales"),
        Arg(
            "const int32_t *", "xs", "in", "queries", "corrections", "sum of each query's corrections for Q8"
        ),
        _QUERIES,
        Arg(
            "const uint8_t *",
            "k",
            "in",
            f"{PAGE} * n",
            "packed keys",
            "positions packed like rows of weights",
        ),
        _f("dk", "in", f"{PAGE}", "one scale per position", "scales"),
    )


def _attention(cache: str) -> tuple[Op, Op]:
    """The two ops over a page of a KV cache of one type, for the queries that share it."""
    element = {"f32": "float", "f16": "uint16_t", "q8": "int8_t"}[cache]
    size = {"f32": 4, "f16": 2, "q8": 1}[cache]
    data = {"f32": "f32", "f16": "f16", "q8": "quants"}[cache]
    scaled = cache == "q8"
    lanes = frozenset({"f32", "f16"} if cache == "f16" else {"f32"})
    scores = Op(
        name=f"dot_{cache}",
        doc=f"Scores s[query][position] = q[query] . k[position] over one page of {cache} keys.",
        args=(
            _f("s", "out", f"(queries - 1) * s_stride + {PAGE}", "scores of the whole page"),
            Arg("size_t", "s_stride", "size", doc="floats from one query's scores to the next"),
            *(_q8_keys() if scaled else _float_keys(element, data)),
            _n("n", "head dimension; for q8 keys a multiple of 32, the rest filled up with zeros"),
        ),
        needs=lanes,
        prefers=frozenset({"pack"}) if scaled else frozenset(),
        template="dot_q8.c.j2" if scaled else "dot.c.j2",
        params={"cache": cache},
        cases=_Q8_SCORE_CASES if scaled else _SCORE_CASES,
        bench=({"queries": 6, "n": 64, "s_stride": PAGE, **({} if scaled else {"q_stride": 64})},),
        flops=f"2 * {PAGE} * n * queries",
        bytes=f"{size} * {PAGE} * n",
    )
    weighted_sum = Op(
        name=f"axpy_{cache}",
        doc=f"Weighted sums y[query] += p[query][t] v[t] over rows of {cache} values, in increasing t.",
        args=(
            _f("y", "inout", "(queries - 1) * y_stride + n"),
            Arg("size_t", "y_stride", "size", doc="floats from one query's sum to the next"),
            _f(
                "p",
                "in",
                "(queries - 1) * p_stride + rows",
                "weights" + (", each times its position's scale" if scaled else ""),
            ),
            Arg("size_t", "p_stride", "size", doc="floats from one query's weights to the next"),
            _QUERIES,
            Arg(f"const {element} *", "v", "in", "rows * n", data, "position after position"),
            _n("rows"),
            _n("n", "head dimension"),
        ),
        needs=lanes,
        template="axpy.c.j2",
        params={"cache": cache},
        cases=_WEIGH_CASES,
        bench=({"queries": 6, "rows": PAGE, "n": 64, "y_stride": 64, "p_stride": PAGE},),
        flops="2 * rows * n * queries",
        bytes=f"{size} * rows * n",
    )
    return scores, weighted_sum


def _widen(cache: str) -> Op:
    """A page's elements as floats, for work that reads them more often than once."""
    element, data, size = {"f16": ("uint16_t", "f16", 2), "q8": ("int8_t", "quants", 1)}[cache]
    return Op(
        name=f"widen_{cache}",
        doc=f"o = the {cache} elements x as floats, exactly; scales are not applied.",
        args=(
            _f("o", "out", "n"),
            Arg(f"const {element} *", "x", "in", "n", data),
            _n("n"),
        ),
        needs=frozenset({"f32", "f16"} if cache == "f16" else {"f32"}),
        template="widen.c.j2",
        params={"cache": cache},
        cases=_VECTOR_CASES,
        bench=({"n": 4096},),
        flops="n",
        bytes=f"{size + 4} * n",
    )


OPS: tuple[Op, ...] = (
    _row_matvec("q8"),
    _row_matvec("q4"),
    *(_packed_matvec(kind, scale) for kind in ("q8", "q4") for scale in ("f32", "f16")),
    *(_packed_matmul(kind, scale) for kind in ("q8", "q4") for scale in ("f32", "f16")),
    _TILE,
    Op(
        name="quantize_q8",
        doc="Q8_0 activations: blocks of 32 with one scale, by the rule of the file format.",
        args=(
            Arg("int8_t *", "q", "out", "n", "quants", "in [-127, 127]"),
            Arg("float *", "d", "out", "n // 32", "scales"),
            Arg("int32_t *", "s", "out", "n // 32", "sums", "sum of each block's quants"),
            _f("x", "in", "n"),
            _n("n", "a multiple of 32"),
        ),
        needs=frozenset({"f32", "reduce"}),
        template="quantize_q8.c.j2",
        cases=({"n": 32}, {"n": 96}, {"n": 2048}),
        bench=({"n": 2048},),
        flops="4 * n",
        bytes="5 * n",
    ),
    Op(
        name="rmsnorm",
        doc="o = x / sqrt(mean(x^2) + eps) * w.",
        args=(
            _f("o", "out", "n", "may be x"),
            _f("x", "in", "n"),
            _f("w", "in", "n"),
            _n("n"),
            _value("eps", "added to the mean square"),
        ),
        needs=frozenset({"f32", "reduce"}),
        template="rmsnorm.c.j2",
        cases=_VECTOR_CASES,
        bench=({"n": 2048},),
        flops="4 * n",
        bytes="12 * n",
    ),
    Op(
        name="softmax",
        doc="x = exp(x - max) / sum, in place; 1/n everywhere if every x is -inf.",
        args=(_f("x", "inout", "n"), _n("n")),
        needs=frozenset({"f32", "reduce"}),
        template="softmax.c.j2",
        cases=_VECTOR_CASES,
        bench=({"n": 1024},),
        flops="20 * n",
        bytes="8 * n",
    ),
    _elementwise("silu_mul", "g = g / (1 + exp(-g)) * u.", "g", 20),
    _elementwise("gelu_mul", "g = gelu(g) * u, with the tanh approximation.", "g", 25),
    _elementwise("add", "y += x.", "y", 1),
    Op(
        name="rope",
        doc="Rotates interleaved pairs of the first rot_dim dimensions of every query and key head.",
        args=(
            _f("q", "inout", "n_heads * head_dim"),
            _f("k", "inout", "n_kv_heads * head_dim"),
            _f("cos_t", "in", "rot_dim // 2", "this position's row of the table"),
            _f("sin_t", "in", "rot_dim // 2"),
            _n("head_dim"),
            _n("rot_dim", "even, at most head_dim"),
            _n("n_heads"),
            _n("n_kv_heads"),
        ),
        needs=frozenset({"f32"}),
        template="rope.c.j2",
        cases=tuple(
            {"head_dim": d, "rot_dim": r, "n_heads": h, "n_kv_heads": k}
            for d, r, h, k in ((2, 2, 1, 1), (16, 16, 3, 1), (64, 64, 9, 3), (80, 80, 2, 2), (128, 32, 4, 1))
        ),
        bench=({"head_dim": 64, "rot_dim": 64, "n_heads": 32, "n_kv_heads": 8},),
        flops="3 * (n_heads + n_kv_heads) * rot_dim",
        bytes="8 * (n_heads + n_kv_heads) * rot_dim",
    ),
    *_attention("f32"),
    *_attention("f16"),
    *_attention("q8"),
    _widen("f16"),
    _widen("q8"),
)

BY_NAME = {op.name: op for op in OPS}
