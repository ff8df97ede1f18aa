/*
 * ml_k_axpy_q8_scalar
 * Weighted sums y[query] += p[query][t] v[t] over rows of q8 values, in increasing t.
 *
 * Written by krafla-gen from templates/axpy.c.j2 and isa_specs/scalar.py (facets: f32); do not edit.
 */
#include "ml_config.h"

/* 1 query weighs the values; sums stay in registers across the rows. */
static void queries_1(float *y, const float *p, const int8_t *v, int rows, int n)
{
    for (int j = 0; j < n; j++) {
        float sum0_0 = y[j];
        for (int t = 0; t < rows; t++) {
            const float v0 = (float)(v + t * n)[j];
            const float p0 = p[t];
            sum0_0 = ml_madd(p0, v0, sum0_0);
        }
        y[j] = sum0_0;
    }
}

void ml_k_axpy_q8_scalar(float *y, size_t y_stride, const float *p, size_t p_stride, int queries,
                         const int8_t *v, int rows, int n)
{
    int i = 0;
    for (; i + 1 <= queries; i += 1)
        queries_1(y + (size_t)i * y_stride, p + (size_t)i * p_stride, v, rows, n);
}
