/*
 * ml_k_dot_f16_sve
 * Scores: s[t] = q . k[t] over f16 rows.
 *
 * Written by krafla-gen from templates/dot.c.j2 and isa_specs/sve.py (facets: f16, f32, reduce); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

static float one_row(const float *q, const uint16_t *k, int n)
{
    float partial[16] = {0};
    for (int i = 0; i < n; i += 16) {
        const int count = n - i < 16 ? n - i : 16;
        for (int j = 0; j < count; j += ml_partials_sve()) {
            const svbool_t pg = svwhilelt_b32_s32(j, count);
            svst1_f32(pg, partial + j,
                      svmla_f32_x(pg, svld1_f32(pg, partial + j), svld1_f32(pg, q + (i + j)),
                                  ml_load_f16_sve(pg, k + (i + j))));
        }
    }
    float sum = ml_fold16(partial);
    return sum;
}

void ml_k_dot_f16_sve(float *s, const float *q, const uint16_t *k, size_t stride, int rows, int n)
{
    for (int t = 0; t < rows; t++)
        s[t] = one_row(q, k + (size_t)t * stride, n);
}
