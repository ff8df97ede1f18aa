/*
 * ml_k_rmsnorm_sse2
 * o = x / sqrt(mean(x^2) + eps) * w.
 *
 * Written by krafla-gen from templates/rmsnorm.c.j2 and isa_specs/sse2.py (facets: f32, reduce); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

void ml_k_rmsnorm_sse2(float *o, const float *x, const float *w, int n, float eps)
{
    __m128 p0 = _mm_set1_ps(0.0f);
    __m128 p1 = _mm_set1_ps(0.0f);
    __m128 p2 = _mm_set1_ps(0.0f);
    __m128 p3 = _mm_set1_ps(0.0f);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        p0 = _mm_add_ps(_mm_mul_ps(_mm_loadu_ps(x + i), _mm_loadu_ps(x + i)), p0);
        p1 = _mm_add_ps(_mm_mul_ps(_mm_loadu_ps(x + (i + 4)), _mm_loadu_ps(x + (i + 4))), p1);
        p2 = _mm_add_ps(_mm_mul_ps(_mm_loadu_ps(x + (i + 8)), _mm_loadu_ps(x + (i + 8))), p2);
        p3 = _mm_add_ps(_mm_mul_ps(_mm_loadu_ps(x + (i + 12)), _mm_loadu_ps(x + (i + 12))), p3);
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
            partial[i & 15] = ml_madd(x[i], x[i], partial[i & 15]);
        sum = ml_fold16(partial);
    }
    const float inverse = 1.0f / sqrtf(sum / (float)n + eps);
    int j = 0;
    for (; j + 4 <= n; j += 4) {
        _mm_storeu_ps(o + j,
                      _mm_mul_ps(_mm_mul_ps(_mm_loadu_ps(x + j), _mm_set1_ps(inverse)), _mm_loadu_ps(w + j)));
    }
    for (; j < n; j++) { /* the rest, one by one */
        o[j] = ((x[j] * inverse) * w[j]);
    }
}
