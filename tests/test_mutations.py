"""Wrong descriptors: each is rendered, compiled and run, and some kernel comparison must notice.

Weights are packed by the right descriptor, as a pack cache would hold them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from krafla.codegen import registry
from krafla.codegen.isa import Isa
from krafla.codegen.lanes import BlockBody, Body, Lanes, StripLoop
from krafla.codegen.ops import BY_NAME
from tests import kernels

ISAS = registry.load_isas()
VNNI = ("avxvnni", "avx512vnni")  # either carries the strategy; the first that this CPU has is used


@dataclass(frozen=True)
class Mutation:
    """One wrong descriptor; `caught_by` are the ops that must notice, `isas` the ones that can carry it."""

    name: str
    isas: tuple[str, ...]
    caught_by: tuple[str, ...]
    change: Callable[[Isa], Isa]


def facet(name: str, **changes: Any) -> Callable[[Isa], Isa]:
    """Replaces fields of one facet."""
    return lambda isa: replace(isa, **{name: replace(getattr(isa, name), **changes)})


def reworded(word: str, pattern: str, new: str) -> Callable[[Isa], Isa]:
    """Edits one word of the lane vocabulary, in f32 and in the lanes of packed kernels."""

    def change(isa: Isa) -> Isa:
        assert isa.f32 is not None
        words = replace(isa.f32, **{word: _edited(pattern, new, getattr(isa.f32, word))})
        pack = replace(isa.pack, lanes=words) if isa.pack is not None else None
        return replace(isa, f32=words, pack=pack)

    return change


def _edited(pattern: str, new: str, text: str) -> str:
    edited, count = re.subn(pattern, new, text)
    assert count, f"{pattern!r} is not in {text!r}"
    return edited


def miswritten(strategy: Any, **overrides: Any) -> Any:
    """The same strategy with a mistake: values replace attributes, pairs (pattern, new) edit a method's C."""
    values = {field.name: getattr(strategy, field.name) for field in fields(strategy)}
    members: dict[str, Any] = {}
    for name, override in overrides.items():
        if isinstance(override, tuple):
            members[name] = _rewritten(getattr(type(strategy), name), *override)
        elif name in values:
            values[name] = override
        else:
            members[name] = override
    return type(f"Wrong{type(strategy).__name__}", (type(strategy),), members)(**values)


def _rewritten(method: Callable[..., str], pattern: str, new: str) -> Callable[..., str]:
    return lambda self, *arguments: re.sub(pattern, new, method(self, *arguments), flags=re.DOTALL)


def dot(**overrides: Any) -> Callable[[Isa], Isa]:
    """Miswrites the packed dot strategy."""

    def change(isa: Isa) -> Isa:
        assert isa.pack is not None
        wrong = miswritten(isa.pack.dot, **overrides)
        pairs = isa.tile.pairs if isa.tile is not None and hasattr(isa.tile, "pairs") else None
        tile = replace(isa.tile, pairs=None) if pairs is not None else isa.tile  # type: ignore[type-var]
        return replace(isa, pack=replace(isa.pack, dot=wrong), tile=tile)

    return change


def rowdot(**overrides: Any) -> Callable[[Isa], Isa]:
    """Miswrites the row-major dot strategy."""
    return lambda isa: replace(isa, rowdot=miswritten(isa.rowdot, **overrides))


class NoTail(StripLoop):
    """Forgets what is left after the last whole vector."""

    def each(self, vector: Lanes, scalar: Lanes, i: str, n: str, body: Body) -> str:
        return super().each(vector, scalar, i, n, body).split(f"for (; {i} < {n}; {i}++)")[0]

    def blocks(self, vector: Lanes, scalar: Lanes, i: str, n: str, count: int, body: BlockBody) -> str:
        return super().blocks(vector, scalar, i, n, count, body).split(f"for (; {i} < {n}; {i}++)")[0]


class LoopsTwice(StripLoop):
    """Steps by half a vector."""

    def each(self, vector: Lanes, scalar: Lanes, i: str, n: str, body: Body) -> str:
        lanes = vector.words.lanes
        return super().each(vector, scalar, i, n, body).replace(f"{i} += {lanes}", f"{i} += {lanes // 2}")


