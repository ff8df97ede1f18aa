"""sve: vectors of any length from 128 to 2048 bits; packed kernels stay neon_dotprod's."""

from krafla.codegen.dots_arm import SveRow
from krafla.codegen.isa import Isa, Target
from krafla.codegen.lanes import F16, F32, Block, PredicatedLoop
from krafla.codegen.reduce import PredicatedReduce

_PREDICATE = "svwhilelt_b32_s32({i}, {n})"

F32_WORDS = F32(
    type="svfloat32_t",
    lanes=0,
    loop=PredicatedLoop(lanes="(int)svcntw()", predicate=_PREDICATE, type="svbool_t"),
    load="svld1_f32(pg, {p} + {i})",
    store="svst1_f32(pg, {p} + {i}, {x})",
    set1="svdup_n_f32({x})",
    add="svadd_f32_x(pg, {a}, {b})",
    sub="svsub_f32_x(pg, {a}, {b})",
    mul="svmul_f32_x(pg, {a}, {b})",
    div="svdiv_f32_x(pg, {a}, {b})",
    max="svsel_f32(svcmpgt_f32(pg, {a}, {b}), {a}, {b})",
    min="svsel_f32(svcmplt_f32(pg, {a}, {b}), {a}, {b})",
    abs="svabs_f32_x(pg, {x})",
    neg="svneg_f32_x(pg, {x})",
    select_gt="svsel_f32(svcmpgt_f32(pg, {a}, {b}), {yes}, {no})",
    half_like=(
        "svreinterpret_f32_u32(svorr_n_u32_x(pg, svand_n_u32_x(pg, svreinterpret_u32_f32({x}), 0x80000000u),"
        " 0x3f000000u))"
    ),
    pow2_of_rounded=(
        "svreinterpret_f32_u32(svadd_n_u32_x(pg, svlsl_n_u32_x(pg, svreinterpret_u32_f32({x}), 23), 0x3f800000u))"
    ),
    load_i8="svcvt_f32_s32_x(pg, svld1sb_s32(pg, {p} + {i}))",
    store_i8="svst1b_s32(pg, {p} + {i}, svcvt_s32_f32_x(pg, {x}))",
    load_pairs="ml_load_pairs_sve(pg, {p} + 2 * {i}, &{a}, &{b})",
    store_pairs="svst2_f32(pg, {p} + 2 * {i}, svcreate2_f32({a}, {b}))",
    block=Block(queries=8, vectors=1),
    fma="svmla_f32_x(pg, {c}, {a}, {b})",
    implicit="pg, ",
    implicit_parameters="svbool_t pg, ",
)

ISA = Isa(
    name="sve",
    parent="neon_dotprod",
    doc="Neoverse V1 (2021) and later servers, Fujitsu A64FX, Cortex-A510 and A710 and later.",
    family="arm",
    priority=30,
    targets=(Target("aarch64-linux", "generic+v8_2a+dotprod+sve", fused=True),),
    headers=("core/arm_common.h",),
    features=("SVE",),
    f32=F32_WORDS,
    reduce=PredicatedReduce(
        partials="ml_partials_sve()",
        lanes="(int)svcntw()",
        type="svbool_t",
        predicate=_PREDICATE,
        max_of_lanes="svmaxv_f32(svptrue_b32(), {x})",
    ),
    f16=F16(lanes=0, load="ml_load_f16_sve(pg, {p} + {i})"),
    rowdot=SveRow(),
)
