/*
 * ml_k_gelu_mul_wasm_simd128
 * g = gelu(g) * u, with the tanh approximation.
 *
 * Written by krafla-gen from templates/gelu_mul.c.j2 and isa_specs/wasm_simd128.py (facets: f32); do not
 * edit.
 */
#include "ml_config.h"
#include "core/wasm_common.h"
#include "scalar/math_scalar.h"
#include "wasm_simd128/math_wasm_simd128.h"

void ml_k_gelu_mul_wasm_simd128(float *g, const float *u, int n)
{
    /* 0.5 x (1 + tanh(c z)) is x / (1 + exp(-2 c z)), with z = x + 0.044715 x^3 and c = sqrt(2 / pi). */
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        const v128_t x = wasm_v128_load(g + i);
        const v128_t square = wasm_f32x4_mul(x, x);
        const v128_t z =
            wasm_f32x4_add(wasm_f32x4_mul(wasm_f32x4_mul(square, wasm_f32x4_splat(0.044715f)), x), x);
        const v128_t denominator =
            wasm_f32x4_add(wasm_f32x4_splat(1.0f),
                           ml_exp_wasm_simd128(wasm_f32x4_mul(z, wasm_f32x4_splat(-1.5957691216057308f))));
        wasm_v128_store(g + i, wasm_f32x4_mul(wasm_f32x4_div(x, denominator), wasm_v128_load(u + i)));
    }
    for (; i < n; i++) { /* the rest, one by one */
        const float x = g[i];
        const float square = (x * x);
        const float z = ml_madd((square * 0.044715f), x, x);
        const float denominator = (1.0f + ml_exp_scalar((z * -1.5957691216057308f)));
        g[i] = ((x / denominator) * u[i]);
    }
}