CATALOGUE = (
    # Packed dot strategies.
    Mutation(
        "sign operands swapped",
        ("avx2", "sse41"),
        ("matvec_q8_pk",),
        dot(mac=(r"sign_epi8\((.*), w0\)", r"sign_epi8(w0, \1)")),
    ),
    Mutation(
        "unsigned and signed operand swapped",
        ("avx2", "sse41"),
        ("matvec_q8_pk",),
        dot(mac=(r"maddubs_epi16\(magnitude, (.*)\), ones", r"maddubs_epi16(\1, magnitude), ones")),
    ),
    Mutation("offset 127", VNNI, ("matvec_q8_pk",), dot(q8_offset=127)),
    Mutation("offset 127 for even and odd bytes", ("sse2",), ("matvec_q8_pk",), dot(q8_offset=127)),
    Mutation("nibbles offset by 7", ("avx2", "sse41"), ("matvec_q4_pk",), dot(q4_offset=7)),
    Mutation(
        "no correction by the sum of x",
        VNNI,
        ("matvec_q8_pk", "matvec_q4_pk"),
        dot(start=lambda self, kind, correction: self.x86.zero()),
    ),
    Mutation(
        "correction in only one int16 sum",
        ("avx2", "sse41"),
        ("matvec_q4_pk",),
        dot(finish=(r"set1_epi32\(xs\[", r"set1_epi16((short)xs[")),
    ),
    Mutation(
        "arithmetic instead of logical shift",
        ("sse2",),
        ("matvec_q8_pk", "matvec_q4_pk"),
        dot(w_load=(r"srli_epi16\(packed, (8|12)\)", r"srai_epi16(packed, \1)")),
    ),
    Mutation(
        "wrong pairs of activations",
        ("sse2",),
        ("matvec_q8_pk", "matvec_q4_pk"),
        dot(x_prepare=(r"source\[2\]", "source[1]")),
    ),
    Mutation(
        "nibble order swapped",
        ("avx2", "sse41"),
        ("matvec_q4_pk",),
        dot(mac=(r"maddubs_epi16\(w(\d)", lambda m: f"maddubs_epi16(w{1 - int(m[1])}")),
    ),
    Mutation(
        "no mask on low nibbles",
        ("avx2", "sse41"),
        ("matvec_q4_pk",),
        dot(w_load=(r"w0 = \w+\(packed, low_nibbles\)", "w0 = packed")),
    ),
    Mutation(
        "no mask on high nibbles",
        VNNI,
        ("matvec_q4_pk",),
        dot(w_load=(r"w1 = \w+\((_mm\w*_srli_epi16\(packed, 4\)), low_nibbles\)", r"w1 = \1")),
    ),
    Mutation(
        "shift by three",
        ("avx2", "sse41"),
        ("matvec_q4_pk",),
        dot(w_load=(r"srli_epi16\(packed, 4\)", "srli_epi16(packed, 3)")),
    ),
    Mutation("half a group", ("avx2",), ("matvec_q8_pk", "matvec_q4_pk"), dot(group=4)),
    Mutation(
        "every token reads the first one's activations",
        ("avx2", "sse41"),
        ("matmul_q8_pk", "matmul_q4_pk"),
        dot(mac=(r"\((x \+ step \* \d+|x \+ \(step \+ \d+\) \* \d+) \+ \d+\)", r"(\1)")),
    ),
    # Row-major dot strategies.
    Mutation(
        "row-major: no correction of nibbles", ("avx2", "sse41", "sse2"), ("matvec_q4",), rowdot(q4_offset=0)
    ),
    Mutation(
        "row-major: magnitudes of x",
        ("avx2", "sse41"),
        ("matvec_q8",),
        rowdot(block=(r"abs_epi8\((_mm\w*_loadu_\w+\(\([^()]*\)\([^()]*\)\))\)", r"abs_epi8(x0)")),
    ),
    # Sums.
    Mutation(
        "fold order",
        ("sse2",),
        ("rmsnorm",),
        facet("reduce", fold="ml_fold16_128({p0}, {p2}, {p1}, {p3})"),
    ),
    Mutation(
        "maximum of half the lanes",
        ("avx2",),
        ("quantize_q8",),
        facet("reduce", max_of_lanes="ml_max_128(_mm256_castps256_ps128({x}))"),
    ),
    # Words of the vocabulary.
    Mutation(
        "unfused instead of fused",
        ("avx2",),
        ("dot_f32", "axpy_f32", "rope", "rmsnorm", "silu_mul", "gelu_mul", "matvec_q8_pk"),
        reworded("fma", r"(?s)^.+$", "_mm256_add_ps(_mm256_mul_ps({a}, {b}), {c})"),
    ),
    Mutation(
        "fused instead of unfused",
        ("scalar",),
        ("dot_f32", "axpy_f32", "rope", "rmsnorm", "silu_mul", "gelu_mul"),
        reworded("either", r"(?s)^.+$", "fmaf({a}, {b}, {c})"),
    ),
    Mutation(
        "always rounds up",
        ("avx2",),
        ("quantize_q8",),
        reworded("half_like", r"(?s)^.+$", "_mm256_set1_ps(0.5f)"),
    ),
    Mutation(
        "rounds to even, not towards zero",
        ("scalar",),
        ("quantize_q8",),
        reworded("store_i8", r"\(int8_t\)\(\{x\}\)", "(int8_t)lrintf({x})"),
    ),
    Mutation(
        "operands of max swapped",
        ("avx2", "sse2"),
        ("quantize_q8",),
        reworded("max", r"\{a\}, \{b\}", "{b}, {a}"),
    ),
    Mutation(
        "exponent bias 126",
        ("avx2", "sse2"),
        ("silu_mul", "gelu_mul"),
        reworded("pow2_of_rounded", "0x3f800000", "0x3f000000"),
    ),
    Mutation(
        "alternatives swapped",
        ("avx2",),
        ("silu_mul", "softmax"),
        reworded("select_gt", r"\{no\}, \{yes\}", "{yes}, {no}"),
    ),
    Mutation(
        "even and odd swapped",
        ("avx2", "sse2"),
        ("rope",),
        reworded("load_pairs", r"&\{a\}, &\{b\}", "&{b}, &{a}"),
    ),
    Mutation(
        "int8 widened without sign",
        ("avx2",),
        ("axpy_q8",),
        reworded(
            "load_i8",
            r"(?s)^.+$",
            "_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)({p} + {i}))))",
        ),
    ),
    Mutation(
        "approximate division",
        ("avx2", "sse2"),
        ("silu_mul", "gelu_mul"),
        reworded("div", r"_mm(\d*)_div_ps\(\{a\}, \{b\}\)", r"_mm\1_mul_ps({a}, _mm\1_rcp_ps({b}))"),
    ),
    Mutation(
        "negation forgotten", ("avx2", "sse2"), ("rope", "silu_mul"), reworded("neg", r"(?s)^.+$", "{x}")
    ),
    Mutation("magnitude forgotten", ("avx2", "sse2"), ("quantize_q8",), reworded("abs", r"(?s)^.+$", "{x}")),
    # Loops.
    Mutation("tail dropped", ("avx2", "sse2"), ("add", "axpy_f32", "softmax"), facet("f32", loop=NoTail())),
    Mutation("strips overlap", ("avx2", "sse2"), ("add", "silu_mul"), facet("f32", loop=LoopsTwice())),
)


