/*
 * ml_k_dot_q8_avx2
 * Scores s[query][position] = q[query] . k[position] over one page of q8 keys.
 *
 * Written by krafla-gen from templates/dot_q8.c.j2 and isa_specs/avx2.py (facets: f32, pack); do not edit.
 *
 * pmaddubsw wants one unsigned operand: |w| times x with w's sign (psignb) is w times x, and 127 * 127 * 2
 * stays below 32767. Q4 nibbles are unsigned already; the eight pair sums of a block (at most 30480) are
 * added in int16 before a single pmaddwd, and -8 * sum(x) makes the sum exact.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* 6 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_6(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{
    const __m256i ones = _mm256_set1_epi16(1);
    (void)xs; /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 8) {
        __m256i isum0_0 = _mm256_setzero_si256();
        __m256i isum1_0 = _mm256_setzero_si256();
        __m256i isum2_0 = _mm256_setzero_si256();
        __m256i isum3_0 = _mm256_setzero_si256();
        __m256i isum4_0 = _mm256_setzero_si256();
        __m256i isum5_0 = _mm256_setzero_si256();
        for (int step = 0; step < n / 4; step++) {
            {
                const __m256i w0 = _mm256_loadu_si256((const void *)(k + step * 32));
                const __m256i magnitude = _mm256_abs_epi8(w0);
                isum0_0 = _mm256_add_epi32(
                    isum0_0,
                    _mm256_madd_epi16(
                        _mm256_maddubs_epi16(
                            magnitude, _mm256_sign_epi8(_mm256_set1_epi32(ml_load_i32(x + step * 4)), w0)),
                        ones));
                isum1_0 = _mm256_add_epi32(
                    isum1_0,
                    _mm256_madd_epi16(
                        _mm256_maddubs_epi16(
                            magnitude,
                            _mm256_sign_epi8(_mm256_set1_epi32(ml_load_i32(x + x_stride + step * 4)), w0)),
                        ones));
                isum2_0 = _mm256_add_epi32(
                    isum2_0,
                    _mm256_madd_epi16(
                        _mm256_maddubs_epi16(
                            magnitude, _mm256_sign_epi8(
                                           _mm256_set1_epi32(ml_load_i32(x + 2 * x_stride + step * 4)), w0)),
                        ones));
                isum3_0 = _mm256_add_epi32(
                    isum3_0,
                    _mm256_madd_epi16(
                        _mm256_maddubs_epi16(
                            magnitude, _mm256_sign_epi8(
                                           _mm256_set1_epi32(ml_load_i32(x + 3 * x_stride + step * 4)), w0)),
                        ones));
                isum4_0 = _mm256_add_epi32(
                    isum4_0,
                    _mm256_madd_epi16(
                        _mm256_maddubs_epi16(
                            magnitude, _mm256_sign_epi8(
                                           _mm256_set1_epi32(ml_load_i32(x + 4 * x_stride + step * 4)), w0)),
                        ones));
                isum5_0 = _mm256_add_epi32(
                    isum5_0,
                    _mm256_madd_epi16(
                        _mm256_maddubs_epi16(
                            magnitude, _mm256_sign_epi8(
                                           _mm256_set1_epi32(ml_load_i32(x + 5 * x_stride + step * 4)), w0)),
                        ones));
            }
        }
        const __m256 k_scale0 = _mm256_loadu_ps(dk + t);
        _mm256_storeu_ps(s + t, _mm256_mul_ps(_mm256_cvtepi32_ps(isum0_0),
                                              _mm256_mul_ps(_mm256_set1_ps(dq[0]), k_scale0)));
        _mm256_storeu_ps((s + s_stride) + t, _mm256_mul_ps(_mm256_cvtepi32_ps(isum1_0),
                                                           _mm256_mul_ps(_mm256_set1_ps(dq[1]), k_scale0)));
        _mm256_storeu_ps(
            (s + 2 * s_stride) + t,
            _mm256_mul_ps(_mm256_cvtepi32_ps(isum2_0), _mm256_mul_ps(_mm256_set1_ps(dq[2]), k_scale0)));
        _mm256_storeu_ps(
            (s + 3 * s_stride) + t,
            _mm256_mul_ps(_mm256_cvtepi32_ps(isum3_0), _mm256_mul_ps(_mm256_set1_ps(dq[3]), k_scale0)));
        _mm256_storeu_ps(
            (s + 4 * s_stride) + t,
            _mm256_mul_ps(_mm256_cvtepi32_ps(isum4_0), _mm256_mul_ps(_mm256_set1_ps(dq[4]), k_scale0)));
        _mm256_storeu_ps(
            (s + 5 * s_stride) + t,
            _mm256_mul_ps(_mm256_cvtepi32_ps(isum5_0), _mm256_mul_ps(_mm256_set1_ps(dq[5]), k_scale0)));
        k += n * 8;
    }
}

/* 3 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_3(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{
    const __m256i ones = _mm256_set1_epi16(1);
    (void)xs; /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 16) {
        __m256i isum0_0 = _mm256_setzero_si256();
        __m256i isum0_1 = _mm256_setzero_si256();
        __m256i isum1_0 = _mm256_setzero_si256();
        __m256i isum1_1 = _mm256_setzero_si256();
        __m256i isum2_0 = _mm256_setzero_si256();
        __m256i isum2_1 = _mm256_setzero_si256();
        for (int step = 0; step < n / 4; step++) {
            {
                const __m256i w0 = _mm256_loadu_si256((const void *)(k + step * 32));
                const __m256i magnitude = _mm256_abs_epi8(w0);
                isum0_0 = _mm256_add_epi32(
                    isum0_0,
                    _mm256_madd_epi16(
                        _mm256_maddubs_epi16(
                            magnitude, _mm256_sign_epi8(_mm256_set1_epi32(ml_load_i32(x + step * 4)), w0)),
                        ones));
                isum1_0 = _mm256_add_epi32(
                    isum1_0,
                    _mm256_madd_epi16(
                        _mm256_maddubs_epi16(
                            magnitude,
                            _mm256_sign_epi8(_mm256_set1_epi32(ml_load_i32(x + x_stride + step * 4)), w0)),
                        ones));
                isum2_0 = _mm256_add_epi32(
                    isum2_0,
                    _mm256_madd_epi16(
                        _mm256_maddubs_epi16(
                            magnitude, _mm256_sign_epi8(
                                           _mm256_set1_epi32(ml_load_i32(x + 2 * x_stride + step * 4)), w0)),
                        ones));
            }
            {
                const __m256i w0 = _mm256_loadu_si256((const void *)(k + n * 8 + step * 32));
                const __m256i magnitude = _mm256_abs_epi8(w0);
                isum0_1 = _mm256_add_epi32(
                    isum0_1,
                    _mm256_madd_epi16(
                        _mm256_maddubs_epi16(
                            magnitude, _mm256_sign_epi8(_mm256_set1_epi32(ml_load_i32(x + step * 4)), w0)),
                        ones));
                isum1_1 = _mm256_add_epi32(
                    isum1_1,
                    _mm256_madd_epi16(
                        _mm256_maddubs_epi16(
                            magnitude,
                            _mm256_sign_epi8(_mm256_set1_epi32(ml_load_i32(x + x_stride + step * 4)), w0)),
                        ones));
                isum2_1 = _mm256_add_epi32(
                    isum2_1,
                    _mm256_madd_epi16(
                        _mm256_maddubs_epi16(
                            magnitude, _mm256_sign_epi8(
                                           _mm256_set1_epi32(ml_load_i32(x + 2 * x_stride + step * 4)), w0)),
                        ones));
            }
        }
        const __m256 k_scale0 = _mm256_loadu_ps(dk + t);
        _mm256_storeu_ps(s + t, _mm256_mul_ps(_mm256_cvtepi32_ps(isum0_0),
                                              _mm256_mul_ps(_mm256_set1_ps(dq[0]), k_scale0)));
        _mm256_storeu_ps((s + s_stride) + t, _mm256_mul_ps(_mm256_cvtepi32_ps(isum1_0),
                                                           _mm256_mul_ps(_mm256_set1_ps(dq[1]), k_scale0)));
        _mm256_storeu_ps(
            (s + 2 * s_stride) + t,
            _mm256_mul_ps(_mm256_cvtepi32_ps(isum2_0), _mm256_mul_ps(_mm256_set1_ps(dq[2]), k_scale0)));
        const __m256 k_scale1 = _mm256_loadu_ps(dk + (t + 8));
        _mm256_storeu_ps(s + (t + 8), _mm256_mul_ps(_mm256_cvtepi32_ps(isum0_1),
                                                    _mm256_mul_ps(_mm256_set1_ps(dq[0]), k_scale1)));
        _mm256_storeu_ps(
            (s + s_stride) + (t + 8),
            _mm256_mul_ps(_mm256_cvtepi32_ps(isum1_1), _mm256_mul_ps(_mm256_set1_ps(dq[1]), k_scale1)));
        _mm256_storeu_ps(
            (s + 2 * s_stride) + (t + 8),
            _mm256_mul_ps(_mm256_cvtepi32_ps(isum2_1), _mm256_mul_ps(_mm256_set1_ps(dq[2]), k_scale1)));
        k += n * 16;
    }
}

/* 1 query against the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_1(float *s, const int8_t *x, const float *dq, const int32_t *xs, const uint8_t *k,
                      const float *dk, int n)
{
    const __m256i ones = _mm256_set1_epi16(1);
    (void)xs; /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 32) {
        __m256i isum0_0 = _mm256_setzero_si256();
        __m256i isum0_1 = _mm256_setzero_si256();
        __m256i isum0_2 = _mm256_setzero_si256();
        __m256i isum0_3 = _mm256_setzero_si256();
        for (int step = 0; step < n / 4; step++) {
            {
                const __m256i w0 = _mm256_loadu_si256((const void *)(k + step * 32));
                const __m256i magnitude = _mm256_abs_epi8(w0);
                isum0_0 = _mm256_add_epi32(
                    isum0_0,
                    _mm256_madd_epi16(
                        _mm256_maddubs_epi16(
                            magnitude, _mm256_sign_epi8(_mm256_set1_epi32(ml_load_i32(x + step * 4)), w0)),
                        ones));
            }
            {
                const __m256i w0 = _mm256_loadu_si256((const void *)(k + n * 8 + step * 32));
                const __m256i magnitude = _mm256_abs_epi8(w0);
                isum0_1 = _mm256_add_epi32(
                    isum0_1,
                    _mm256_madd_epi16(
                        _mm256_maddubs_epi16(
                            magnitude, _mm256_sign_epi8(_mm256_set1_epi32(ml_load_i32(x + step * 4)), w0)),
                        ones));
            }
            {
                const __m256i w0 = _mm256_loadu_si256((const void *)(k + n * 16 + step * 32));
                const __m256i magnitude = _mm256_abs_epi8(w0);
                isum0_2 = _mm256_add_epi32(
                    isum0_2,
                    _mm256_madd_epi16(
                        _mm256_maddubs_epi16(
                            magnitude, _mm256_sign_epi8(_mm256_set1_epi32(ml_load_i32(x + step * 4)), w0)),
                        ones));
            }
            {
                const __m256i w0 = _mm256_loadu_si256((const void *)(k + n * 24 + step * 32));
                const __m256i magnitude = _mm256_abs_epi8(w0);
                isum0_3 = _mm256_add_epi32(
                    isum0_3,
                    _mm256_madd_epi16(
                        _mm256_maddubs_epi16(
                            magnitude, _mm256_sign_epi8(_mm256_set1_epi32(ml_load_i32(x + step * 4)), w0)),
                        ones));
            }
        }
        const __m256 k_scale0 = _mm256_loadu_ps(dk + t);
        _mm256_storeu_ps(s + t, _mm256_mul_ps(_mm256_cvtepi32_ps(isum0_0),
                                              _mm256_mul_ps(_mm256_set1_ps(dq[0]), k_scale0)));
        const __m256 k_scale1 = _mm256_loadu_ps(dk + (t + 8));
        _mm256_storeu_ps(s + (t + 8), _mm256_mul_ps(_mm256_cvtepi32_ps(isum0_1),
                                                    _mm256_mul_ps(_mm256_set1_ps(dq[0]), k_scale1)));
        const __m256 k_scale2 = _mm256_loadu_ps(dk + (t + 16));
        _mm256_storeu_ps(s + (t + 16), _mm256_mul_ps(_mm256_cvtepi32_ps(isum0_2),
                                                     _mm256_mul_ps(_mm256_set1_ps(dq[0]), k_scale2)));
        const __m256 k_scale3 = _mm256_loadu_ps(dk + (t + 24));
        _mm256_storeu_ps(s + (t + 24), _mm256_mul_ps(_mm256_cvtepi32_ps(isum0_3),
                                                     _mm256_mul_ps(_mm256_set1_ps(dq[0]), k_scale3)));
        k += n * 32;
    }
}

void ml_k_dot_q8_avx2(float *s, size_t s_stride, const int8_t *xt, const float *dq, const int32_t *xs,
                      int queries, const uint8_t *k, const float *dk, int n)
{
    const size_t x_stride = (size_t)n / ML_BLOCK * 32;
    int i = 0;
    for (; i + 6 <= queries; i += 6)
        queries_6(s + (size_t)i * s_stride, s_stride, xt + (size_t)i * x_stride, x_stride, dq + i, xs + i, k,
                  dk, n);
    for (; i + 3 <= queries; i += 3)
        queries_3(s + (size_t)i * s_stride, s_stride, xt + (size_t)i * x_stride, x_stride, dq + i, xs + i, k,
                  dk, n);
    for (; i + 1 <= queries; i += 1)
        queries_1(s + (size_t)i * s_stride, xt + (size_t)i * x_stride, dq + i, xs + i, k, dk, n);
}
