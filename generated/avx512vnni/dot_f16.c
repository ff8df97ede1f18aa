/*
 * ml_k_dot_f16_avx512vnni
 * Scores s[query][position] = q[query] . k[position] over one page of f16 keys.
 *
 * Written by krafla-gen from templates/dot.c.j2 and isa_specs/avx512vnni.py (facets: f32, f16); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* 6 queries share the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_6(float *s, size_t s_stride, const float *q, size_t q_stride, const uint16_t *k, int n)
{
    for (int t = 0; t < 64; t += 64) {
        __m512 sum0_0 = _mm512_set1_ps(0.0f);
        __m512 sum0_1 = _mm512_set1_ps(0.0f);
        __m512 sum0_2 = _mm512_set1_ps(0.0f);
        __m512 sum0_3 = _mm512_set1_ps(0.0f);
        __m512 sum1_0 = _mm512_set1_ps(0.0f);
        __m512 sum1_1 = _mm512_set1_ps(0.0f);
        __m512 sum1_2 = _mm512_set1_ps(0.0f);
        __m512 sum1_3 = _mm512_set1_ps(0.0f);
        __m512 sum2_0 = _mm512_set1_ps(0.0f);
        __m512 sum2_1 = _mm512_set1_ps(0.0f);
        __m512 sum2_2 = _mm512_set1_ps(0.0f);
        __m512 sum2_3 = _mm512_set1_ps(0.0f);
        __m512 sum3_0 = _mm512_set1_ps(0.0f);
        __m512 sum3_1 = _mm512_set1_ps(0.0f);
        __m512 sum3_2 = _mm512_set1_ps(0.0f);
        __m512 sum3_3 = _mm512_set1_ps(0.0f);
        __m512 sum4_0 = _mm512_set1_ps(0.0f);
        __m512 sum4_1 = _mm512_set1_ps(0.0f);
        __m512 sum4_2 = _mm512_set1_ps(0.0f);
        __m512 sum4_3 = _mm512_set1_ps(0.0f);
        __m512 sum5_0 = _mm512_set1_ps(0.0f);
        __m512 sum5_1 = _mm512_set1_ps(0.0f);
        __m512 sum5_2 = _mm512_set1_ps(0.0f);
        __m512 sum5_3 = _mm512_set1_ps(0.0f);
        for (int d = 0; d < n; d++) {
            const __m512 k0 = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((k + d * ML_PAGE) + t)));
            const __m512 k1 =
                _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((k + d * ML_PAGE) + (t + 16))));
            const __m512 k2 =
                _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((k + d * ML_PAGE) + (t + 32))));
            const __m512 k3 =
                _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((k + d * ML_PAGE) + (t + 48))));
            const __m512 q0 = _mm512_set1_ps(q[d]);
            sum0_0 = _mm512_fmadd_ps(q0, k0, sum0_0);
            sum0_1 = _mm512_fmadd_ps(q0, k1, sum0_1);
            sum0_2 = _mm512_fmadd_ps(q0, k2, sum0_2);
            sum0_3 = _mm512_fmadd_ps(q0, k3, sum0_3);
            const __m512 q1 = _mm512_set1_ps(q[q_stride + (size_t)d]);
            sum1_0 = _mm512_fmadd_ps(q1, k0, sum1_0);
            sum1_1 = _mm512_fmadd_ps(q1, k1, sum1_1);
            sum1_2 = _mm512_fmadd_ps(q1, k2, sum1_2);
            sum1_3 = _mm512_fmadd_ps(q1, k3, sum1_3);
            const __m512 q2 = _mm512_set1_ps(q[2 * q_stride + (size_t)d]);
            sum2_0 = _mm512_fmadd_ps(q2, k0, sum2_0);
            sum2_1 = _mm512_fmadd_ps(q2, k1, sum2_1);
            sum2_2 = _mm512_fmadd_ps(q2, k2, sum2_2);
            sum2_3 = _mm512_fmadd_ps(q2, k3, sum2_3);
            const __m512 q3 = _mm512_set1_ps(q[3 * q_stride + (size_t)d]);
            sum3_0 = _mm512_fmadd_ps(q3, k0, sum3_0);
            sum3_1 = _mm512_fmadd_ps(q3, k1, sum3_1);
            sum3_2 = _mm512_fmadd_ps(q3, k2, sum3_2);
            sum3_3 = _mm512_fmadd_ps(q3, k3, sum3_3);
            const __m512 q4 = _mm512_set1_ps(q[4 * q_stride + (size_t)d]);
            sum4_0 = _mm512_fmadd_ps(q4, k0, sum4_0);
            sum4_1 = _mm512_fmadd_ps(q4, k1, sum4_1);
            sum4_2 = _mm512_fmadd_ps(q4, k2, sum4_2);
            sum4_3 = _mm512_fmadd_ps(q4, k3, sum4_3);
            const __m512 q5 = _mm512_set1_ps(q[5 * q_stride + (size_t)d]);
            sum5_0 = _mm512_fmadd_ps(q5, k0, sum5_0);
            sum5_1 = _mm512_fmadd_ps(q5, k1, sum5_1);
            sum5_2 = _mm512_fmadd_ps(q5, k2, sum5_2);
            sum5_3 = _mm512_fmadd_ps(q5, k3, sum5_3);
        }
        _mm512_storeu_ps(s + t, sum0_0);
        _mm512_storeu_ps(s + (t + 16), sum0_1);
        _mm512_storeu_ps(s + (t + 32), sum0_2);
        _mm512_storeu_ps(s + (t + 48), sum0_3);
        _mm512_storeu_ps((s + s_stride) + t, sum1_0);
        _mm512_storeu_ps((s + s_stride) + (t + 16), sum1_1);
        _mm512_storeu_ps((s + s_stride) + (t + 32), sum1_2);
        _mm512_storeu_ps((s + s_stride) + (t + 48), sum1_3);
        _mm512_storeu_ps((s + 2 * s_stride) + t, sum2_0);
        _mm512_storeu_ps((s + 2 * s_stride) + (t + 16), sum2_1);
        _mm512_storeu_ps((s + 2 * s_stride) + (t + 32), sum2_2);
        _mm512_storeu_ps((s + 2 * s_stride) + (t + 48), sum2_3);
        _mm512_storeu_ps((s + 3 * s_stride) + t, sum3_0);
        _mm512_storeu_ps((s + 3 * s_stride) + (t + 16), sum3_1);
        _mm512_storeu_ps((s + 3 * s_stride) + (t + 32), sum3_2);
        _mm512_storeu_ps((s + 3 * s_stride) + (t + 48), sum3_3);
        _mm512_storeu_ps((s + 4 * s_stride) + t, sum4_0);
        _mm512_storeu_ps((s + 4 * s_stride) + (t + 16), sum4_1);
        _mm512_storeu_ps((s + 4 * s_stride) + (t + 32), sum4_2);
        _mm512_storeu_ps((s + 4 * s_stride) + (t + 48), sum4_3);
        _mm512_storeu_ps((s + 5 * s_stride) + t, sum5_0);
        _mm512_storeu_ps((s + 5 * s_stride) + (t + 16), sum5_1);
        _mm512_storeu_ps((s + 5 * s_stride) + (t + 32), sum5_2);
        _mm512_storeu_ps((s + 5 * s_stride) + (t + 48), sum5_3);
    }
}

/* 3 queries share the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_3(float *s, size_t s_stride, const float *q, size_t q_stride, const uint16_t *k, int n)
{
    for (int t = 0; t < 64; t += 64) {
        __m512 sum0_0 = _mm512_set1_ps(0.0f);
        __m512 sum0_1 = _mm512_set1_ps(0.0f);
        __m512 sum0_2 = _mm512_set1_ps(0.0f);
        __m512 sum0_3 = _mm512_set1_ps(0.0f);
        __m512 sum1_0 = _mm512_set1_ps(0.0f);
        __m512 sum1_1 = _mm512_set1_ps(0.0f);
        __m512 sum1_2 = _mm512_set1_ps(0.0f);
        __m512 sum1_3 = _mm512_set1_ps(0.0f);
        __m512 sum2_0 = _mm512_set1_ps(0.0f);
        __m512 sum2_1 = _mm512_set1_ps(0.0f);
        __m512 sum2_2 = _mm512_set1_ps(0.0f);
        __m512 sum2_3 = _mm512_set1_ps(0.0f);
        for (int d = 0; d < n; d++) {
            const __m512 k0 = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((k + d * ML_PAGE) + t)));
            const __m512 k1 =
                _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((k + d * ML_PAGE) + (t + 16))));
            const __m512 k2 =
                _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((k + d * ML_PAGE) + (t + 32))));
            const __m512 k3 =
                _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((k + d * ML_PAGE) + (t + 48))));
            const __m512 q0 = _mm512_set1_ps(q[d]);
            sum0_0 = _mm512_fmadd_ps(q0, k0, sum0_0);
            sum0_1 = _mm512_fmadd_ps(q0, k1, sum0_1);
            sum0_2 = _mm512_fmadd_ps(q0, k2, sum0_2);
            sum0_3 = _mm512_fmadd_ps(q0, k3, sum0_3);
            const __m512 q1 = _mm512_set1_ps(q[q_stride + (size_t)d]);
            sum1_0 = _mm512_fmadd_ps(q1, k0, sum1_0);
            sum1_1 = _mm512_fmadd_ps(q1, k1, sum1_1);
            sum1_2 = _mm512_fmadd_ps(q1, k2, sum1_2);
            sum1_3 = _mm512_fmadd_ps(q1, k3, sum1_3);
            const __m512 q2 = _mm512_set1_ps(q[2 * q_stride + (size_t)d]);
            sum2_0 = _mm512_fmadd_ps(q2, k0, sum2_0);
            sum2_1 = _mm512_fmadd_ps(q2, k1, sum2_1);
            sum2_2 = _mm512_fmadd_ps(q2, k2, sum2_2);
            sum2_3 = _mm512_fmadd_ps(q2, k3, sum2_3);
        }
        _mm512_storeu_ps(s + t, sum0_0);
        _mm512_storeu_ps(s + (t + 16), sum0_1);
        _mm512_storeu_ps(s + (t + 32), sum0_2);
        _mm512_storeu_ps(s + (t + 48), sum0_3);
        _mm512_storeu_ps((s + s_stride) + t, sum1_0);
        _mm512_storeu_ps((s + s_stride) + (t + 16), sum1_1);
        _mm512_storeu_ps((s + s_stride) + (t + 32), sum1_2);
        _mm512_storeu_ps((s + s_stride) + (t + 48), sum1_3);
        _mm512_storeu_ps((s + 2 * s_stride) + t, sum2_0);
        _mm512_storeu_ps((s + 2 * s_stride) + (t + 16), sum2_1);
        _mm512_storeu_ps((s + 2 * s_stride) + (t + 32), sum2_2);
        _mm512_storeu_ps((s + 2 * s_stride) + (t + 48), sum2_3);
    }
}

/* 1 query against the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_1(float *s, const float *q, const uint16_t *k, int n)
{
    for (int t = 0; t < 64; t += 64) {
        __m512 sum0_0 = _mm512_set1_ps(0.0f);
        __m512 sum0_1 = _mm512_set1_ps(0.0f);
        __m512 sum0_2 = _mm512_set1_ps(0.0f);
        __m512 sum0_3 = _mm512_set1_ps(0.0f);
        for (int d = 0; d < n; d++) {
            const __m512 k0 = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((k + d * ML_PAGE) + t)));
            const __m512 k1 =
                _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((k + d * ML_PAGE) + (t + 16))));
            const __m512 k2 =
                _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((k + d * ML_PAGE) + (t + 32))));
            const __m512 k3 =
                _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((k + d * ML_PAGE) + (t + 48))));
            const __m512 q0 = _mm512_set1_ps(q[d]);
            sum0_0 = _mm512_fmadd_ps(q0, k0, sum0_0);
            sum0_1 = _mm512_fmadd_ps(q0, k1, sum0_1);
            sum0_2 = _mm512_fmadd_ps(q0, k2, sum0_2);
            sum0_3 = _mm512_fmadd_ps(q0, k3, sum0_3);
        }
        _mm512_storeu_ps(s + t, sum0_0);
        _mm512_storeu_ps(s + (t + 16), sum0_1);
        _mm512_storeu_ps(s + (t + 32), sum0_2);
        _mm512_storeu_ps(s + (t + 48), sum0_3);
    }
}

void ml_k_dot_f16_avx512vnni(float *s, size_t s_stride, const float *q, size_t q_stride, int queries,
                             const uint16_t *k, int n)
{
    int i = 0;
    for (; i + 6 <= queries; i += 6)
        queries_6(s + (size_t)i * s_stride, s_stride, q + (size_t)i * q_stride, q_stride, k, n);
    for (; i + 3 <= queries; i += 3)
        queries_3(s + (size_t)i * s_stride, s_stride, q + (size_t)i * q_stride, q_stride, k, n);
    for (; i + 1 <= queries; i += 1)
        queries_1(s + (size_t)i * s_stride, q + (size_t)i * q_stride, k, n);
}
