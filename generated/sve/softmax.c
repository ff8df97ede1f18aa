/*
 * ml_k_softmax_sve
 * x = exp(x - max) / sum, in place; 1/n everywhere if every x is -inf.
 *
 * Written by krafla-gen from templates/softmax.c.j2 and isa_specs/sve.py (facets: f32, reduce); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"
#include "scalar/math_scalar.h"
#include "sve/math_sve.h"

/* Nothing to choose from: every x is -inf, which gives 1/n, or NaN, which spreads to all. */
static void all_masked(float *x, int n)
{
    float uniform = 1.0f / (float)n;
    for (int i = 0; i < n; i++)
        if (x[i] != x[i])
            uniform = x[i];
    for (int i = 0; i < n; i++)
        x[i] = uniform;
}

void ml_k_softmax_sve(float *x, int n)
{
    svfloat32_t maximum_lanes = svdup_n_f32(-INFINITY);
    for (int i = 0; i < n; i += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(i, n);
        maximum_lanes = svsel_f32(svcmpgt_f32(pg, svld1_f32(pg, x + i), maximum_lanes), svld1_f32(pg, x + i),
                                  maximum_lanes);
    }
    float maximum = svmaxv_f32(svptrue_b32(), maximum_lanes);
    if (maximum == -INFINITY) {
        all_masked(x, n);
        return;
    }
    for (int j = 0; j < n; j += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(j, n);
        svst1_f32(pg, x + j, ml_exp_sve(pg, svsub_f32_x(pg, svld1_f32(pg, x + j), svdup_n_f32(maximum))));
    }
    float partial[16] = {0};
    for (int k = 0; k < n; k += 16) {
        const int count = n - k < 16 ? n - k : 16;
        for (int j = 0; j < count; j += ml_partials_sve()) {
            const svbool_t pg = svwhilelt_b32_s32(j, count);
            svst1_f32(pg, partial + j,
                      svadd_f32_x(pg, svld1_f32(pg, partial + j), svld1_f32(pg, x + (k + j))));
        }
    }
    float sum = ml_fold16(partial);
    const float inverse = 1.0f / sum;
    for (int l = 0; l < n; l += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(l, n);
        svst1_f32(pg, x + l, svmul_f32_x(pg, svld1_f32(pg, x + l), svdup_n_f32(inverse)));
    }
}
