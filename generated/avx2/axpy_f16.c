/*
 * ml_k_axpy_f16_avx2
 * Weighted sum: y += sum of p[t] v[t] over f16 rows, in increasing t.
 *
 * Written by krafla-gen from templates/axpy.c.j2 and isa_specs/avx2.py (facets: f16, f32); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

void ml_k_axpy_f16_avx2(float *y, const float *p, const uint16_t *v, size_t stride, int rows, int n)
{
    int j = 0;
    for (; j + 8 <= n; j += 8) {
        __m256 sum = _mm256_loadu_ps(y + j); /* stays in a register across the rows */
        for (int t = 0; t < rows; t++)
            sum = _mm256_fmadd_ps(
                _mm256_set1_ps(p[t]),
                _mm256_cvtph_ps(_mm_loadu_si128((const void *)((v + (size_t)t * stride) + j))), sum);
        _mm256_storeu_ps(y + j, sum);
    }
    for (; j < n; j++) {  /* the rest, one by one */
        float sum = y[j]; /* stays in a register across the rows */
        for (int t = 0; t < rows; t++)
            sum = ml_madd(p[t], ml_f16_to_f32((v + (size_t)t * stride)[j]), sum);
        y[j] = sum;
    }
}
