/*
 * ml_k_rmsnorm_avx512vnni
 * o = x / sqrt(mean(x^2) + eps) * w.
 *
 * Written by krafla-gen from templates/rmsnorm.c.j2 and isa_specs/avx512vnni.py (facets: f32, reduce); do not
 * edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

void ml_k_rmsnorm_avx512vnni(float *o, const float *x, const float *w, int n, float eps)
{
    __m512 p0 = _mm512_set1_ps(0.0f);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        p0 = _mm512_fmadd_ps(_mm512_loadu_ps(x + i), _mm512_loadu_ps(x + i), p0);
    }
    float sum;
    if (i == n) {
        sum = ml_fold16_512(p0);
    } else {
        float partial[16];
        _mm512_storeu_ps(partial, p0);
        for (; i < n; i++)
            partial[i & 15] = ml_madd(x[i], x[i], partial[i & 15]);
        sum = ml_fold16(partial);
    }
    const float inverse = 1.0f / sqrtf(sum / (float)n + eps);
    int j = 0;
    for (; j + 16 <= n; j += 16) {
        _mm512_storeu_ps(o + j, _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(x + j), _mm512_set1_ps(inverse)),
                                              _mm512_loadu_ps(w + j)));
    }
    for (; j < n; j++) { /* the rest, one by one */
        o[j] = ((x[j] * inverse) * w[j]);
    }
}
