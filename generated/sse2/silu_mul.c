/*
 * ml_k_silu_mul_sse2
 * g = g / (1 + exp(-g)) * u.
 *
 * Written by krafla-gen from templates/silu_mul.c.j2 and isa_specs/sse2.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"
#include "scalar/math_scalar.h"
#include "sse2/math_sse2.h"

void ml_k_silu_mul_sse2(float *g, const float *u, int n)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m128 x = _mm_loadu_ps(g + i);
        const __m128 denominator =
            _mm_add_ps(_mm_set1_ps(1.0f), ml_exp_sse2(_mm_xor_ps(x, _mm_set1_ps(-0.0f))));
        _mm_storeu_ps(g + i, _mm_mul_ps(_mm_div_ps(x, denominator), _mm_loadu_ps(u + i)));
    }
    for (; i < n; i++) { /* the rest, one by one */
        const float x = g[i];
        const float denominator = (1.0f + ml_exp_scalar((-x)));
        g[i] = ((x / denominator) * u[i]);
    }
}
