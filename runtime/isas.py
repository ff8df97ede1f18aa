"""The ISAs that the generator knows, as the few facts that compiling and choosing need.

They come from the descriptors, whose import brings NumPy along; so that `krafla run` starts fast they are
kept in the cache as JSON, under a hash of everything they follow from.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from krafla.runtime import cache, zig
from krafla.runtime.paths import ROOT


@dataclass(frozen=True)
class IsaFacts:
    """What the runtime needs to know of an ISA on this machine's architecture."""

    name: str
    doc: str
    priority: int
    family: str
    mcpu: str | None  # None: not for this architecture
    features: tuple[str, ...]
    pack_group: int | None
    fused: bool  # multiply-add rounds once, not twice
    kernels: tuple[str, ...]  # the files below generated/ that supply its ops, its ancestors' among them


def isas() -> tuple[IsaFacts, ...]:
    """Every ISA, the plainest first."""
    path = cache.room("lib") / f"isas-{_digest()}.json"
    if not path.is_file():
        with cache.replacing(path) as temporary:
            temporary.write_text(json.dumps([asdict(facts) for facts in describe()]), encoding="utf-8")
    rows = json.loads(path.read_text(encoding="utf-8"))
    return tuple(IsaFacts(**{key: _frozen(value) for key, value in row.items()}) for row in rows)


def _frozen(value: object) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _digest() -> str:
    state = hashlib.sha256(zig.host_architecture().encode())
    for folder in ("codegen", "isa_specs"):
        for path in sorted((ROOT / folder).glob("*.py")):
            state.update(path.name.encode() + path.read_bytes())
    state.update(Path(__file__).read_bytes())
    return state.hexdigest()[:20]


def describe() -> list[IsaFacts]:
    """The facts, from the descriptors themselves."""
    from krafla.codegen.ops import OPS
    from krafla.codegen.registry import bind, load_isas, machines

    isas = load_isas()
    architecture = zig.host_architecture()
    rows = []
    for machine in machines().values():
        owners = ((op.name, bind(op, machine, isas)) for op in OPS)
        targets = [t for t in machine.isa.targets if t.triple.partition("-")[0] == architecture]
        plain = machine.isa.parent is None  # plain C is for every architecture
        rows.append(
            IsaFacts(
                name=machine.name,
                doc=machine.isa.doc,
                priority=machine.isa.priority,
                family=machine.isa.family,
                mcpu="baseline" if plain else next((t.mcpu for t in targets), None),
                features=machine.features,
                pack_group=machine.pack.dot.group if machine.pack else None,
                fused=not plain and any(t.fused for t in targets[:1]),
                kernels=tuple(f"{owner.name}/{op}.c" for op, owner in owners if owner),
            )
        )
    return rows
