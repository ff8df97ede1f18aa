/*
 * ml_k_axpy_f32_wasm_simd128
 * Weighted sum: y += sum of p[t] v[t] over f32 rows, in increasing t.
 *
 * Written by krafla-gen from templates/axpy.c.j2 and isa_specs/wasm_simd128.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/wasm_common.h"

void ml_k_axpy_f32_wasm_simd128(float *y, const float *p, const float *v, size_t stride, int rows, int n)
{
    int j = 0;
    for (; j + 4 <= n; j += 4) {
        v128_t sum = wasm_v128_load(y + j); /* stays in a register across the rows */
        for (int t = 0; t < rows; t++)
            sum = wasm_f32x4_add(
                wasm_f32x4_mul(wasm_f32x4_splat(p[t]), wasm_v128_load((v + (size_t)t * stride) + j)), sum);
        wasm_v128_store(y + j, sum);
    }
    for (; j < n; j++) {  /* the rest, one by one */
        float sum = y[j]; /* stays in a register across the rows */
        for (int t = 0; t < rows; t++)
            sum = ml_madd(p[t], (v + (size_t)t * stride)[j], sum);
        y[j] = sum;
    }
}
