/*
 * ml_k_axpy_q8_scalar
 * Weighted sum: y += sum of p[t] v[t] over q8 rows, in increasing t.
 *
 * Written by krafla-gen from templates/axpy.c.j2 and isa_specs/scalar.py (facets: f32); do not edit.
 */
#include "ml_config.h"

void ml_k_axpy_q8_scalar(float *y, const float *p, const int8_t *v, const float *dv, size_t stride, int rows,
                         int n)
{
    for (int j = 0; j < n; j++) {
        float sum = y[j]; /* stays in a register across the rows */
        for (int t = 0; t < rows; t++)
            sum = ml_madd(p[t] * dv[t], (float)(v + (size_t)t * stride)[j], sum);
        y[j] = sum;
    }
}
