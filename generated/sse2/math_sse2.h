/*
 * e^x on sse2: the Cephes polynomial, with multiply-add in the machine's class.
 * Written by krafla-gen from templates/simd_math.h.j2 and isa_specs/sse2.py; do not edit.
 */
#ifndef ML_MATH_SSE2_H
#define ML_MATH_SSE2_H

#include "ml_config.h"
#include "core/x86_common.h"

/*
 * x = n * ln 2 + r with |r| <= ln 2 / 2, then e^r by a polynomial and 2^n by exponent bits. Beyond 127.5 * ln
 * 2 the result is infinity, and below the logarithm of the smallest normal number it is 0.
 */
ML_ALWAYS_INLINE __m128 ml_exp_sse2(__m128 x)
{
    /* Adding 1.5 * 2^23 rounds to an integer, which the low mantissa bits then hold. */
    __m128 rounded = _mm_add_ps(_mm_mul_ps(x, _mm_set1_ps(1.44269504088896341f)), _mm_set1_ps(12582912.0f));
    __m128 n = _mm_sub_ps(rounded, _mm_set1_ps(12582912.0f));
    /* ln 2 in two parts, the first of which multiplies n exactly. */
    __m128 r = _mm_add_ps(_mm_mul_ps(n, _mm_set1_ps(-0.693359375f)), x);
    r = _mm_add_ps(_mm_mul_ps(n, _mm_set1_ps(2.12194440e-4f)), r);
    __m128 y = _mm_set1_ps(1.9875691500e-4f);
    y = _mm_add_ps(_mm_mul_ps(y, r), _mm_set1_ps(1.3981999507e-3f));
    y = _mm_add_ps(_mm_mul_ps(y, r), _mm_set1_ps(8.3334519073e-3f));
    y = _mm_add_ps(_mm_mul_ps(y, r), _mm_set1_ps(4.1665795894e-2f));
    y = _mm_add_ps(_mm_mul_ps(y, r), _mm_set1_ps(1.6666665459e-1f));
    y = _mm_add_ps(_mm_mul_ps(y, r), _mm_set1_ps(5.0000001201e-1f));
    y = _mm_add_ps(_mm_mul_ps(y, _mm_mul_ps(r, r)), r);
    y = _mm_add_ps(y, _mm_set1_ps(1.0f));
    y = _mm_mul_ps(y, _mm_castsi128_ps(_mm_add_epi32(_mm_slli_epi32(_mm_castps_si128(rounded), 23),
                                                     _mm_set1_epi32(0x3f800000))));
    y = ml_select_128(_mm_cmpgt_ps(x, _mm_set1_ps(88.3762626647949f)), _mm_set1_ps(INFINITY), y);
    return ml_select_128(_mm_cmpgt_ps(_mm_set1_ps(-87.33654f), x), _mm_set1_ps(0.0f), y);
}

#endif
