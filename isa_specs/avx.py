"""avx: 256-bit floats, without FMA; integers stay sse41's 128 bits wide."""

from dataclasses import replace

from krafla.codegen.isa import Isa, Target
from krafla.codegen.lanes import F16, Block
from krafla.codegen.reduce import StripReduce
from krafla.codegen.x86_words import x86_f32

# What needs 256-bit integers is done in two halves.
F32_WORDS = replace(
    x86_f32(
        256,
        block=Block(queries=4, vectors=2),
        select_gt="_mm256_blendv_ps({no}, {yes}, _mm256_cmp_ps({a}, {b}, _CMP_GT_OQ))",
        pow2_of_rounded="ml_pow2_of_rounded_avx({x})",
    ),
    load_i8="ml_load_i8_avx({p} + {i})",
    store_i8="ml_store_i8_avx({p} + {i}, {x})",
    load_pairs="ml_load_pairs_avx({p} + 2 * {i}, &{a}, &{b})",
)

ISA = Isa(
    name="avx",
    parent="sse41",
    doc="Intel Sandy Bridge and Ivy Bridge (2011), AMD Bulldozer and Jaguar.",
    family="x86",
    priority=25,
    targets=(Target("x86_64-linux", "x86_64+ssse3+sse4_1+avx", fused=False),),
    headers=("core/x86_common.h",),
    features=("AVX",),
    f32=F32_WORDS,
    reduce=StripReduce(fold="ml_fold16_256({p0}, {p1})", max_of_lanes="ml_max_256({x})"),
    f16=F16(lanes=8, load="ml_load_f16_avx({p} + {i})"),
)
