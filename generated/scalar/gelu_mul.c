/*
 * ml_k_gelu_mul_scalar
 * g = gelu(g) * u, with the tanh approximation.
 *
 * Written by krafla-gen from templates/gelu_mul.c.j2 and isa_specs/scalar.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "scalar/math_scalar.h"

void ml_k_gelu_mul_scalar(float *g, const float *u, int n)
{
    /* 0.5 x (1 + tanh(c z)) is x / (1 + exp(-2 c z)), with z = x + 0.044715 x^3 and c = sqrt(2 / pi). */
    for (int i = 0; i < n; i++) {
        const float x = g[i];
        const float square = (x * x);
        const float z = ml_madd((square * 0.044715f), x, x);
        const float denominator = (1.0f + ml_exp_scalar((z * -1.5957691216057308f)));
        g[i] = ((x / denominator) * u[i]);
    }
}
