/*
 * ml_k_silu_mul_wasm_simd128
 * g = g / (1 + exp(-g)) * u.
 *
 * Written by krafla-gen from templates/silu_mul.c.j2 and isa_specs/wasm_simd128.py (facets: f32); do not
 * edit.
 */
#include "ml_config.h"
#include "core/wasm_common.h"
#include "scalar/math_scalar.h"
#include "wasm_simd128/math_wasm_simd128.h"

void ml_k_silu_mul_wasm_simd128(float *g, const float *u, int n)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        const v128_t x = wasm_v128_load(g + i);
        const v128_t denominator =
            wasm_f32x4_add(wasm_f32x4_splat(1.0f), ml_exp_wasm_simd128(wasm_f32x4_neg(x)));
        wasm_v128_store(g + i, wasm_f32x4_mul(wasm_f32x4_div(x, denominator), wasm_v128_load(u + i)));
    }
    for (; i < n; i++) { /* the rest, one by one */
        const float x = g[i];
        const float denominator = (1.0f + ml_exp_scalar((-x)));
        g[i] = ((x / denominator) * u[i]);
    }
}
