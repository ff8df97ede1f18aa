/*
 * e^x on avx: the Cephes polynomial, with multiply-add in the machine's class.
 * Written by krafla-gen from templates/simd_math.h.j2 and isa_specs/avx.py; do not edit.
 */
#ifndef ML_MATH_AVX_H
#define ML_MATH_AVX_H

#include "ml_config.h"
#include "core/x86_common.h"

/*
 * x = n * ln 2 + r with |r| <= ln 2 / 2, then e^r by a polynomial and 2^n by exponent bits. Beyond 127.5 * ln
 * 2 the result is infinity, and below the logarithm of the smallest normal number it is 0.
 */
ML_ALWAYS_INLINE __m256 ml_exp_avx(__m256 x)
{
    /* Adding 1.5 * 2^23 rounds to an integer, which the low mantissa bits then hold. */
    __m256 rounded =
        _mm256_add_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504088896341f)), _mm256_set1_ps(12582912.0f));
    __m256 n = _mm256_sub_ps(rounded, _mm256_set1_ps(12582912.0f));
    /* ln 2 in two parts, the first of which multiplies n exactly. */
    __m256 r = _mm256_add_ps(_mm256_mul_ps(n, _mm256_set1_ps(-0.693359375f)), x);
    r = _mm256_add_ps(_mm256_mul_ps(n, _mm256_set1_ps(2.12194440e-4f)), r);
    __m256 y = _mm256_set1_ps(1.9875691500e-4f);
    y = _mm256_add_ps(_mm256_mul_ps(y, r), _mm256_set1_ps(1.3981999507e-3f));
    y = _mm256_add_ps(_mm256_mul_ps(y, r), _mm256_set1_ps(8.3334519073e-3f));
    y = _mm256_add_ps(_mm256_mul_ps(y, r), _mm256_set1_ps(4.1665795894e-2f));
    y = _mm256_add_ps(_mm256_mul_ps(y, r), _mm256_set1_ps(1.6666665459e-1f));
    y = _mm256_add_ps(_mm256_mul_ps(y, r), _mm256_set1_ps(5.0000001201e-1f));
    y = _mm256_add_ps(_mm256_mul_ps(y, _mm256_mul_ps(r, r)), r);
    y = _mm256_add_ps(y, _mm256_set1_ps(1.0f));
    y = _mm256_mul_ps(y, ml_pow2_of_rounded_avx(rounded));
    y = _mm256_blendv_ps(y, _mm256_set1_ps(INFINITY),
                         _mm256_cmp_ps(x, _mm256_set1_ps(88.3762626647949f), _CMP_GT_OQ));
    return _mm256_blendv_ps(y, _mm256_set1_ps(0.0f),
                            _mm256_cmp_ps(_mm256_set1_ps(-87.33654f), x, _CMP_GT_OQ));
}

#endif
