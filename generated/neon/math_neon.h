/*
 * e^x on neon: the Cephes polynomial, with multiply-add in the machine's class.
 * Written by krafla-gen from templates/simd_math.h.j2 and isa_specs/neon.py; do not edit.
 */
#ifndef ML_MATH_NEON_H
#define ML_MATH_NEON_H

#include "ml_config.h"
#include "core/arm_common.h"

/*
 * x = n * ln 2 + r with |r| <= ln 2 / 2, then e^r by a polynomial and 2^n by exponent bits. Beyond 127.5 * ln
 * 2 the result is infinity, and below the logarithm of the smallest normal number it is 0.
 */
ML_ALWAYS_INLINE float32x4_t ml_exp_neon(float32x4_t x)
{
    /* Adding 1.5 * 2^23 rounds to an integer, which the low mantissa bits then hold. */
    float32x4_t rounded =
        vaddq_f32(vmulq_f32(x, vdupq_n_f32(1.44269504088896341f)), vdupq_n_f32(12582912.0f));
    float32x4_t n = vsubq_f32(rounded, vdupq_n_f32(12582912.0f));
    /* ln 2 in two parts, the first of which multiplies n exactly. */
    float32x4_t r = ml_madd_neon(n, vdupq_n_f32(-0.693359375f), x);
    r = ml_madd_neon(n, vdupq_n_f32(2.12194440e-4f), r);
    float32x4_t y = vdupq_n_f32(1.9875691500e-4f);
    y = ml_madd_neon(y, r, vdupq_n_f32(1.3981999507e-3f));
    y = ml_madd_neon(y, r, vdupq_n_f32(8.3334519073e-3f));
    y = ml_madd_neon(y, r, vdupq_n_f32(4.1665795894e-2f));
    y = ml_madd_neon(y, r, vdupq_n_f32(1.6666665459e-1f));
    y = ml_madd_neon(y, r, vdupq_n_f32(5.0000001201e-1f));
    y = ml_madd_neon(y, vmulq_f32(r, r), r);
    y = vaddq_f32(y, vdupq_n_f32(1.0f));
    y = vmulq_f32(y, vreinterpretq_f32_s32(vaddq_s32(vshlq_n_s32(vreinterpretq_s32_f32(rounded), 23),
                                                     vdupq_n_s32(0x3f800000))));
    y = vbslq_f32(vcgtq_f32(x, vdupq_n_f32(88.3762626647949f)), vdupq_n_f32(INFINITY), y);
    return vbslq_f32(vcgtq_f32(vdupq_n_f32(-87.33654f), x), vdupq_n_f32(0.0f), y);
}

#endif
