"""wasm_simd128: WebAssembly with 128-bit vectors. No byte multiply, no FMA, no half precision."""

from krafla.codegen.dots_pairs import EvenOddPairs, PairRow, PairWords
from krafla.codegen.isa import Isa, Pack, Target
from krafla.codegen.lanes import F16, F32, Block, StripLoop
from krafla.codegen.reduce import StripReduce
from krafla.codegen.tiles import VectorTile

F32_WORDS = F32(
    type="v128_t",
    lanes=4,
    loop=StripLoop(),
    load="wasm_v128_load({p} + {i})",
    store="wasm_v128_store({p} + {i}, {x})",
    set1="wasm_f32x4_splat({x})",
    add="wasm_f32x4_add({a}, {b})",
    sub="wasm_f32x4_sub({a}, {b})",
    mul="wasm_f32x4_mul({a}, {b})",
    div="wasm_f32x4_div({a}, {b})",
    max="wasm_f32x4_pmax({b}, {a})",
    min="wasm_f32x4_pmin({b}, {a})",
    abs="wasm_f32x4_abs({x})",
    neg="wasm_f32x4_neg({x})",
    select_gt="wasm_v128_bitselect({yes}, {no}, wasm_f32x4_gt({a}, {b}))",
    half_like="wasm_v128_or(wasm_v128_and({x}, wasm_f32x4_splat(-0.0f)), wasm_f32x4_splat(0.5f))",
    pow2_of_rounded="wasm_i32x4_add(wasm_i32x4_shl({x}, 23), wasm_i32x4_splat(0x3f800000))",
    load_i8="ml_load_i8_wasm({p} + {i})",
    store_i8="ml_store_i8_wasm({p} + {i}, {x})",
    load_pairs="ml_load_pairs_wasm({p} + 2 * {i}, &{a}, &{b})",
    store_pairs="ml_store_pairs_wasm({p} + 2 * {i}, {a}, {b})",
    block=Block(queries=4, vectors=2),
)

PAIR_WORDS = PairWords(
    type="v128_t",
    suffix="wasm",
    load="wasm_v128_load({p})",
    store="wasm_v128_store({p}, {x})",
    zero="wasm_i32x4_splat(0)",
    splat8="wasm_i8x16_splat({x})",
    splat16="wasm_i16x8_splat({x})",
    splat32="wasm_i32x4_splat({x})",
    both="wasm_v128_and({a}, {b})",
    shift_right16="wasm_u16x8_shr({x}, {n})",
    multiply_pairs="wasm_i32x4_dot_i16x8({a}, {b})",
    add32="wasm_i32x4_add({a}, {b})",
    to_f32="wasm_f32x4_convert_i32x4({x})",
)

ISA = Isa(
    name="wasm_simd128",
    parent="scalar",
    doc="Browsers and runtimes since 2021.",
    family="wasm",
    priority=10,
    targets=(Target("wasm32-wasi", "generic+simd128", fused=False),),
    headers=("core/wasm_common.h",),
    features=("SIMD128",),
    f32=F32_WORDS,
    reduce=StripReduce(fold="ml_fold16_wasm({p0}, {p1}, {p2}, {p3})", max_of_lanes="ml_max_wasm({x})"),
    f16=F16(lanes=4, load="ml_load_f16_wasm({p} + {i})"),
    rowdot=PairRow(PAIR_WORDS),
    pack=Pack(dot=EvenOddPairs(PAIR_WORDS), lanes=F32_WORDS),
    tile=VectorTile(sizes=(4, 2, 1)),
)
