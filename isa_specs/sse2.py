"""sse2: every x86-64 CPU. No byte multiply, no FMA, no half precision."""

from krafla.codegen.dots_pairs import EvenOddPairs, PairRow, PairWords
from krafla.codegen.isa import Isa, Pack, Target
from krafla.codegen.lanes import F16, Block
from krafla.codegen.reduce import StripReduce
from krafla.codegen.tiles import VectorTile
from krafla.codegen.x86_words import x86_f32

F32_WORDS = x86_f32(
    128,
    block=Block(queries=4, vectors=2),
    select_gt="ml_select_128(_mm_cmpgt_ps({a}, {b}), {yes}, {no})",
    pow2_of_rounded=(
        "_mm_castsi128_ps(_mm_add_epi32(_mm_slli_epi32(_mm_castps_si128({x}), 23), _mm_set1_epi32(0x3f800000)))"
    ),
)

PAIR_WORDS = PairWords(
    type="__m128i",
    suffix="128",
    load="_mm_loadu_si128((const void *)({p}))",
    store="_mm_storeu_si128((void *)({p}), {x})",
    zero="_mm_setzero_si128()",
    splat8="_mm_set1_epi8({x})",
    splat16="_mm_set1_epi16({x})",
    splat32="_mm_set1_epi32({x})",
    both="_mm_and_si128({a}, {b})",
    shift_right16="_mm_srli_epi16({x}, {n})",
    multiply_pairs="_mm_madd_epi16({a}, {b})",
    add32="_mm_add_epi32({a}, {b})",
    to_f32="_mm_cvtepi32_ps({x})",
)

ISA = Isa(
    name="sse2",
    parent="scalar",
    doc="Every x86-64 CPU, and 32-bit ones since the Pentium 4.",
    family="x86",
    priority=10,
    targets=(Target("x86_64-linux", "x86_64", fused=False), Target("x86-linux", "pentium4", fused=False)),
    headers=("core/x86_common.h",),
    features=("SSE2",),
    prefetch_distance=8192,
    f32=F32_WORDS,
    reduce=StripReduce(fold="ml_fold16_128({p0}, {p1}, {p2}, {p3})", max_of_lanes="ml_max_128({x})"),
    f16=F16(lanes=4, load="ml_load_f16_128({p} + {i})"),
    rowdot=PairRow(PAIR_WORDS),
    pack=Pack(dot=EvenOddPairs(PAIR_WORDS), lanes=F32_WORDS),
    tile=VectorTile(sizes=(4, 2, 1)),
)
