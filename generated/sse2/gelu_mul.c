/*
 * ml_k_gelu_mul_sse2
 * g = gelu(g) * u, with the tanh approximation.
 *
 * Written by krafla-gen from templates/gelu_mul.c.j2 and isa_specs/sse2.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"
#include "scalar/math_scalar.h"
#include "sse2/math_sse2.h"

void ml_k_gelu_mul_sse2(float *g, const float *u, int n)
{
    /* 0.5 x (1 + tanh(c z)) is x / (1 + exp(-2 c z)), with z = x + 0.044715 x^3 and c = sqrt(2 / pi). */
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m128 x = _mm_loadu_ps(g + i);
        const __m128 square = _mm_mul_ps(x, x);
        const __m128 z = _mm_add_ps(_mm_mul_ps(_mm_mul_ps(square, _mm_set1_ps(0.044715f)), x), x);
        const __m128 denominator =
            _mm_add_ps(_mm_set1_ps(1.0f), ml_exp_sse2(_mm_mul_ps(z, _mm_set1_ps(-1.5957691216057308f))));
        _mm_storeu_ps(g + i, _mm_mul_ps(_mm_div_ps(x, denominator), _mm_loadu_ps(u + i)));
    }
    for (; i < n; i++) { /* the rest, one by one */
        const float x = g[i];
        const float square = (x * x);
        const float z = ml_madd((square * 0.044715f), x, x);
        const float denominator = (1.0f + ml_exp_scalar((z * -1.5957691216057308f)));
        g[i] = ((x / denominator) * u[i]);
    }
}
