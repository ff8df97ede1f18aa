/*
 * e^x on scalar: the Cephes polynomial, with multiply-add in the machine's class.
 * Written by krafla-gen from templates/simd_math.h.j2 and isa_specs/scalar.py; do not edit.
 */
#ifndef ML_MATH_SCALAR_H
#define ML_MATH_SCALAR_H

#include "ml_config.h"

/*
 * x = n * ln 2 + r with |r| <= ln 2 / 2, then e^r by a polynomial and 2^n by exponent bits. Beyond 127.5 * ln
 * 2 the result is infinity, and below the logarithm of the smallest normal number it is 0.
 */
ML_ALWAYS_INLINE float ml_exp_scalar(float x)
{
    /* Adding 1.5 * 2^23 rounds to an integer, which the low mantissa bits then hold. */
    float rounded = ((x * 1.44269504088896341f) + 12582912.0f);
    float n = (rounded - 12582912.0f);
    /* ln 2 in two parts, the first of which multiplies n exactly. */
    float r = ml_madd(n, -0.693359375f, x);
    r = ml_madd(n, 2.12194440e-4f, r);
    float y = 1.9875691500e-4f;
    y = ml_madd(y, r, 1.3981999507e-3f);
    y = ml_madd(y, r, 8.3334519073e-3f);
    y = ml_madd(y, r, 4.1665795894e-2f);
    y = ml_madd(y, r, 1.6666665459e-1f);
    y = ml_madd(y, r, 5.0000001201e-1f);
    y = ml_madd(y, (r * r), r);
    y = (y + 1.0f);
    y = (y * ml_float_of((ml_bits_of(rounded) << 23) + 0x3f800000u));
    y = (x > 88.3762626647949f ? INFINITY : y);
    return (-87.33654f > x ? 0.0f : y);
}

#endif
