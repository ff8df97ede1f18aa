/*
 * ml_k_gelu_mul_neon
 * g = gelu(g) * u, with the tanh approximation.
 *
 * Written by krafla-gen from templates/gelu_mul.c.j2 and isa_specs/neon.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"
#include "neon/math_neon.h"
#include "scalar/math_scalar.h"

void ml_k_gelu_mul_neon(float *g, const float *u, int n)
{
    /* 0.5 x (1 + tanh(c z)) is x / (1 + exp(-2 c z)), with z = x + 0.044715 x^3 and c = sqrt(2 / pi). */
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        const float32x4_t x = vld1q_f32(g + i);
        const float32x4_t square = vmulq_f32(x, x);
        const float32x4_t z = ml_madd_neon(vmulq_f32(square, vdupq_n_f32(0.044715f)), x, x);
        const float32x4_t denominator =
            vaddq_f32(vdupq_n_f32(1.0f), ml_exp_neon(vmulq_f32(z, vdupq_n_f32(-1.5957691216057308f))));
        vst1q_f32(g + i, vmulq_f32(ml_div_neon(x, denominator), vld1q_f32(u + i)));
    }
    for (; i < n; i++) { /* the rest, one by one */
        const float x = g[i];
        const float square = (x * x);
        const float z = ml_madd((square * 0.044715f), x, x);
        const float denominator = (1.0f + ml_exp_scalar((z * -1.5957691216057308f)));
        g[i] = ((x / denominator) * u[i]);
    }
}
