/* x86_common.h: idioms of a few SSE and AVX instructions that deserve a name. Included by the x86 kernels
 * only. */
#ifndef ML_X86_COMMON_H
#define ML_X86_COMMON_H

#include "ml.h"

#include <immintrin.h>

/* ---- SSE2 ---- */

/* Canonical fold of sixteen partials in four registers: by 8, by 4, then inside the last register by 2 and 1.
 */
ML_ALWAYS_INLINE float ml_fold4(__m128 p)
{
    p = _mm_add_ps(p, _mm_movehl_ps(p, p));
    return _mm_cvtss_f32(_mm_add_ss(p, _mm_shuffle_ps(p, p, 1)));
}

ML_ALWAYS_INLINE float ml_fold16_128(__m128 p0, __m128 p1, __m128 p2, __m128 p3)
{
    return ml_fold4(_mm_add_ps(_mm_add_ps(p0, p2), _mm_add_ps(p1, p3)));
}

ML_ALWAYS_INLINE float ml_max_128(__m128 x)
{
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
}

ML_ALWAYS_INLINE __m128 ml_select_128(__m128 mask, __m128 yes, __m128 no)
{
    return _mm_or_ps(_mm_and_ps(mask, yes), _mm_andnot_ps(mask, no));
}

ML_ALWAYS_INLINE __m128 ml_load_i8_128(const int8_t *p)
{
    __m128i bytes = _mm_cvtsi32_si128(ml_load_i32(p));
    __m128i words = _mm_unpacklo_epi8(bytes, bytes);
    return _mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpacklo_epi16(words, words), 24));
}

ML_ALWAYS_INLINE void ml_store_i8_128(int8_t *p, __m128 x)
{
    __m128i words = _mm_packs_epi32(_mm_cvttps_epi32(x), _mm_setzero_si128());
    int32_t bytes = _mm_cvtsi128_si32(_mm_packs_epi16(words, words));
    memcpy(p, &bytes, sizeof bytes);
}

ML_ALWAYS_INLINE void ml_load_pairs_128(const float *p, __m128 *even, __m128 *odd)
{
    __m128 low = _mm_loadu_ps(p);
    __m128 high = _mm_loadu_ps(p + 4);
    *even = _mm_shuffle_ps(low, high, 0x88);
    *odd = _mm_shuffle_ps(low, high, 0xdd);
}

ML_ALWAYS_INLINE void ml_store_pairs_128(float *p, __m128 even, __m128 odd)
{
    _mm_storeu_ps(p, _mm_unpacklo_ps(even, odd));
    _mm_storeu_ps(p + 4, _mm_unpackhi_ps(even, odd));
}

/* Half precision widened without F16C: a power-of-two product rebiases the exponent, also of subnormals. */
ML_ALWAYS_INLINE __m128 ml_load_f16_128(const uint16_t *p)
{
    __m128i half = _mm_loadl_epi64((const __m128i *)(const void *)p);
    __m128i wide = _mm_unpacklo_epi16(half, _mm_setzero_si128());
    __m128i sign = _mm_slli_epi32(_mm_and_si128(wide, _mm_set1_epi32(0x8000)), 16);
    __m128i magnitude = _mm_slli_epi32(_mm_and_si128(wide, _mm_set1_epi32(0x7fff)), 13);
    __m128i special = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x0f7fffff)); /* infinity or NaN */
    __m128 scaled = _mm_mul_ps(_mm_castsi128_ps(magnitude), _mm_set1_ps(0x1p112f));
    __m128i infinity = _mm_or_si128(magnitude, _mm_set1_epi32(0x7f800000));
    __m128 value = ml_select_128(_mm_castsi128_ps(special), _mm_castsi128_ps(infinity), scaled);
    return _mm_or_ps(value, _mm_castsi128_ps(sign));
}

/* Sum of four int32 lanes. */
ML_ALWAYS_INLINE int32_t ml_sum_i32_128(__m128i x)
{
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
}

/* Sixteen signed byte products summed to four int32 lanes: even and odd bytes, sign-extended, through
 * pmaddwd. */
ML_ALWAYS_INLINE __m128i ml_madd_i8_128(__m128i w, __m128i x)
{
    __m128i even =
        _mm_madd_epi16(_mm_srai_epi16(_mm_slli_epi16(w, 8), 8), _mm_srai_epi16(_mm_slli_epi16(x, 8), 8));
    __m128i odd = _mm_madd_epi16(_mm_srai_epi16(w, 8), _mm_srai_epi16(x, 8));
    return _mm_add_epi32(even, odd);
}

/* ---- AVX ---- */
#if defined(__AVX__)

ML_ALWAYS_INLINE float ml_fold8(__m256 p)
{
    return ml_fold4(_mm_add_ps(_mm256_castps256_ps128(p), _mm256_extractf128_ps(p, 1)));
}

ML_ALWAYS_INLINE float ml_fold16_256(__m256 p0, __m256 p1)
{
    return ml_fold8(_mm256_add_ps(p0, p1));
}

ML_ALWAYS_INLINE float ml_max_256(__m256 x)
{
    return ml_max_128(_mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1)));
}

