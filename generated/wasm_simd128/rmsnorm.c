/*
 * ml_k_rmsnorm_wasm_simd128
 * o = x / sqrt(mean(x^2) + eps) * w.
 *
 * Written by krafla-gen from templates/rmsnorm.c.j2 and isa_specs/wasm_simd128.py (facets: f32, reduce); do
 * not edit.
 */
#include "ml_config.h"
#include "core/wasm_common.h"

void ml_k_rmsnorm_wasm_simd128(float *o, const float *x, const float *w, int n, float eps)
{
    v128_t p0 = wasm_f32x4_splat(0.0f);
    v128_t p1 = wasm_f32x4_splat(0.0f);
    v128_t p2 = wasm_f32x4_splat(0.0f);
    v128_t p3 = wasm_f32x4_splat(0.0f);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        p0 = wasm_f32x4_add(wasm_f32x4_mul(wasm_v128_load(x + i), wasm_v128_load(x + i)), p0);
        p1 = wasm_f32x4_add(wasm_f32x4_mul(wasm_v128_load(x + (i + 4)), wasm_v128_load(x + (i + 4))), p1);
        p2 = wasm_f32x4_add(wasm_f32x4_mul(wasm_v128_load(x + (i + 8)), wasm_v128_load(x + (i + 8))), p2);
        p3 = wasm_f32x4_add(wasm_f32x4_mul(wasm_v128_load(x + (i + 12)), wasm_v128_load(x + (i + 12))), p3);
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
            partial[i & 15] = ml_madd(x[i], x[i], partial[i & 15]);
        sum = ml_fold16(partial);
    }
    const float inverse = 1.0f / sqrtf(sum / (float)n + eps);
    int j = 0;
    for (; j + 4 <= n; j += 4) {
        wasm_v128_store(o + j,
                        wasm_f32x4_mul(wasm_f32x4_mul(wasm_v128_load(x + j), wasm_f32x4_splat(inverse)),
                                       wasm_v128_load(w + j)));
    }
    for (; j < n; j++) { /* the rest, one by one */
        o[j] = ((x[j] * inverse) * w[j]);
    }
}
