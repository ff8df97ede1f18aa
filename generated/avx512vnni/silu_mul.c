/*
 * ml_k_silu_mul_avx512vnni
 * g = g / (1 + exp(-g)) * u.
 *
 * Written by krafla-gen from templates/silu_mul.c.j2 and isa_specs/avx512vnni.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"
#include "avx512vnni/math_avx512vnni.h"
#include "scalar/math_scalar.h"

void ml_k_silu_mul_avx512vnni(float *g, const float *u, int n)
{
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m512 x = _mm512_loadu_ps(g + i);
        const __m512 denominator =
            _mm512_add_ps(_mm512_set1_ps(1.0f), ml_exp_avx512vnni(_mm512_xor_ps(x, _mm512_set1_ps(-0.0f))));
        _mm512_storeu_ps(g + i, _mm512_mul_ps(_mm512_div_ps(x, denominator), _mm512_loadu_ps(u + i)));
    }
    for (; i < n; i++) { /* the rest, one by one */
        const float x = g[i];
        const float denominator = (1.0f + ml_exp_scalar((-x)));
        g[i] = ((x / denominator) * u[i]);
    }
}
