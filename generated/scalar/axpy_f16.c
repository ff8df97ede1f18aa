/*
 * ml_k_axpy_f16_scalar
 * Weighted sum: y += sum of p[t] v[t] over f16 rows, in increasing t.
 *
 * Written by krafla-gen from templates/axpy.c.j2 and isa_specs/scalar.py (facets: f16, f32); do not edit.
 */
#include "ml_config.h"

void ml_k_axpy_f16_scalar(float *y, const float *p, const uint16_t *v, size_t stride, int rows, int n)
{
    for (int j = 0; j < n; j++) {
        float sum = y[j]; /* stays in a register across the rows */
        for (int t = 0; t < rows; t++)
            sum = ml_madd(p[t], ml_f16_to_f32((v + (size_t)t * stride)[j]), sum);
        y[j] = sum;
    }
}
