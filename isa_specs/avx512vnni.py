"""avx512vnni: vpdpbusd on 512-bit vectors.

The chain goes to avx2, not avxvnni: Cascade Lake and Ice Lake have this one but not the VEX encoding.
"""

from krafla.codegen.dots_x86 import X86, DpbusdBias, DpbusdSignRow
from krafla.codegen.isa import Isa, Pack, Target
from krafla.codegen.lanes import F16, Block
from krafla.codegen.reduce import StripReduce
from krafla.codegen.tiles import VectorTile
from krafla.codegen.x86_words import x86_f32

F32_WORDS = x86_f32(
    512,
    block=Block(queries=6, vectors=4),
    fma="_mm512_fmadd_ps({a}, {b}, {c})",
    select_gt="_mm512_mask_blend_ps(_mm512_cmp_ps_mask({a}, {b}, _CMP_GT_OQ), {no}, {yes})",
    pow2_of_rounded=(
        "_mm512_castsi512_ps(_mm512_add_epi32("
        "_mm512_slli_epi32(_mm512_castps_si512({x}), 23), _mm512_set1_epi32(0x3f800000)))"
    ),
)
F16_WORDS = F16(lanes=16, load="_mm512_cvtph_ps(_mm256_loadu_si256((const void *)({p} + {i})))")

ISA = Isa(
    name="avx512vnni",
    parent="avx2",
    doc="Intel servers since Cascade Lake (2019), AMD since Zen 4 (2022).",
    family="x86",
    priority=50,
    targets=(
        Target(
            "x86_64-linux", "x86_64+avx2+fma+f16c+avx512f+avx512bw+avx512dq+avx512vl+avx512vnni", fused=True
        ),
    ),
    headers=("core/x86_common.h",),
    features=("AVX512F", "AVX512BW", "AVX512DQ", "AVX512VL", "AVX512VNNI"),
    f32=F32_WORDS,
    reduce=StripReduce(fold="ml_fold16_512({p0})", max_of_lanes="ml_max_512({x})"),
    f16=F16_WORDS,
    rowdot=DpbusdSignRow(X86(256), intrinsic="_mm256_dpbusd_epi32"),
    pack=Pack(dot=DpbusdBias(X86(512)), lanes=F32_WORDS, f16=F16_WORDS, chains=12),
    tile=VectorTile(sizes=(12, 8, 4, 2, 1)),
)
