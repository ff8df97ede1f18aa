"""The float words of x86, whose three vector widths differ in little more than a prefix."""

from __future__ import annotations

from krafla.codegen.lanes import F32, Block, StripLoop


def x86_f32(bits: int, *, block: Block, select_gt: str, pow2_of_rounded: str, fma: str = "") -> F32:
    """The words of `bits`-wide vectors; what differs by more than the prefix is passed in."""
    prefix = "_mm" if bits == 128 else f"_mm{bits}"

    def binary(word: str) -> str:
        return f"{prefix}_{word}_ps({{a}}, {{b}})"

    sign = f"{prefix}_set1_ps(-0.0f)"
    return F32(
        type=f"__m{bits}",
        lanes=bits // 32,
        loop=StripLoop(),
        load=f"{prefix}_loadu_ps({{p}} + {{i}})",
        store=f"{prefix}_storeu_ps({{p}} + {{i}}, {{x}})",
        set1=f"{prefix}_set1_ps({{x}})",
        add=binary("add"),
        sub=binary("sub"),
        mul=binary("mul"),
        div=binary("div"),
        max=binary("max"),
        min=binary("min"),
        abs=f"{prefix}_andnot_ps({sign}, {{x}})",
        neg=f"{prefix}_xor_ps({{x}}, {sign})",
        select_gt=select_gt,
        half_like=f"{prefix}_or_ps({prefix}_and_ps({{x}}, {sign}), {prefix}_set1_ps(0.5f))",
        pow2_of_rounded=pow2_of_rounded,
        load_i8=f"ml_load_i8_{bits}({{p}} + {{i}})",
        store_i8=f"ml_store_i8_{bits}({{p}} + {{i}}, {{x}})",
        load_pairs=f"ml_load_pairs_{bits}({{p}} + 2 * {{i}}, &{{a}}, &{{b}})",
        store_pairs=f"ml_store_pairs_{bits}({{p}} + 2 * {{i}}, {{a}}, {{b}})",
        block=block,
        fma=fma,
    )
