/*
 * ml_k_axpy_f16_sve
 * Weighted sum: y += sum of p[t] v[t] over f16 rows, in increasing t.
 *
 * Written by krafla-gen from templates/axpy.c.j2 and isa_specs/sve.py (facets: f16, f32); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

void ml_k_axpy_f16_sve(float *y, const float *p, const uint16_t *v, size_t stride, int rows, int n)
{
    for (int j = 0; j < n; j += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(j, n);
        svfloat32_t sum = svld1_f32(pg, y + j); /* stays in a register across the rows */
        for (int t = 0; t < rows; t++)
            sum = svmla_f32_x(pg, sum, svdup_n_f32(p[t]), ml_load_f16_sve(pg, (v + (size_t)t * stride) + j));
        svst1_f32(pg, y + j, sum);
    }
}
