"""The model of an instruction set: facets, a parent to inherit from, and the targets it compiles for.

An ISA is a set of facets and a parent. A facet that an ISA leaves out is inherited; an operation is emitted for an
ISA if and only if that ISA defines a facet the operation needs. Fallback chains follow from that alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from krafla.codegen.dots import Dot, RowDot
from krafla.codegen.lanes import F16, F32, Block
from krafla.codegen.reduce import Reduce
from krafla.codegen.tiles import Tile

FACETS = ("f32", "reduce", "f16", "rowdot", "pack", "tile")


@dataclass(frozen=True)
class Target:
    """One way to compile an ISA: zig's target triple and CPU name.

    `fused` is the class of its multiply-add: one rounding (True) or two (False). `condition` is the C preprocessor
    condition that tells this target from the ISA's other ones; empty for an ISA with one target.
    """

    triple: str
    mcpu: str
    fused: bool
    condition: str = ""


@dataclass(frozen=True)
class Pack:
    """How packed weights are laid out and multiplied on this machine.

    `lanes` are the float words for exactly `dot.group` lanes, one row each; `f16` widens half scales on the fly, or
    is None where they are better widened once, while packing. `groups` is how many row groups a matvec of a
    `BlockDot` takes at once, so that their sums do not wait for each other and share the activations;
    `groups_condition` is the C preprocessor condition of the targets that have the registers for it, empty for all.
    `chains` is how many sums the scores of packed keys keep under way, to hide the latency of an inner product; 0:
    as many as the float tile has queries.
    """

    dot: Dot
    lanes: F32
    f16: F16 | None = None
    groups: int = 1
    groups_condition: str = ""
    chains: int = 0

    def score_tiles(self, page: int) -> tuple[Block, ...]:
        """Register tiles for a page of packed keys, most queries first and down to one."""
        chains, vectors = self.chains or self.lanes.block.queries, page // self.dot.group
        tiles = []
        for queries in Block(chains, 1).sizes:
            fitting = [n for n in range(1, chains // queries + 1) if vectors % n == 0]
            tiles.append(Block(queries, max(fitting)))
        return tuple(tiles)


@dataclass(frozen=True)
class Isa:
    """A machine: what it is called, what it can do, and how a CPU is checked for it.

    `features` are the CPU features that it adds to its parent's, by the names that the CPU check knows; `headers`
    are the C headers that its kernels include; `priority` orders the ISAs that one CPU can run, best last.
    """

    name: str
    parent: str | None
    doc: str
    family: str
    targets: tuple[Target, ...]
    priority: int
    headers: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    prefetch_distance: int | None = None
    f32: F32 | None = None
    reduce: Reduce | None = None
    f16: F16 | None = None
    rowdot: RowDot | None = None
    pack: Pack | None = None
    tile: Tile | None = None

    @property
    def own_facets(self) -> tuple[str, ...]:
        """The facets that this ISA defines itself."""
        return tuple(facet for facet in FACETS if getattr(self, facet) is not None)


@dataclass(frozen=True)
class Machine:
    """An ISA with everything it inherits filled in; `chain` runs from itself down to scalar."""

    isa: Isa
    chain: tuple[Isa, ...]
    f32: F32
    reduce: Reduce
    f16: F16
    rowdot: RowDot
    pack: Pack | None = None
    tile: Tile | None = None
    features: tuple[str, ...] = field(default=())
    prefetch_distance: int = 0

    @property
    def name(self) -> str:
        """The ISA's name."""
        return self.isa.name

    @property
    def fused(self) -> bool | None:
        """The class of its multiply-add; None if that depends on the target or, for scalar, on the build."""
        classes = {target.fused for target in self.isa.targets}
        return classes.pop() if len(classes) == 1 and self.isa.parent is not None else None

    def facets_of(self, wanted: frozenset[str]) -> list[str]:
        """Those of the wanted facets that this machine has, in order."""
        return [facet for facet in FACETS if facet in wanted and getattr(self, facet) is not None]

    def owner(self, facet: str) -> Isa:
        """The ISA in the chain that defines `facet`."""
        return next(isa for isa in self.chain if getattr(isa, facet) is not None)
