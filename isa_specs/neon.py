"""neon: ARMv7 with NEON, and every AArch64 CPU. The two differ in FMA, division and half precision."""

from krafla.codegen.dots_arm import Mull, MullPairs, NeonRow
from krafla.codegen.isa import Isa, Pack, Target
from krafla.codegen.lanes import F16, F32, Block, StripLoop
from krafla.codegen.reduce import StripReduce
from krafla.codegen.tiles import VectorTile

F32_WORDS = F32(
    type="float32x4_t",
    lanes=4,
    loop=StripLoop(),
    load="vld1q_f32({p} + {i})",
    store="vst1q_f32({p} + {i}, {x})",
    set1="vdupq_n_f32({x})",
    add="vaddq_f32({a}, {b})",
    sub="vsubq_f32({a}, {b})",
    mul="vmulq_f32({a}, {b})",
    div="ml_div_neon({a}, {b})",
    max="vbslq_f32(vcgtq_f32({a}, {b}), {a}, {b})",
    min="vbslq_f32(vcltq_f32({a}, {b}), {a}, {b})",
    abs="vabsq_f32({x})",
    neg="vnegq_f32({x})",
    select_gt="vbslq_f32(vcgtq_f32({a}, {b}), {yes}, {no})",
    half_like="vbslq_f32(vdupq_n_u32(0x80000000u), {x}, vdupq_n_f32(0.5f))",
    pow2_of_rounded=(
        "vreinterpretq_f32_s32(vaddq_s32(vshlq_n_s32(vreinterpretq_s32_f32({x}), 23), vdupq_n_s32(0x3f800000)))"
    ),
    load_i8="ml_load_i8_neon({p} + {i})",
    store_i8="ml_store_i8_neon({p} + {i}, {x})",
    load_pairs="ml_load_pairs_neon({p} + 2 * {i}, &{a}, &{b})",
    store_pairs="ml_store_pairs_neon({p} + 2 * {i}, {a}, {b})",
    block=Block(queries=4, vectors=4, fewer=2, condition="defined(__aarch64__)"),
    fma="vfmaq_f32({c}, {a}, {b})",
    either="ml_madd_neon({a}, {b}, {c})",
)
F16_WORDS = F16(lanes=4, load="ml_load_f16_neon({p} + {i})")

ISA = Isa(
    name="neon",
    parent="scalar",
    doc="Every AArch64 CPU, and ARMv7 ones with NEON.",
    family="arm",
    priority=10,
    targets=(
        Target("arm-linux", "generic+v7a+neon+vfp3", fused=False, condition="!defined(__aarch64__)"),
        Target("aarch64-linux", "generic", fused=True, condition="defined(__aarch64__)"),
    ),
    headers=("core/arm_common.h",),
    features=("NEON",),
    f32=F32_WORDS,
    reduce=StripReduce(fold="ml_fold16_neon({p0}, {p1}, {p2}, {p3})", max_of_lanes="ml_max_neon({x})"),
    f16=F16_WORDS,
    rowdot=NeonRow(
        mac="ml_mul_i8_neon",
        note=(
            "vmull_s8 and vmlal_s8 add two products in 16 bits (at most 32258), vpadalq_s16 adds pairs of those to 32"
            " bits. Nibbles become signed bytes, nibble - 8."
        ),
    ),
    pack=Pack(dot=Mull(), lanes=F32_WORDS, groups=4, groups_condition="defined(__aarch64__)"),
    tile=VectorTile(sizes=(4, 2, 1), pairs=MullPairs()),
)
