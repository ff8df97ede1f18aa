"""rvv: RISC-V vectors 1.0 of any length from 128 bits. Lanes come in register groups of four."""

from krafla.codegen.dots_riscv import RvvMacc, RvvRow
from krafla.codegen.isa import Isa, Pack, Target
from krafla.codegen.lanes import F16, F32, Block, SetLengthLoop
from krafla.codegen.reduce import SetLengthReduce
from krafla.codegen.tiles import VectorTile

_SET_LENGTH = "__riscv_vsetvl_e32m4((size_t)({rest}))"

F32_WORDS = F32(
    type="vfloat32m4_t",
    lanes=0,
    loop=SetLengthLoop(_SET_LENGTH),
    load="__riscv_vle32_v_f32m4({p} + {i}, vl)",
    store="__riscv_vse32_v_f32m4({p} + {i}, {x}, vl)",
    set1="__riscv_vfmv_v_f_f32m4({x}, vl)",
    add="__riscv_vfadd_vv_f32m4({a}, {b}, vl)",
    sub="__riscv_vfsub_vv_f32m4({a}, {b}, vl)",
    mul="__riscv_vfmul_vv_f32m4({a}, {b}, vl)",
    div="__riscv_vfdiv_vv_f32m4({a}, {b}, vl)",
    max="__riscv_vmerge_vvm_f32m4({b}, {a}, __riscv_vmfgt_vv_f32m4_b8({a}, {b}, vl), vl)",
    min="__riscv_vmerge_vvm_f32m4({b}, {a}, __riscv_vmflt_vv_f32m4_b8({a}, {b}, vl), vl)",
    abs="__riscv_vfabs_v_f32m4({x}, vl)",
    neg="__riscv_vfneg_v_f32m4({x}, vl)",
    select_gt="__riscv_vmerge_vvm_f32m4({no}, {yes}, __riscv_vmfgt_vv_f32m4_b8({a}, {b}, vl), vl)",
    half_like="__riscv_vfsgnj_vv_f32m4(__riscv_vfmv_v_f_f32m4(0.5f, vl), {x}, vl)",
    pow2_of_rounded="ml_pow2_of_rounded_rvv(vl, {x})",
    load_i8="ml_load_i8_rvv(vl, {p} + {i})",
    store_i8="ml_store_i8_rvv(vl, {p} + {i}, {x})",
    load_pairs="ml_load_pairs_rvv(vl, {p} + 2 * {i}, &{a}, &{b})",
    store_pairs="ml_store_pairs_rvv(vl, {p} + 2 * {i}, {a}, {b})",
    block=Block(queries=4, vectors=1),
    fma="__riscv_vfmacc_vv_f32m4({c}, {a}, {b}, vl)",
    implicit="vl, ",
    implicit_parameters="size_t vl, ",
)
F16_WORDS = F16(lanes=0, load="ml_load_f16_rvv(vl, {p} + {i})")

ISA = Isa(
    name="rvv",
    parent="scalar",
    doc="SpacemiT K1 (2024) and other RVA22 and RVA23 cores with vectors.",
    family="riscv",
    priority=10,
    targets=(Target("riscv64-linux", "generic_rv64+m+a+f+d+c+v", fused=True),),
    headers=("core/riscv_common.h",),
    features=("RVV",),
    f32=F32_WORDS,
    reduce=SetLengthReduce(_SET_LENGTH, max_with="ml_max_rvv(vl, {result}, {x})"),
    f16=F16_WORDS,
    rowdot=RvvRow(),
    pack=Pack(dot=RvvMacc(), lanes=F32_WORDS, f16=F16_WORDS),
    tile=VectorTile(sizes=(2, 1)),
)
