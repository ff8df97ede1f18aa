/*
 * ml_k_rmsnorm_sve
 * o = x / sqrt(mean(x^2) + eps) * w.
 *
 * Written by krafla-gen from templates/rmsnorm.c.j2 and isa_specs/sve.py (facets: f32, reduce); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

void ml_k_rmsnorm_sve(float *o, const float *x, const float *w, int n, float eps)
{
    float partial[16] = {0};
    for (int i = 0; i < n; i += 16) {
        const int count = n - i < 16 ? n - i : 16;
        for (int j = 0; j < count; j += ml_partials_sve()) {
            const svbool_t pg = svwhilelt_b32_s32(j, count);
            svst1_f32(pg, partial + j,
                      svmla_f32_x(pg, svld1_f32(pg, partial + j), svld1_f32(pg, x + (i + j)),
                                  svld1_f32(pg, x + (i + j))));
        }
    }
    float sum = ml_fold16(partial);
    const float inverse = 1.0f / sqrtf(sum / (float)n + eps);
    for (int j = 0; j < n; j += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(j, n);
        svst1_f32(pg, o + j,
                  svmul_f32_x(pg, svmul_f32_x(pg, svld1_f32(pg, x + j), svdup_n_f32(inverse)),
                              svld1_f32(pg, w + j)));
    }
}