def runnable(mutation: Mutation) -> str:
    """The first of the mutation's ISAs that this CPU can run."""
    missing = {isa: kernels.missing_feature(isa) for isa in mutation.isas}
    for isa, feature in missing.items():
        if not feature:
            return isa
    pytest.skip(f"this CPU lacks {' and '.join(missing.values())}")


def catchers(isa: str, changed: Isa, ops: tuple[str, ...]) -> dict[str, str]:
    """The ops whose kernels differ from the reference, each with the first difference."""
    isas = {**ISAS, isa: changed}
    packed = any("_pk" in name for name in ops)
    tested = kernels.load(isa, isas=isas, ops=[*ops, "tile_q8"] if packed else ops)
    right = ISAS[isa].pack
    tested = replace(tested, layout=right.dot if right is not None else None)
    fused = registry.machines()[isa].fused or False
    found = {}
    for name in ops:
        op = BY_NAME[name]
        for label, given in kernels.cases(op):
            try:
                text = kernels.difference(
                    kernels.run(tested, op, given), kernels.expected(op, given, fused=fused)
                )
            except AssertionError as error:  # writes where it should not
                text = str(error)
            if text:
                found[name] = f"{label}: {text}"
                break
    return found


def test_the_catalogue_is_large_enough() -> None:
    assert len({mutation.name for mutation in CATALOGUE}) == len(CATALOGUE) >= 16


@pytest.mark.parametrize("mutation", CATALOGUE, ids=lambda mutation: mutation.name.replace(" ", "-"))
def test_mutation_is_killed(mutation: Mutation, record_property: Callable[[str, object], None]) -> None:
    isa = runnable(mutation)
    found = catchers(isa, mutation.change(ISAS[isa]), mutation.caught_by)
    record_property("caught_by", found)
    assert set(found) == set(mutation.caught_by), f"survives {set(mutation.caught_by) - set(found)}"


@pytest.mark.parametrize("isa", ["scalar", "sse2", "sse41", "avx2", "avxvnni"])
def test_right_descriptors_survive(isa: str) -> None:
    """The same path with nothing changed: what kills the mutants is the mutation."""
    if missing := kernels.missing_feature(isa):
        pytest.skip(f"this CPU lacks {missing}, which {isa} needs")
    ops = {name for mutation in CATALOGUE if isa in mutation.isas for name in mutation.caught_by}
    assert catchers(isa, replace(ISAS[isa], doc="the same"), tuple(sorted(ops))) == {}
