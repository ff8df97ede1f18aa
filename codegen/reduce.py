"""Sums in the canonical order: element i goes to partial i mod 16, partials are folded by halves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from krafla.codegen.lanes import Lanes

# The body of a reduction: lanes, name of the running partial, index expression -> the partial's next value.
Step = Callable[[Lanes, str, str], str]


class Reduce(Protocol):
    """How a machine adds up or compares n values."""

    def fold16(self, vector: Lanes, scalar: Lanes, result: str, i: str, n: str, step: Step) -> str:
        """C code that declares float `result` as the folded sum."""

    def maximum(
        self, vector: Lanes, scalar: Lanes, result: str, i: str, n: str, start: str, step: Step
    ) -> str:
        """C code that declares float `result` as the maximum, NaN passed over."""


@dataclass(frozen=True)
class ScalarReduce:
    """The sixteen partials in an array: the definition itself."""

    def fold16(self, vector: Lanes, scalar: Lanes, result: str, i: str, n: str, step: Step) -> str:
        """Partials in memory, folded by ml_fold16."""
        return (
            f"float partial[16] = {{0}};\n"
            f"for (int {i} = 0; {i} < {n}; {i}++) {{\n"
            f"partial[{i} & 15] = {_clean(step(vector, f'partial[{i} & 15]', i))};\n}}\n"
            f"float {result} = ml_fold16(partial);"
        )

    def maximum(
        self, vector: Lanes, scalar: Lanes, result: str, i: str, n: str, start: str, step: Step
    ) -> str:
        """One comparison after the other."""
        value = _clean(step(vector, result, i))
        return (
            f"float {result} = {start};\n"
            f"for (int {i} = 0; {i} < {n}; {i}++) {{\n{result} = {vector.max(value, result)};\n}}"
        )


@dataclass(frozen=True)
class StripReduce:
    """The sixteen partials in registers; `fold` is a C expression over {p0}, {p1}, ..."""

    fold: str
    max_of_lanes: str  # the largest lane of {x}, as a float

    def fold16(self, vector: Lanes, scalar: Lanes, result: str, i: str, n: str, step: Step) -> str:
        """Strips of sixteen in registers; a tail that is no multiple of sixteen is added in memory."""
        lanes = vector.words.lanes
        names = [f"p{k}" for k in range(16 // lanes)]
        lines = [f"{vector.type} {name} = {vector.set1('0.0f')};" for name in names]
        lines += [f"int {i} = 0;", f"for (; {i} + 16 <= {n}; {i} += 16) {{"]
        for k, name in enumerate(names):
            index = f"{i} + {k * lanes}" if k else i
            lines.append(f"{name} = {_clean(step(vector, name, index))};")
        lines += ["}", f"float {result};", f"if ({i} == {n}) {{"]
        lines.append(f"{result} = {self.fold.format(**{name: name for name in names})};")
        lines += ["} else {", "float partial[16];"]
        lines += [vector.store("partial", str(k * lanes), name) for k, name in enumerate(names)]
        lines += [
            f"for (; {i} < {n}; {i}++)",
            f"partial[{i} & 15] = {_clean(step(scalar, f'partial[{i} & 15]', i))};",
            f"{result} = ml_fold16(partial);",
            "}",
        ]
        return "\n".join(lines)

    def maximum(
        self, vector: Lanes, scalar: Lanes, result: str, i: str, n: str, start: str, step: Step
    ) -> str:
        """A vector of maxima, then its largest lane; the order does not change a maximum."""
        lanes, chains = vector.words.lanes, 4
        best = [f"{result}_lanes{k}" for k in range(chains)]
        lines = [f"{vector.type} {name} = {vector.set1(start)};" for name in best]
        lines += [
            f"int {i} = 0;",
            f"for (; {i} + {chains * lanes} <= {n}; {i} += {chains * lanes}) {{ /* in turn, to hide the latency */",
            *(
                f"{name} = {vector.max(_clean(step(vector, name, f'{i} + {k * lanes}' if k else i)), name)};"
                for k, name in enumerate(best)
            ),
            "}",
            f"for (; {i} + {lanes} <= {n}; {i} += {lanes})",
            f"{best[0]} = {vector.max(_clean(step(vector, best[0], i)), best[0])};",
        ]
        lines += [f"{best[k]} = {vector.max(best[k], best[k + 2])};" for k in (0, 1)]
        lines += [f"{best[0]} = {vector.max(best[0], best[1])};"]
        lines += [f"float {result} = {self.max_of_lanes.format(x=best[0])};"]
        if not (n.isdigit() and int(n) % lanes == 0):
            lines += [
                f"for (; {i} < {n}; {i}++) {{",
                f"float value = {_clean(step(scalar, result, i))};",
                f"{result} = {scalar.max('value', result)};",
                "}",
            ]
        return "\n".join(lines)


@dataclass(frozen=True)
class PredicatedReduce:
    """The sixteen partials in memory, updated by vectors of any length under a predicate `pg`."""

    partials: str  # C expression: partials that one vector holds, at most sixteen
    lanes: str  # C expression: lanes of a vector
    type: str
    predicate: str  # C expression: the predicate for {i} < {n}
    max_of_lanes: str  # the largest lane of {x}, as a float

    def fold16(self, vector: Lanes, scalar: Lanes, result: str, i: str, n: str, step: Step) -> str:
        """Sixteen elements a turn, the last ones under a shorter predicate; a fold in memory."""
        body = _clean(step(vector, vector.load("partial", "j"), f"{i} + j"))
        return "\n".join(
            [
                "float partial[16] = {0};",
                f"for (int {i} = 0; {i} < {n}; {i} += 16) {{",
                f"const int count = {n} - {i} < 16 ? {n} - {i} : 16;",
                f"for (int j = 0; j < count; j += {self.partials}) {{",
                f"const {self.type} pg = {self.predicate.format(i='j', n='count')};",
                vector.store("partial", "j", body),
                "}",
                "}",
                f"float {result} = ml_fold16(partial);",
            ]
        )

    def maximum(
        self, vector: Lanes, scalar: Lanes, result: str, i: str, n: str, start: str, step: Step
    ) -> str:
        """Lanes beyond the predicate keep their maximum."""
        best = f"{result}_lanes"
        return "\n".join(
            [
                f"{vector.type} {best} = {vector.set1(start)};",
                f"for (int {i} = 0; {i} < {n}; {i} += {self.lanes}) {{",
                f"const {self.type} pg = {self.predicate.format(i=i, n=n)};",
                f"{best} = {vector.max(_clean(step(vector, best, i)), best)};",
                "}",
                f"float {result} = {self.max_of_lanes.format(x=best)};",
            ]
        )


@dataclass(frozen=True)
class SetLengthReduce:
    """The sixteen partials in memory, updated by one vector of sixteen or, at the end, fewer lanes."""

    set_length: str  # C expression: elements taken of {rest}; sixteen are always taken at once
    max_with: str  # C expression: the larger of float {result} and the lanes of {x}, NaN passed over

    def fold16(self, vector: Lanes, scalar: Lanes, result: str, i: str, n: str, step: Step) -> str:
        """Sixteen elements a turn; a fold in memory."""
        body = _clean(step(vector, vector.load("partial"), i))
        return "\n".join(
            [
                "float partial[16] = {0};",
                f"for (int {i} = 0; {i} < {n}; {i} += 16) {{",
                f"const size_t vl = {self.set_length.format(rest=f'{n} - {i} < 16 ? {n} - {i} : 16')};",
                vector.store("partial", "0", body),
                "}",
                f"float {result} = ml_fold16(partial);",
            ]
        )

    def maximum(
        self, vector: Lanes, scalar: Lanes, result: str, i: str, n: str, start: str, step: Step
    ) -> str:
        """The running maximum is a scalar."""
        value = _clean(step(vector, result, i))
        return "\n".join(
            [
                f"float {result} = {start};",
                f"for (int {i} = 0; {i} < {n};) {{",
                f"const size_t vl = {self.set_length.format(rest=f'{n} - {i}')};",
                f"{result} = {self.max_with.format(result=result, x=value)};",
                f"{i} += (int)vl;",
                "}",
            ]
        )


class Reductions:
    """The `reduce` object of the templates."""

    def __init__(self, strategy: Reduce, vector: Lanes, scalar: Lanes) -> None:
        self._strategy = strategy
        self._vector = vector
        self._scalar = scalar

    def fold16(self, result: str, i: str, n: str, caller: Step) -> str:
        """Declares float `result`: the sum of n terms; the call block gives a partial's next value."""
        return self._strategy.fold16(self._vector, self._scalar, result, i, n, caller)

    def maximum(self, result: str, i: str, n: str, start: str, caller: Step) -> str:
        """Declares float `result`: the maximum of n values, at least `start`; the call block gives a value."""
        return self._strategy.maximum(self._vector, self._scalar, result, i, n, start, caller)


def _clean(text: str) -> str:
    return " ".join(text.split())
