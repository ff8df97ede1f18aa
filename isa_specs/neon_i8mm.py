"""neon_i8mm: smmla for prefill, on neon_dotprod's packed layout and cache file."""

from krafla.codegen.dots_arm import Smmla
from krafla.codegen.isa import Isa, Target
from krafla.codegen.tiles import VectorTile

ISA = Isa(
    name="neon_i8mm",
    parent="neon_dotprod",
    doc="Cortex-A510 and A710 (2021) and later, Neoverse V1 and N2, Apple since A15.",
    family="arm",
    priority=40,
    targets=(Target("aarch64-linux", "generic+v8_2a+dotprod+i8mm", fused=True),),
    headers=("core/arm_common.h",),
    features=("I8MM",),
    tile=VectorTile(sizes=(12, 8, 4, 2, 1), pairs=Smmla()),
)
