"""neon_dotprod: sdot, on every ARM application core since Cortex-A55 and A76."""

from krafla.codegen.dots_arm import NeonRow, Sdot
from krafla.codegen.isa import Isa, Pack, Target
from krafla.codegen.tiles import VectorTile
from krafla.isa_specs.neon import F16_WORDS, F32_WORDS

ISA = Isa(
    name="neon_dotprod",
    parent="neon",
    doc="Cortex-A55 and A75 (2017) and later, Neoverse N1, Apple since A13.",
    family="arm",
    priority=20,
    targets=(Target("aarch64-linux", "generic+v8_2a+dotprod", fused=True),),
    headers=("core/arm_common.h",),
    features=("DOTPROD",),
    rowdot=NeonRow(mac="vdotq_s32", note="sdot takes signed bytes. Nibbles become signed bytes, nibble - 8."),
    pack=Pack(dot=Sdot(), lanes=F32_WORDS, f16=F16_WORDS, groups=4),
    tile=VectorTile(sizes=(8, 4, 2, 1)),
)