/* AVX has no 256-bit integers: what needs them works on two halves. */
ML_ALWAYS_INLINE __m256 ml_join_256(__m128 low, __m128 high)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}

ML_ALWAYS_INLINE __m256 ml_load_i8_avx(const int8_t *p)
{
    return ml_join_256(ml_load_i8_128(p), ml_load_i8_128(p + 4));
}

ML_ALWAYS_INLINE __m256 ml_load_f16_avx(const uint16_t *p)
{
    return ml_join_256(ml_load_f16_128(p), ml_load_f16_128(p + 4));
}

ML_ALWAYS_INLINE void ml_store_i8_avx(int8_t *p, __m256 x)
{
    __m256i lanes = _mm256_cvttps_epi32(x);
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(lanes), _mm256_extractf128_si256(lanes, 1));
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi16(words, words));
}

ML_ALWAYS_INLINE __m128 ml_pow2_of_rounded_128(__m128 x)
{
    __m128i bits = _mm_slli_epi32(_mm_castps_si128(x), 23);
    return _mm_castsi128_ps(_mm_add_epi32(bits, _mm_set1_epi32(0x3f800000)));
}

ML_ALWAYS_INLINE __m256 ml_pow2_of_rounded_avx(__m256 x)
{
    __m128 low = ml_pow2_of_rounded_128(_mm256_castps256_ps128(x));
    return ml_join_256(low, ml_pow2_of_rounded_128(_mm256_extractf128_ps(x, 1)));
}

ML_ALWAYS_INLINE void ml_load_pairs_avx(const float *p, __m256 *even, __m256 *odd)
{
    __m128 low_even, low_odd, high_even, high_odd;
    ml_load_pairs_128(p, &low_even, &low_odd);
    ml_load_pairs_128(p + 8, &high_even, &high_odd);
    *even = ml_join_256(low_even, high_even);
    *odd = ml_join_256(low_odd, high_odd);
}

ML_ALWAYS_INLINE void ml_store_pairs_256(float *p, __m256 even, __m256 odd)
{
    __m256 low = _mm256_unpacklo_ps(even, odd);
    __m256 high = _mm256_unpackhi_ps(even, odd);
    _mm256_storeu_ps(p, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(p + 8, _mm256_permute2f128_ps(low, high, 0x31));
}

#endif

/* ---- AVX2 ---- */
#if defined(__AVX2__)

ML_ALWAYS_INLINE __m256 ml_load_i8_256(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

ML_ALWAYS_INLINE void ml_store_i8_256(int8_t *p, __m256 x)
{
    __m256i lanes = _mm256_cvttps_epi32(x);
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi16(words, words));
}

ML_ALWAYS_INLINE void ml_load_pairs_256(const float *p, __m256 *even, __m256 *odd)
{
    __m256 low = _mm256_loadu_ps(p);
    __m256 high = _mm256_loadu_ps(p + 8);
    /* Shuffles work inside 128-bit halves, so 64-bit pairs are put back in order afterwards. */
    __m256d evens = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88));
    __m256d odds = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0xdd));
    *even = _mm256_castpd_ps(_mm256_permute4x64_pd(evens, 0xd8));
    *odd = _mm256_castpd_ps(_mm256_permute4x64_pd(odds, 0xd8));
}

ML_ALWAYS_INLINE int32_t ml_sum_i32_256(__m256i x)
{
    return ml_sum_i32_128(_mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
}

/* A Q4 block's sixteen bytes as 32 nibbles: low ones (elements 0 to 15), then high ones (16 to 31). */
ML_ALWAYS_INLINE __m256i ml_nibbles_256(const uint8_t *p)
{
    __m128i packed = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(packed), _mm_srli_epi16(packed, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(0x0f));
}

#endif

/* ---- AVX-512 ---- */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)

ML_ALWAYS_INLINE float ml_fold16_512(__m512 p)
{
    return ml_fold8(_mm256_add_ps(_mm512_castps512_ps256(p), _mm512_extractf32x8_ps(p, 1)));
}

ML_ALWAYS_INLINE float ml_max_512(__m512 x)
{
    return ml_max_256(_mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)));
}

ML_ALWAYS_INLINE __m512 ml_load_i8_512(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

ML_ALWAYS_INLINE void ml_store_i8_512(int8_t *p, __m512 x)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(x)));
}

ML_ALWAYS_INLINE void ml_load_pairs_512(const float *p, __m512 *even, __m512 *odd)
{
    __m512 low = _mm512_loadu_ps(p);
    __m512 high = _mm512_loadu_ps(p + 16);
    __m512i evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512i odds = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    *even = _mm512_permutex2var_ps(low, evens, high);
    *odd = _mm512_permutex2var_ps(low, odds, high);
}

ML_ALWAYS_INLINE void ml_store_pairs_512(float *p, __m512 even, __m512 odd)
{
    __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    __m512i second = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    _mm512_storeu_ps(p, _mm512_permutex2var_ps(even, first, odd));
    _mm512_storeu_ps(p + 16, _mm512_permutex2var_ps(even, second, odd));
}

#endif

#endif
