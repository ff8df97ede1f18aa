/*
 * ml_k_axpy_f16_avx512vnni
 * Weighted sum: y += sum of p[t] v[t] over f16 rows, in increasing t.
 *
 * Written by krafla-gen from templates/axpy.c.j2 and isa_specs/avx512vnni.py (facets: f16, f32); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

void ml_k_axpy_f16_avx512vnni(float *y, const float *p, const uint16_t *v, size_t stride, int rows, int n)
{
    int j = 0;
    for (; j + 16 <= n; j += 16) {
        __m512 sum = _mm512_loadu_ps(y + j); /* stays in a register across the rows */
        for (int t = 0; t < rows; t++)
            sum = _mm512_fmadd_ps(
                _mm512_set1_ps(p[t]),
                _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((v + (size_t)t * stride) + j))), sum);
        _mm512_storeu_ps(y + j, sum);
    }
    for (; j < n; j++) {  /* the rest, one by one */
        float sum = y[j]; /* stays in a register across the rows */
        for (int t = 0; t < rows; t++)
            sum = ml_madd(p[t], ml_f16_to_f32((v + (size_t)t * stride)[j]), sum);
        y[j] = sum;
    }
}
