/*
 * ml_k_silu_mul_scalar
 * g = g / (1 + exp(-g)) * u.
 *
 * Written by krafla-gen from templates/silu_mul.c.j2 and isa_specs/scalar.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "scalar/math_scalar.h"

void ml_k_silu_mul_scalar(float *g, const float *u, int n)
{
    for (int i = 0; i < n; i++) {
        const float x = g[i];
        const float denominator = (1.0f + ml_exp_scalar((-x)));
        g[i] = ((x / denominator) * u[i]);
    }
}
