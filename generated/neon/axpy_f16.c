/*
 * ml_k_axpy_f16_neon
 * Weighted sum: y += sum of p[t] v[t] over f16 rows, in increasing t.
 *
 * Written by krafla-gen from templates/axpy.c.j2 and isa_specs/neon.py (facets: f16, f32); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

void ml_k_axpy_f16_neon(float *y, const float *p, const uint16_t *v, size_t stride, int rows, int n)
{
    int j = 0;
    for (; j + 4 <= n; j += 4) {
        float32x4_t sum = vld1q_f32(y + j); /* stays in a register across the rows */
        for (int t = 0; t < rows; t++)
            sum = ml_madd_neon(vdupq_n_f32(p[t]), ml_load_f16_neon((v + (size_t)t * stride) + j), sum);
        vst1q_f32(y + j, sum);
    }
    for (; j < n; j++) {  /* the rest, one by one */
        float sum = y[j]; /* stays in a register across the rows */
        for (int t = 0; t < rows; t++)
            sum = ml_madd(p[t], ml_f16_to_f32((v + (size_t)t * stride)[j]), sum);
        y[j] = sum;
    }
}
