/*
 * ml_k_dot_q8_sse2
 * Scores s[query][position] = q[query] . k[position] over one page of q8 keys.
 *
 * Written by krafla-gen from templates/dot_q8.c.j2 and isa_specs/sse2.py (facets: f32, pack); do not edit.
 *
 * There is no 8-bit multiply. A 16-bit lane of a weight step holds two bytes of one row; they are split
 * into the even byte (w & 0xff) and the odd byte (w >> 8, logical), and pair sums of 16-bit products give
 * one partial sum per row. That needs unsigned weights: Q8 is stored with +128, and -128 * sum(x) is
 * added. Activations are expanded once per call into matching broadcast pairs, so the inner loop has no
 * shuffles, which matters on CPUs with one shuffle port.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* 4 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_4(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{
    const __m128i even_mask = _mm_set1_epi16(0x00ff);
    for (int t = 0; t < ML_PAGE; t += 4) {
        __m128i isum0_0 = _mm_set1_epi32(xs[0]);
        __m128i isum1_0 = _mm_set1_epi32(xs[1]);
        __m128i isum2_0 = _mm_set1_epi32(xs[2]);
        __m128i isum3_0 = _mm_set1_epi32(xs[3]);
        for (int step = 0; step < n / 4; step++) {
            {
                const __m128i packed = _mm_loadu_si128((const void *)(k + step * 16));
                const __m128i even0 = _mm_and_si128(packed, even_mask);
                const __m128i odd0 = _mm_srli_epi16(packed, 8);
                isum0_0 = _mm_add_epi32(
                    isum0_0,
                    _mm_add_epi32(_mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + step * 32))),
                                  _mm_madd_epi16(odd0, _mm_loadu_si128((const void *)(x + step * 32 + 16)))));
                isum1_0 = _mm_add_epi32(
                    isum1_0,
                    _mm_add_epi32(
                        _mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + x_stride + step * 32))),
                        _mm_madd_epi16(odd0,
                                       _mm_loadu_si128((const void *)(x + x_stride + step * 32 + 16)))));
                isum2_0 = _mm_add_epi32(
                    isum2_0,
                    _mm_add_epi32(
                        _mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + 2 * x_stride + step * 32))),
                        _mm_madd_epi16(odd0,
                                       _mm_loadu_si128((const void *)(x + 2 * x_stride + step * 32 + 16)))));
                isum3_0 = _mm_add_epi32(
                    isum3_0,
                    _mm_add_epi32(
                        _mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + 3 * x_stride + step * 32))),
                        _mm_madd_epi16(odd0,
                                       _mm_loadu_si128((const void *)(x + 3 * x_stride + step * 32 + 16)))));
            }
        }
        const __m128 k_scale0 = _mm_loadu_ps(dk + t);
        _mm_storeu_ps(s + t, _mm_mul_ps(_mm_cvtepi32_ps(isum0_0), _mm_mul_ps(_mm_set1_ps(dq[0]), k_scale0)));
        _mm_storeu_ps((s + s_stride) + t,
                      _mm_mul_ps(_mm_cvtepi32_ps(isum1_0), _mm_mul_ps(_mm_set1_ps(dq[1]), k_scale0)));
        _mm_storeu_ps((s + 2 * s_stride) + t,
                      _mm_mul_ps(_mm_cvtepi32_ps(isum2_0), _mm_mul_ps(_mm_set1_ps(dq[2]), k_scale0)));
        _mm_storeu_ps((s + 3 * s_stride) + t,
                      _mm_mul_ps(_mm_cvtepi32_ps(isum3_0), _mm_mul_ps(_mm_set1_ps(dq[3]), k_scale0)));
        k += n * 4;
    }
}

/* 2 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_2(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{
    const __m128i even_mask = _mm_set1_epi16(0x00ff);
    for (int t = 0; t < ML_PAGE; t += 8) {
        __m128i isum0_0 = _mm_set1_epi32(xs[0]);
        __m128i isum0_1 = _mm_set1_epi32(xs[0]);
        __m128i isum1_0 = _mm_set1_epi32(xs[1]);
        __m128i isum1_1 = _mm_set1_epi32(xs[1]);
        for (int step = 0; step < n / 4; step++) {
            {
                const __m128i packed = _mm_loadu_si128((const void *)(k + step * 16));
                const __m128i even0 = _mm_and_si128(packed, even_mask);
                const __m128i odd0 = _mm_srli_epi16(packed, 8);
                isum0_0 = _mm_add_epi32(
                    isum0_0,
                    _mm_add_epi32(_mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + step * 32))),
                                  _mm_madd_epi16(odd0, _mm_loadu_si128((const void *)(x + step * 32 + 16)))));
                isum1_0 = _mm_add_epi32(
                    isum1_0,
                    _mm_add_epi32(
                        _mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + x_stride + step * 32))),
                        _mm_madd_epi16(odd0,
                                       _mm_loadu_si128((const void *)(x + x_stride + step * 32 + 16)))));
            }
            {
                const __m128i packed = _mm_loadu_si128((const void *)(k + n * 4 + step * 16));
                const __m128i even0 = _mm_and_si128(packed, even_mask);
                const __m128i odd0 = _mm_srli_epi16(packed, 8);
                isum0_1 = _mm_add_epi32(
                    isum0_1,
                    _mm_add_epi32(_mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + step * 32))),
                                  _mm_madd_epi16(odd0, _mm_loadu_si128((const void *)(x + step * 32 + 16)))));
                isum1_1 = _mm_add_epi32(
                    isum1_1,
                    _mm_add_epi32(
                        _mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + x_stride + step * 32))),
                        _mm_madd_epi16(odd0,
                                       _mm_loadu_si128((const void *)(x + x_stride + step * 32 + 16)))));
            }
        }
        const __m128 k_scale0 = _mm_loadu_ps(dk + t);
        _mm_storeu_ps(s + t, _mm_mul_ps(_mm_cvtepi32_ps(isum0_0), _mm_mul_ps(_mm_set1_ps(dq[0]), k_scale0)));
        _mm_storeu_ps((s + s_stride) + t,
                      _mm_mul_ps(_mm_cvtepi32_ps(isum1_0), _mm_mul_ps(_mm_set1_ps(dq[1]), k_scale0)));
        const __m128 k_scale1 = _mm_loadu_ps(dk + (t + 4));
        _mm_storeu_ps(s + (t + 4),
                      _mm_mul_ps(_mm_cvtepi32_ps(isum0_1), _mm_mul_ps(_mm_set1_ps(dq[0]), k_scale1)));
        _mm_storeu_ps((s + s_stride) + (t + 4),
                      _mm_mul_ps(_mm_cvtepi32_ps(isum1_1), _mm_mul_ps(_mm_set1_ps(dq[1]), k_scale1)));
        k += n * 8;
    }
}

/* 1 query against the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_1(float *s, const int8_t *x, const float *dq, const int32_t *xs, const uint8_t *k,
                      const float *dk, int n)
{
    const __m128i even_mask = _mm_set1_epi16(0x00ff);
    for (int t = 0; t < ML_PAGE; t += 16) {
        __m128i isum0_0 = _mm_set1_epi32(xs[0]);
        __m128i isum0_1 = _mm_set1_epi32(xs[0]);
        __m128i isum0_2 = _mm_set1_epi32(xs[0]);
        __m128i isum0_3 = _mm_set1_epi32(xs[0]);
        for (int step = 0; step < n / 4; step++) {
            {
                const __m128i packed = _mm_loadu_si128((const void *)(k + step * 16));
                const __m128i even0 = _mm_and_si128(packed, even_mask);
                const __m128i odd0 = _mm_srli_epi16(packed, 8);
                isum0_0 = _mm_add_epi32(
                    isum0_0,
                    _mm_add_epi32(_mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + step * 32))),
                                  _mm_madd_epi16(odd0, _mm_loadu_si128((const void *)(x + step * 32 + 16)))));
            }
            {
                const __m128i packed = _mm_loadu_si128((const void *)(k + n * 4 + step * 16));
                const __m128i even0 = _mm_and_si128(packed, even_mask);
                const __m128i odd0 = _mm_srli_epi16(packed, 8);
                isum0_1 = _mm_add_epi32(
                    isum0_1,
                    _mm_add_epi32(_mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + step * 32))),
                                  _mm_madd_epi16(odd0, _mm_loadu_si128((const void *)(x + step * 32 + 16)))));
            }
            {
                const __m128i packed = _mm_loadu_si128((const void *)(k + n * 8 + step * 16));
                const __m128i even0 = _mm_and_si128(packed, even_mask);
                const __m128i odd0 = _mm_srli_epi16(packed, 8);
                isum0_2 = _mm_add_epi32(
                    isum0_2,
                    _mm_add_epi32(_mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + step * 32))),
                                  _mm_madd_epi16(odd0, _mm_loadu_si128((const void *)(x + step * 32 + 16)))));
            }
            {
                const __m128i packed = _mm_loadu_si128((const void *)(k + n * 12 + step * 16));
                const __m128i even0 = _mm_and_si128(packed, even_mask);
                const __m128i odd0 = _mm_srli_epi16(packed, 8);
                isum0_3 = _mm_add_epi32(
                    isum0_3,
                    _mm_add_epi32(_mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + step * 32))),
                                  _mm_madd_epi16(odd0, _mm_loadu_si128((const void *)(x + step * 32 + 16)))));
            }
        }
        const __m128 k_scale0 = _mm_loadu_ps(dk + t);
        _mm_storeu_ps(s + t, _mm_mul_ps(_mm_cvtepi32_ps(isum0_0), _mm_mul_ps(_mm_set1_ps(dq[0]), k_scale0)));
        const __m128 k_scale1 = _mm_loadu_ps(dk + (t + 4));
        _mm_storeu_ps(s + (t + 4),
                      _mm_mul_ps(_mm_cvtepi32_ps(isum0_1), _mm_mul_ps(_mm_set1_ps(dq[0]), k_scale1)));
        const __m128 k_scale2 = _mm_loadu_ps(dk + (t + 8));
        _mm_storeu_ps(s + (t + 8),
                      _mm_mul_ps(_mm_cvtepi32_ps(isum0_2), _mm_mul_ps(_mm_set1_ps(dq[0]), k_scale2)));
        const __m128 k_scale3 = _mm_loadu_ps(dk + (t + 12));
        _mm_storeu_ps(s + (t + 12),
                      _mm_mul_ps(_mm_cvtepi32_ps(isum0_3), _mm_mul_ps(_mm_set1_ps(dq[0]), k_scale3)));
        k += n * 16;
    }
}

void ml_k_dot_q8_sse2(float *s, size_t s_stride, const int8_t *xt, const float *dq, const int32_t *xs,
                      int queries, const uint8_t *k, const float *dk, int n)
{
    const size_t x_stride = (size_t)n / ML_BLOCK * 256;
    int i = 0;
    for (; i + 4 <= queries; i += 4)
        queries_4(s + (size_t)i * s_stride, s_stride, xt + (size_t)i * x_stride, x_stride, dq + i, xs + i, k,
                  dk, n);
    for (; i + 2 <= queries; i += 2)
        queries_2(s + (size_t)i * s_stride, s_stride, xt + (size_t)i * x_stride, x_stride, dq + i, xs + i, k,
                  dk, n);
    for (; i + 1 <= queries; i += 1)
        queries_1(s + (size_t)i * s_stride, xt + (size_t)i * x_stride, dq + i, xs + i, k, dk, n);
}
