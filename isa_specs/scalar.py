"""scalar: plain C, the reference of both classes. It compiles as fused or unfused (ML_FUSED)."""

from krafla.codegen.dots import ScalarRowDot
from krafla.codegen.isa import Isa, Target
from krafla.codegen.lanes import F16, F32, Block, ScalarLoop
from krafla.codegen.reduce import ScalarReduce

F32_WORDS = F32(
    type="float",
    lanes=1,
    loop=ScalarLoop(),
    load="{p}[{i}]",
    store="{p}[{i}] = {x}",
    set1="{x}",
    add="({a} + {b})",
    sub="({a} - {b})",
    mul="({a} * {b})",
    div="({a} / {b})",
    max="({a} > {b} ? {a} : {b})",
    min="({a} < {b} ? {a} : {b})",
    abs="fabsf({x})",
    neg="(-{x})",
    select_gt="({a} > {b} ? {yes} : {no})",
    half_like="copysignf(0.5f, {x})",
    pow2_of_rounded="ml_float_of((ml_bits_of({x}) << 23) + 0x3f800000u)",
    load_i8="(float){p}[{i}]",
    store_i8="{p}[{i}] = (int8_t)({x})",
    load_pairs="{a} = {p}[2 * {i}];\n{b} = {p}[2 * {i} + 1]",
    store_pairs="{p}[2 * {i}] = {a};\n{p}[2 * {i} + 1] = {b}",
    block=Block(queries=1, vectors=1),
    either="ml_madd({a}, {b}, {c})",
)

ISA = Isa(
    name="scalar",
    parent=None,
    doc="Plain C for any machine; what every other ISA is compared with.",
    family="any",
    priority=0,
    targets=(Target("x86_64-linux", "x86_64", fused=False),),
    f32=F32_WORDS,
    reduce=ScalarReduce(),
    f16=F16(lanes=1, load="ml_f16_to_f32({p}[{i}])"),
    rowdot=ScalarRowDot(),
)
