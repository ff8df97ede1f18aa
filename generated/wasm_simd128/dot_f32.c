/*
 * ml_k_dot_f32_wasm_simd128
 * Scores: s[t] = q . k[t] over f32 rows.
 *
 * Written by krafla-gen from templates/dot.c.j2 and isa_specs/wasm_simd128.py (facets: f32, reduce); do not
 * edit.
 */
#include "ml_config.h"
#include "core/wasm_common.h"

static float one_row(const float *q, const float *k, int n)
{
    v128_t p0 = wasm_f32x4_splat(0.0f);
    v128_t p1 = wasm_f32x4_splat(0.0f);
    v128_t p2 = wasm_f32x4_splat(0.0f);
    v128_t p3 = wasm_f32x4_splat(0.0f);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        p0 = wasm_f32x4_add(wasm_f32x4_mul(wasm_v128_load(q + i), wasm_v128_load(k + i)), p0);
        p1 = wasm_f32x4_add(wasm_f32x4_mul(wasm_v128_load(q + (i + 4)), wasm_v128_load(k + (i + 4))), p1);
        p2 = wasm_f32x4_add(wasm_f32x4_mul(wasm_v128_load(q + (i + 8)), wasm_v128_load(k + (i + 8))), p2);
        p3 = wasm_f32x4_add(wasm_f32x4_mul(wasm_v128_load(q + (i + 12)), wasm_v128_load(k + (i + 12))), p3);
    }
    float sum;
    if (i == n) {
        sum = ml_fold16_wasm(p0, p1, p2, p3);
    } else {
        float partial[16];
        wasm_v128_store(partial, p0);
        wasm_v128_store(partial + 4, p1);
        wasm_v128_store(partial + 8, p2);
        wasm_v128_store(partial + 12, p3);
        for (; i < n; i++)
            partial[i & 15] = ml_madd(q[i], k[i], partial[i & 15]);
        sum = ml_fold16(partial);
    }
    return sum;
}

void ml_k_dot_f32_wasm_simd128(float *s, const float *q, const float *k, size_t stride, int rows, int n)
{
    for (int t = 0; t < rows; t++)
        s[t] = one_row(q, k + (size_t)t * stride, n);
}
