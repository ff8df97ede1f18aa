/*
 * ml_k_silu_mul_avx
 * g = g / (1 + exp(-g)) * u.
 *
 * Written by krafla-gen from templates/silu_mul.c.j2 and isa_specs/avx.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"
#include "avx/math_avx.h"
#include "scalar/math_scalar.h"

void ml_k_silu_mul_avx(float *g, const float *u, int n)
{
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 x = _mm256_loadu_ps(g + i);
        const __m256 denominator =
            _mm256_add_ps(_mm256_set1_ps(1.0f), ml_exp_avx(_mm256_xor_ps(x, _mm256_set1_ps(-0.0f))));
        _mm256_storeu_ps(g + i, _mm256_mul_ps(_mm256_div_ps(x, denominator), _mm256_loadu_ps(u + i)));
    }
    for (; i < n; i++) { /* the rest, one by one */
        const float x = g[i];
        const float denominator = (1.0f + ml_exp_scalar((-x)));
        g[i] = ((x / denominator) * u[i]);
    }
}
