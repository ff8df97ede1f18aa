/*
 * e^x on rvv: the Cephes polynomial, with multiply-add in the machine's class.
 * Written by krafla-gen from templates/simd_math.h.j2 and isa_specs/rvv.py; do not edit.
 */
#ifndef ML_MATH_RVV_H
#define ML_MATH_RVV_H

#include "ml_config.h"
#include "core/riscv_common.h"

/*
 * x = n * ln 2 + r with |r| <= ln 2 / 2, then e^r by a polynomial and 2^n by exponent bits. Beyond 127.5 * ln
 * 2 the result is infinity, and below the logarithm of the smallest normal number it is 0.
 */
ML_ALWAYS_INLINE vfloat32m4_t ml_exp_rvv(size_t vl, vfloat32m4_t x)
{
    /* Adding 1.5 * 2^23 rounds to an integer, which the low mantissa bits then hold. */
    vfloat32m4_t rounded = __riscv_vfadd_vv_f32m4(
        __riscv_vfmul_vv_f32m4(x, __riscv_vfmv_v_f_f32m4(1.44269504088896341f, vl), vl),
        __riscv_vfmv_v_f_f32m4(12582912.0f, vl), vl);
    vfloat32m4_t n = __riscv_vfsub_vv_f32m4(rounded, __riscv_vfmv_v_f_f32m4(12582912.0f, vl), vl);
    /* ln 2 in two parts, the first of which multiplies n exactly. */
    vfloat32m4_t r = __riscv_vfmacc_vv_f32m4(x, n, __riscv_vfmv_v_f_f32m4(-0.693359375f, vl), vl);
    r = __riscv_vfmacc_vv_f32m4(r, n, __riscv_vfmv_v_f_f32m4(2.12194440e-4f, vl), vl);
    vfloat32m4_t y = __riscv_vfmv_v_f_f32m4(1.9875691500e-4f, vl);
    y = __riscv_vfmacc_vv_f32m4(__riscv_vfmv_v_f_f32m4(1.3981999507e-3f, vl), y, r, vl);
    y = __riscv_vfmacc_vv_f32m4(__riscv_vfmv_v_f_f32m4(8.3334519073e-3f, vl), y, r, vl);
    y = __riscv_vfmacc_vv_f32m4(__riscv_vfmv_v_f_f32m4(4.1665795894e-2f, vl), y, r, vl);
    y = __riscv_vfmacc_vv_f32m4(__riscv_vfmv_v_f_f32m4(1.6666665459e-1f, vl), y, r, vl);
    y = __riscv_vfmacc_vv_f32m4(__riscv_vfmv_v_f_f32m4(5.0000001201e-1f, vl), y, r, vl);
    y = __riscv_vfmacc_vv_f32m4(r, y, __riscv_vfmul_vv_f32m4(r, r, vl), vl);
    y = __riscv_vfadd_vv_f32m4(y, __riscv_vfmv_v_f_f32m4(1.0f, vl), vl);
    y = __riscv_vfmul_vv_f32m4(y, ml_pow2_of_rounded_rvv(vl, rounded), vl);
    y = __riscv_vmerge_vvm_f32m4(
        y, __riscv_vfmv_v_f_f32m4(INFINITY, vl),
        __riscv_vmfgt_vv_f32m4_b8(x, __riscv_vfmv_v_f_f32m4(88.3762626647949f, vl), vl), vl);
    return __riscv_vmerge_vvm_f32m4(y, __riscv_vfmv_v_f_f32m4(0.0f, vl),
                                    __riscv_vmfgt_vv_f32m4_b8(__riscv_vfmv_v_f_f32m4(-87.33654f, vl), x, vl),
                                    vl);
}

#endif
