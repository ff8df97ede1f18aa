"""avxvnni: vpdpbusd on 256-bit vectors, in VEX encoding."""

from krafla.codegen.dots_x86 import X86, DpbusdBias, DpbusdSignRow
from krafla.codegen.isa import Isa, Pack, Target
from krafla.codegen.tiles import VectorTile
from krafla.isa_specs.avx2 import F16_WORDS, F32_WORDS

ISA = Isa(
    name="avxvnni",
    parent="avx2",
    doc="Intel since Alder Lake (2021), AMD since Zen 5 (2024).",
    family="x86",
    priority=40,
    targets=(Target("x86_64-linux", "x86_64+avx2+fma+f16c+avxvnni", fused=True),),
    headers=("core/x86_common.h",),
    features=("AVXVNNI",),
    rowdot=DpbusdSignRow(X86(256), intrinsic="_mm256_dpbusd_avx_epi32"),
    pack=Pack(
        dot=DpbusdBias(X86(256), intrinsic="dpbusd_avx_epi32"), lanes=F32_WORDS, f16=F16_WORDS, chains=12
    ),
    tile=VectorTile(sizes=(6, 4, 2, 1), groups=2),
)
