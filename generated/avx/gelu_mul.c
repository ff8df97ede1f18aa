/*
 * ml_k_gelu_mul_avx
 * g = gelu(g) * u, with the tanh approximation.
 *
 * Written by krafla-gen from templates/gelu_mul.c.j2 and isa_specs/avx.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"
#include "avx/math_avx.h"
#include "scalar/math_scalar.h"

void ml_k_gelu_mul_avx(float *g, const float *u, int n)
{
    /* 0.5 x (1 + tanh(c z)) is x / (1 + exp(-2 c z)), with z = x + 0.044715 x^3 and c = sqrt(2 / pi). */
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 x = _mm256_loadu_ps(g + i);
        const __m256 square = _mm256_mul_ps(x, x);
        const __m256 z = _mm256_add_ps(_mm256_mul_ps(_mm256_mul_ps(square, _mm256_set1_ps(0.044715f)), x), x);
        const __m256 denominator = _mm256_add_ps(
            _mm256_set1_ps(1.0f), ml_exp_avx(_mm256_mul_ps(z, _mm256_set1_ps(-1.5957691216057308f))));
        _mm256_storeu_ps(g + i, _mm256_mul_ps(_mm256_div_ps(x, denominator), _mm256_loadu_ps(u + i)));
    }
    for (; i < n; i++) { /* the rest, one by one */
        const float x = g[i];
        const float square = (x * x);
        const float z = ml_madd((square * 0.044715f), x, x);
        const float denominator = (1.0f + ml_exp_scalar((z * -1.5957691216057308f)));
        g[i] = ((x / denominator) * u[i]);
    }
}
