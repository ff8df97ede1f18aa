/*
 * ml_k_add_wasm_simd128
 * y += x.
 *
 * Written by krafla-gen from templates/add.c.j2 and isa_specs/wasm_simd128.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/wasm_common.h"

void ml_k_add_wasm_simd128(float *y, const float *x, int n)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        wasm_v128_store(y + i, wasm_f32x4_add(wasm_v128_load(y + i), wasm_v128_load(x + i)));
    }
    for (; i < n; i++) { /* the rest, one by one */
        y[i] = (y[i] + x[i]);
    }
}
