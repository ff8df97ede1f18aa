"""sse41: SSSE3's pmaddubsw and psignb (every CPU with SSE4.1 has them)."""

from krafla.codegen.dots_x86 import X86, MaddubsRow, MaddubsSign
from krafla.codegen.isa import Isa, Pack, Target
from krafla.codegen.tiles import VectorTile
from krafla.isa_specs.sse2 import F32_WORDS

ISA = Isa(
    name="sse41",
    parent="sse2",
    doc="Intel since Penryn (2008), AMD since Bulldozer and Jaguar (2011).",
    family="x86",
    priority=20,
    targets=(Target("x86_64-linux", "x86_64+ssse3+sse4_1", fused=False),),
    headers=("core/x86_common.h",),
    features=("SSSE3", "SSE41"),
    rowdot=MaddubsRow(X86(128)),
    pack=Pack(dot=MaddubsSign(X86(128)), lanes=F32_WORDS),
    tile=VectorTile(sizes=(4, 2, 1), groups=2),
)
