/*
 * ml_k_axpy_q8_sve
 * Weighted sum: y += sum of p[t] v[t] over q8 rows, in increasing t.
 *
 * Written by krafla-gen from templates/axpy.c.j2 and isa_specs/sve.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

void ml_k_axpy_q8_sve(float *y, const float *p, const int8_t *v, const float *dv, size_t stride, int rows,
                      int n)
{
    for (int j = 0; j < n; j += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(j, n);
        svfloat32_t sum = svld1_f32(pg, y + j); /* stays in a register across the rows */
        for (int t = 0; t < rows; t++)
            sum = svmla_f32_x(pg, sum, svdup_n_f32(p[t] * dv[t]),
                              svcvt_f32_s32_x(pg, svld1sb_s32(pg, (v + (size_t)t * stride) + j)));
        svst1_f32(pg, y + j, sum);
    }
}
