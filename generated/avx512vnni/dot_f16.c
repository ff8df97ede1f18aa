/*
 * ml_k_dot_f16_avx512vnni
 * Scores: s[t] = q . k[t] over f16 rows.
 *
 * Written by krafla-gen from templates/dot.c.j2 and isa_specs/avx512vnni.py (facets: f16, f32, reduce); do
 * not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

static float one_row(const float *q, const uint16_t *k, int n)
{
    __m512 p0 = _mm512_set1_ps(0.0f);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        p0 = _mm512_fmadd_ps(_mm512_loadu_ps(q + i),
                             _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(k + i))), p0);
    }
    float sum;
    if (i == n) {
        sum = ml_fold16_512(p0);
    } else {
        float partial[16];
        _mm512_storeu_ps(partial, p0);
        for (; i < n; i++)
            partial[i & 15] = ml_madd(q[i], ml_f16_to_f32(k[i]), partial[i & 15]);
        sum = ml_fold16(partial);
    }
    return sum;
}

void ml_k_dot_f16_avx512vnni(float *s, const float *q, const uint16_t *k, size_t stride, int rows, int n)
{
    for (int t = 0; t < rows; t++)
        s[t] = one_row(q, k + (size_t)t * stride, n);
}
