/*
 * ml_k_silu_mul_sve
 * g = g / (1 + exp(-g)) * u.
 *
 * Written by krafla-gen from templates/silu_mul.c.j2 and isa_specs/sve.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"
#include "scalar/math_scalar.h"
#include "sve/math_sve.h"

void ml_k_silu_mul_sve(float *g, const float *u, int n)
{
    for (int i = 0; i < n; i += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(i, n);
        const svfloat32_t x = svld1_f32(pg, g + i);
        const svfloat32_t denominator =
            svadd_f32_x(pg, svdup_n_f32(1.0f), ml_exp_sve(pg, svneg_f32_x(pg, x)));
        svst1_f32(pg, g + i, svmul_f32_x(pg, svdiv_f32_x(pg, x, denominator), svld1_f32(pg, u + i)));
    }
}
