/*
 * ml_k_rope_wasm_simd128
 * Rotates interleaved pairs of the first rot_dim dimensions of every query and key head.
 *
 * Written by krafla-gen from templates/rope.c.j2 and isa_specs/wasm_simd128.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/wasm_common.h"

/* Rotates `pairs` interleaved pairs of one head. */
static void rotate(float *x, const float *cos_t, const float *sin_t, int pairs)
{
    int i = 0;
    for (; i + 4 <= pairs; i += 4) {
        v128_t a, b;
        ml_load_pairs_wasm(x + 2 * i, &a, &b);
        const v128_t cosine = wasm_v128_load(cos_t + i);
        const v128_t sine = wasm_v128_load(sin_t + i);
        const v128_t turned_a =
            wasm_f32x4_add(wasm_f32x4_mul(a, cosine), wasm_f32x4_neg(wasm_f32x4_mul(b, sine)));
        const v128_t turned_b = wasm_f32x4_add(wasm_f32x4_mul(a, sine), wasm_f32x4_mul(b, cosine));
        ml_store_pairs_wasm(x + 2 * i, turned_a, turned_b);
    }
    for (; i < pairs; i++) { /* the rest, one by one */
        float a, b;
        a = x[2 * i];
        b = x[2 * i + 1];
        const float cosine = cos_t[i];
        const float sine = sin_t[i];
        const float turned_a = ml_madd(a, cosine, (-(b * sine)));
        const float turned_b = ml_madd(a, sine, (b * cosine));
        x[2 * i] = turned_a;
        x[2 * i + 1] = turned_b;
    }
}

void ml_k_rope_wasm_simd128(float *q, float *k, const float *cos_t, const float *sin_t, int head_dim,
                            int rot_dim, int n_heads, int n_kv_heads)
{
    for (int h = 0; h < n_heads; h++)
        rotate(q + (size_t)h * (size_t)head_dim, cos_t, sin_t, rot_dim / 2);
    for (int h = 0; h < n_kv_heads; h++)
        rotate(k + (size_t)h * (size_t)head_dim, cos_t, sin_t, rot_dim / 2);
}
