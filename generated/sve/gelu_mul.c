/*
 * ml_k_gelu_mul_sve
 * g = gelu(g) * u, with the tanh approximation.
 *
 * Written by krafla-gen from templates/gelu_mul.c.j2 and isa_specs/sve.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"
#include "scalar/math_scalar.h"
#include "sve/math_sve.h"

void ml_k_gelu_mul_sve(float *g, const float *u, int n)
{
    /* 0.5 x (1 + tanh(c z)) is x / (1 + exp(-2 c z)), with z = x + 0.044715 x^3 and c = sqrt(2 / pi). */
    for (int i = 0; i < n; i += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(i, n);
        const svfloat32_t x = svld1_f32(pg, g + i);
        const svfloat32_t square = svmul_f32_x(pg, x, x);
        const svfloat32_t z = svmla_f32_x(pg, x, svmul_f32_x(pg, square, svdup_n_f32(0.044715f)), x);
        const svfloat32_t denominator = svadd_f32_x(
            pg, svdup_n_f32(1.0f), ml_exp_sve(pg, svmul_f32_x(pg, z, svdup_n_f32(-1.5957691216057308f))));
        svst1_f32(pg, g + i, svmul_f32_x(pg, svdiv_f32_x(pg, x, denominator), svld1_f32(pg, u + i)));
    }
}
