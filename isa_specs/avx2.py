"""avx2: 256-bit integers, FMA and F16C."""

from krafla.codegen.dots_x86 import X86, MaddubsRow, MaddubsSign
from krafla.codegen.isa import Isa, Pack, Target
from krafla.codegen.lanes import F16, Block
from krafla.codegen.reduce import StripReduce
from krafla.codegen.tiles import VectorTile
from krafla.codegen.x86_words import x86_f32

F32_WORDS = x86_f32(
    256,
    block=Block(queries=6, vectors=2),
    fma="_mm256_fmadd_ps({a}, {b}, {c})",
    select_gt="_mm256_blendv_ps({no}, {yes}, _mm256_cmp_ps({a}, {b}, _CMP_GT_OQ))",
    pow2_of_rounded=(
        "_mm256_castsi256_ps(_mm256_add_epi32("
        "_mm256_slli_epi32(_mm256_castps_si256({x}), 23), _mm256_set1_epi32(0x3f800000)))"
    ),
)
F16_WORDS = F16(lanes=8, load="_mm256_cvtph_ps(_mm_loadu_si128((const void *)({p} + {i})))")

ISA = Isa(
    name="avx2",
    parent="sse41",
    doc="Intel since Haswell (2013), AMD since Zen (2017).",
    family="x86",
    priority=30,
    targets=(Target("x86_64-linux", "x86_64+avx2+fma+f16c", fused=True),),
    headers=("core/x86_common.h",),
    features=("AVX", "AVX2", "FMA", "F16C"),
    f32=F32_WORDS,
    reduce=StripReduce(fold="ml_fold16_256({p0}, {p1})", max_of_lanes="ml_max_256({x})"),
    f16=F16_WORDS,
    rowdot=MaddubsRow(X86(256)),
    pack=Pack(dot=MaddubsSign(X86(256)), lanes=F32_WORDS, f16=F16_WORDS),
    tile=VectorTile(sizes=(8, 4, 2, 1)),
)
