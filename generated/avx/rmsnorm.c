/*
 * ml_k_rmsnorm_avx
 * o = x / sqrt(mean(x^2) + eps) * w.
 *
 * Written by krafla-gen from templates/rmsnorm.c.j2 and isa_specs/avx.py (facets: f32, reduce); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

void ml_k_rmsnorm_avx(float *o, const float *x, const float *w, int n, float eps)
{
    __m256 p0 = _mm256_set1_ps(0.0f);
    __m256 p1 = _mm256_set1_ps(0.0f);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        p0 = _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(x + i)), p0);
        p1 = _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(x + (i + 8)), _mm256_loadu_ps(x + (i + 8))), p1);
    }
    float sum;
    if (i == n) {
        sum = ml_fold16_256(p0, p1);
    } else {
        float partial[16];
        _mm256_storeu_ps(partial, p0);
        _mm256_storeu_ps(partial + 8, p1);
        for (; i < n; i++)
            partial[i & 15] = ml_madd(x[i], x[i], partial[i & 15]);
        sum = ml_fold16(partial);
    }
    const float inverse = 1.0f / sqrtf(sum / (float)n + eps);
    int j = 0;
    for (; j + 8 <= n; j += 8) {
        _mm256_storeu_ps(o + j, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + j), _mm256_set1_ps(inverse)),
                                              _mm256_loadu_ps(w + j)));
    }
    for (; j < n; j++) { /* the rest, one by one */
        o[j] = ((x[j] * inverse) * w[j]);
    }
}
