/*
 * ml_k_dot_f16_sse2
 * Scores: s[t] = q . k[t] over f16 rows.
 *
 * Written by krafla-gen from templates/dot.c.j2 and isa_specs/sse2.py (facets: f16, f32, reduce); do not
 * edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

static float one_row(const float *q, const uint16_t *k, int n)
{
    __m128 p0 = _mm_set1_ps(0.0f);
    __m128 p1 = _mm_set1_ps(0.0f);
    __m128 p2 = _mm_set1_ps(0.0f);
    __m128 p3 = _mm_set1_ps(0.0f);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        p0 = _mm_add_ps(_mm_mul_ps(_mm_loadu_ps(q + i), ml_load_f16_128(k + i)), p0);
        p1 = _mm_add_ps(_mm_mul_ps(_mm_loadu_ps(q + (i + 4)), ml_load_f16_128(k + (i + 4))), p1);
        p2 = _mm_add_ps(_mm_mul_ps(_mm_loadu_ps(q + (i + 8)), ml_load_f16_128(k + (i + 8))), p2);
        p3 = _mm_add_ps(_mm_mul_ps(_mm_loadu_ps(q + (i + 12)), ml_load_f16_128(k + (i + 12))), p3);
    }
    float sum;
    if (i == n) {
        sum = ml_fold16_128(p0, p1, p2, p3);
    } else {
        float partial[16];
        _mm_storeu_ps(partial, p0);
        _mm_storeu_ps(partial + 4, p1);
        _mm_storeu_ps(partial + 8, p2);
        _mm_storeu_ps(partial + 12, p3);
        for (; i < n; i++)
            partial[i & 15] = ml_madd(q[i], ml_f16_to_f32(k[i]), partial[i & 15]);
        sum = ml_fold16(partial);
    }
    return sum;
}

void ml_k_dot_f16_sse2(float *s, const float *q, const uint16_t *k, size_t stride, int rows, int n)
{
    for (int t = 0; t < rows; t++)
        s[t] = one_row(q, k + (size_t)t * stride, n);
}
