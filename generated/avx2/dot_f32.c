/*
 * ml_k_dot_f32_avx2
 * Scores: s[t] = q . k[t] over f32 rows.
 *
 * Written by krafla-gen from templates/dot.c.j2 and isa_specs/avx2.py (facets: f32, reduce); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

static float one_row(const float *q, const float *k, int n)
{
    __m256 p0 = _mm256_set1_ps(0.0f);
    __m256 p1 = _mm256_set1_ps(0.0f);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        p0 = _mm256_fmadd_ps(_mm256_loadu_ps(q + i), _mm256_loadu_ps(k + i), p0);
        p1 = _mm256_fmadd_ps(_mm256_loadu_ps(q + (i + 8)), _mm256_loadu_ps(k + (i + 8)), p1);
    }
    float sum;
    if (i == n) {
        sum = ml_fold16_256(p0, p1);
    } else {
        float partial[16];
        _mm256_storeu_ps(partial, p0);
        _mm256_storeu_ps(partial + 8, p1);
        for (; i < n; i++)
            partial[i & 15] = ml_madd(q[i], k[i], partial[i & 15]);
        sum = ml_fold16(partial);
    }
    return sum;
}

void ml_k_dot_f32_avx2(float *s, const float *q, const float *k, size_t stride, int rows, int n)
{
    for (int t = 0; t < rows; t++)
        s[t] = one_row(q, k + (size_t)t * stride, n);
}
