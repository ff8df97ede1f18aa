"""Builds what the tests of cross builds look at, ahead of them: `nice python -m tests.prebuild &` before the tests."""

from __future__ import annotations

from krafla.runtime import crossbuild
from krafla.runtime.targets import platform, variant
from krafla.runtime.verify import MACHINES, REFUSALS
from tests import conftest, cross

assert conftest  # imported for the cache that it sets: the tests' own


def builds() -> list[crossbuild.Build]:
    """One for each machine that can be emulated here and each file that is disassembled."""
    machines = [
        machine for machine in (*MACHINES, *(refusal.machine for refusal in REFUSALS)) if machine.emulator
    ]
    found = [(m.target, m.isa, cross.PRODUCTS) for m in machines if (m.target, m.isa) in cross.QUICK]
    found += [(target, isa, cross.products(target)) for target, isa in cross.DISASSEMBLED]
    return [
        crossbuild.plan(variant(platform(target), isa), crossbuild.Settings(products=products))
        for target, isa, products in dict.fromkeys(found)
    ]


if __name__ == "__main__":
    crossbuild.run(builds())
