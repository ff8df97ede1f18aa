/*
 * ml_k_silu_mul_neon
 * g = g / (1 + exp(-g)) * u.
 *
 * Written by krafla-gen from templates/silu_mul.c.j2 and isa_specs/neon.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"
#include "neon/math_neon.h"
#include "scalar/math_scalar.h"

void ml_k_silu_mul_neon(float *g, const float *u, int n)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        const float32x4_t x = vld1q_f32(g + i);
        const float32x4_t denominator = vaddq_f32(vdupq_n_f32(1.0f), ml_exp_neon(vnegq_f32(x)));
        vst1q_f32(g + i, vmulq_f32(ml_div_neon(x, denominator), vld1q_f32(u + i)));
    }
    for (; i < n; i++) { /* the rest, one by one */
        const float x = g[i];
        const float denominator = (1.0f + ml_exp_scalar((-x)));
        g[i] = ((x / denominator) * u[i]);
    }
}
