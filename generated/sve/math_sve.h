/*
 * e^x on sve: the Cephes polynomial, with multiply-add in the machine's class.
 * Written by krafla-gen from templates/simd_math.h.j2 and isa_specs/sve.py; do not edit.
 */
#ifndef ML_MATH_SVE_H
#define ML_MATH_SVE_H

#include "ml_config.h"
#include "core/arm_common.h"

/*
 * x = n * ln 2 + r with |r| <= ln 2 / 2, then e^r by a polynomial and 2^n by exponent bits. Beyond 127.5 * ln
 * 2 the result is infinity, and below the logarithm of the smallest normal number it is 0.
 */
ML_ALWAYS_INLINE svfloat32_t ml_exp_sve(svbool_t pg, svfloat32_t x)
{
    /* Adding 1.5 * 2^23 rounds to an integer, which the low mantissa bits then hold. */
    svfloat32_t rounded =
        svadd_f32_x(pg, svmul_f32_x(pg, x, svdup_n_f32(1.44269504088896341f)), svdup_n_f32(12582912.0f));
    svfloat32_t n = svsub_f32_x(pg, rounded, svdup_n_f32(12582912.0f));
    /* ln 2 in two parts, the first of which multiplies n exactly. */
    svfloat32_t r = svmla_f32_x(pg, x, n, svdup_n_f32(-0.693359375f));
    r = svmla_f32_x(pg, r, n, svdup_n_f32(2.12194440e-4f));
    svfloat32_t y = svdup_n_f32(1.9875691500e-4f);
    y = svmla_f32_x(pg, svdup_n_f32(1.3981999507e-3f), y, r);
    y = svmla_f32_x(pg, svdup_n_f32(8.3334519073e-3f), y, r);
    y = svmla_f32_x(pg, svdup_n_f32(4.1665795894e-2f), y, r);
    y = svmla_f32_x(pg, svdup_n_f32(1.6666665459e-1f), y, r);
    y = svmla_f32_x(pg, svdup_n_f32(5.0000001201e-1f), y, r);
    y = svmla_f32_x(pg, r, y, svmul_f32_x(pg, r, r));
    y = svadd_f32_x(pg, y, svdup_n_f32(1.0f));
    y = svmul_f32_x(pg, y,
                    svreinterpret_f32_u32(svadd_n_u32_x(
                        pg, svlsl_n_u32_x(pg, svreinterpret_u32_f32(rounded), 23), 0x3f800000u)));
    y = svsel_f32(svcmpgt_f32(pg, x, svdup_n_f32(88.3762626647949f)), svdup_n_f32(INFINITY), y);
    return svsel_f32(svcmpgt_f32(pg, svdup_n_f32(-87.33654f), x), svdup_n_f32(0.0f), y);
}

#endif
