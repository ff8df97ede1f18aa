/*
 * ml_k_dot_f16_sse2
 * Scores s[query][position] = q[query] . k[position] over one page of f16 keys.
 *
 * Written by krafla-gen from templates/dot.c.j2 and isa_specs/sse2.py (facets: f32, f16); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* 4 queries share the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_4(float *s, size_t s_stride, const float *q, size_t q_stride, const uint16_t *k, int n)
{
    for (int t = 0; t < 64; t += 8) {
        __m128 sum0_0 = _mm_set1_ps(0.0f);
        __m128 sum0_1 = _mm_set1_ps(0.0f);
        __m128 sum1_0 = _mm_set1_ps(0.0f);
        __m128 sum1_1 = _mm_set1_ps(0.0f);
        __m128 sum2_0 = _mm_set1_ps(0.0f);
        __m128 sum2_1 = _mm_set1_ps(0.0f);
        __m128 sum3_0 = _mm_set1_ps(0.0f);
        __m128 sum3_1 = _mm_set1_ps(0.0f);
        for (int d = 0; d < n; d++) {
            const __m128 k0 = ml_load_f16_128((k + d * ML_PAGE) + t);
            const __m128 k1 = ml_load_f16_128((k + d * ML_PAGE) + (t + 4));
            const __m128 q0 = _mm_set1_ps(q[d]);
            sum0_0 = _mm_add_ps(_mm_mul_ps(q0, k0), sum0_0);
            sum0_1 = _mm_add_ps(_mm_mul_ps(q0, k1), sum0_1);
            const __m128 q1 = _mm_set1_ps(q[q_stride + (size_t)d]);
            sum1_0 = _mm_add_ps(_mm_mul_ps(q1, k0), sum1_0);
            sum1_1 = _mm_add_ps(_mm_mul_ps(q1, k1), sum1_1);
            const __m128 q2 = _mm_set1_ps(q[2 * q_stride + (size_t)d]);
            sum2_0 = _mm_add_ps(_mm_mul_ps(q2, k0), sum2_0);
            sum2_1 = _mm_add_ps(_mm_mul_ps(q2, k1), sum2_1);
            const __m128 q3 = _mm_set1_ps(q[3 * q_stride + (size_t)d]);
            sum3_0 = _mm_add_ps(_mm_mul_ps(q3, k0), sum3_0);
            sum3_1 = _mm_add_ps(_mm_mul_ps(q3, k1), sum3_1);
        }
        _mm_storeu_ps(s + t, sum0_0);
        _mm_storeu_ps(s + (t + 4), sum0_1);
        _mm_storeu_ps((s + s_stride) + t, sum1_0);
        _mm_storeu_ps((s + s_stride) + (t + 4), sum1_1);
        _mm_storeu_ps((s + 2 * s_stride) + t, sum2_0);
        _mm_storeu_ps((s + 2 * s_stride) + (t + 4), sum2_1);
        _mm_storeu_ps((s + 3 * s_stride) + t, sum3_0);
        _mm_storeu_ps((s + 3 * s_stride) + (t + 4), sum3_1);
    }
}

/* 2 queries share the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_2(float *s, size_t s_stride, const float *q, size_t q_stride, const uint16_t *k, int n)
{
    for (int t = 0; t < 64; t += 8) {
        __m128 sum0_0 = _mm_set1_ps(0.0f);
        __m128 sum0_1 = _mm_set1_ps(0.0f);
        __m128 sum1_0 = _mm_set1_ps(0.0f);
        __m128 sum1_1 = _mm_set1_ps(0.0f);
        for (int d = 0; d < n; d++) {
            const __m128 k0 = ml_load_f16_128((k + d * ML_PAGE) + t);
            const __m128 k1 = ml_load_f16_128((k + d * ML_PAGE) + (t + 4));
            const __m128 q0 = _mm_set1_ps(q[d]);
            sum0_0 = _mm_add_ps(_mm_mul_ps(q0, k0), sum0_0);
            sum0_1 = _mm_add_ps(_mm_mul_ps(q0, k1), sum0_1);
            const __m128 q1 = _mm_set1_ps(q[q_stride + (size_t)d]);
            sum1_0 = _mm_add_ps(_mm_mul_ps(q1, k0), sum1_0);
            sum1_1 = _mm_add_ps(_mm_mul_ps(q1, k1), sum1_1);
        }
        _mm_storeu_ps(s + t, sum0_0);
        _mm_storeu_ps(s + (t + 4), sum0_1);
        _mm_storeu_ps((s + s_stride) + t, sum1_0);
        _mm_storeu_ps((s + s_stride) + (t + 4), sum1_1);
    }
}

/* 1 query against the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_1(float *s, const float *q, const uint16_t *k, int n)
{
    for (int t = 0; t < 64; t += 8) {
        __m128 sum0_0 = _mm_set1_ps(0.0f);
        __m128 sum0_1 = _mm_set1_ps(0.0f);
        for (int d = 0; d < n; d++) {
            const __m128 k0 = ml_load_f16_128((k + d * ML_PAGE) + t);
            const __m128 k1 = ml_load_f16_128((k + d * ML_PAGE) + (t + 4));
            const __m128 q0 = _mm_set1_ps(q[d]);
            sum0_0 = _mm_add_ps(_mm_mul_ps(q0, k0), sum0_0);
            sum0_1 = _mm_add_ps(_mm_mul_ps(q0, k1), sum0_1);
        }
        _mm_storeu_ps(s + t, sum0_0);
        _mm_storeu_ps(s + (t + 4), sum0_1);
    }
}

void ml_k_dot_f16_sse2(float *s, size_t s_stride, const float *q, size_t q_stride, int queries,
                       const uint16_t *k, int n)
{
    int i = 0;
    for (; i + 4 <= queries; i += 4)
        queries_4(s + (size_t)i * s_stride, s_stride, q + (size_t)i * q_stride, q_stride, k, n);
    for (; i + 2 <= queries; i += 2)
        queries_2(s + (size_t)i * s_stride, s_stride, q + (size_t)i * q_stride, q_stride, k, n);
    for (; i + 1 <= queries; i += 1)
        queries_1(s + (size_t)i * s_stride, q + (size_t)i * q_stride, k, n);
}
