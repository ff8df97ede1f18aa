"""What this CPU can run: each ISA, the feature that it lacks if it lacks one, and the best of them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from krafla.runtime import compile as compiler
from krafla.runtime.isas import IsaFacts, isas
from krafla.tools.errors import IsaError, UsageError


@dataclass(frozen=True)
class HostIsa:
    """An ISA and why this CPU cannot run it; None if it can."""

    facts: IsaFacts
    missing: str | None

    @property
    def usable(self) -> bool:
        """Whether this CPU runs it."""
        return self.missing is None


def survey() -> tuple[HostIsa, ...]:
    """Every ISA as this CPU sees it, the plainest first."""
    probe = ctypes.CDLL(str(compiler.build(compiler.probe_plan())))
    probe.ml_cpu_has.argtypes = [ctypes.c_char_p]
    probe.ml_cpu_title.argtypes = [ctypes.c_char_p]
    probe.ml_cpu_title.restype = ctypes.c_char_p

    def missing(facts: IsaFacts) -> str | None:
        if facts.mcpu is None:
            return f"another CPU family ({facts.family})"
        for feature in facts.features:
            if probe.ml_cpu_has(feature.encode()):
                title = probe.ml_cpu_title(feature.encode())
                return title.decode() if title else feature
        return None

    return tuple(HostIsa(facts, missing(facts)) for facts in isas())


def choose(name: str | None = None) -> IsaFacts:
    """The ISA of that name, or the best that this CPU can run."""
    found = survey()
    if name is None:
        return max((isa.facts for isa in found if isa.usable), key=lambda facts: facts.priority)
    for isa in found:
        if isa.facts.name == name:
            if isa.missing:
                raise IsaError(f"this CPU cannot run {name}, which needs {isa.missing}")
            return isa.facts
    raise UsageError(f"--isa {name}: no such ISA, there are {', '.join(isa.facts.name for isa in found)}")
