/*
 * ml_k_axpy_q8_sse2
 * Weighted sum: y += sum of p[t] v[t] over q8 rows, in increasing t.
 *
 * Written by krafla-gen from templates/axpy.c.j2 and isa_specs/sse2.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

void ml_k_axpy_q8_sse2(float *y, const float *p, const int8_t *v, const float *dv, size_t stride, int rows,
                       int n)
{
    int j = 0;
    for (; j + 4 <= n; j += 4) {
        __m128 sum = _mm_loadu_ps(y + j); /* stays in a register across the rows */
        for (int t = 0; t < rows; t++)
            sum = _mm_add_ps(
                _mm_mul_ps(_mm_set1_ps(p[t] * dv[t]), ml_load_i8_128((v + (size_t)t * stride) + j)), sum);
        _mm_storeu_ps(y + j, sum);
    }
    for (; j < n; j++) {  /* the rest, one by one */
        float sum = y[j]; /* stays in a register across the rows */
        for (int t = 0; t < rows; t++)
            sum = ml_madd(p[t] * dv[t], (float)(v + (size_t)t * stride)[j], sum);
        y[j] = sum;
    }
}
