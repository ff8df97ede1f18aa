/*
 * ml_k_softmax_wasm_simd128
 * x = exp(x - max) / sum, in place; 1/n everywhere if every x is -inf.
 *
 * Written by krafla-gen from templates/softmax.c.j2 and isa_specs/wasm_simd128.py (facets: f32, reduce); do
 * not edit.
 */
#include "ml_config.h"
#include "core/wasm_common.h"
#include "scalar/math_scalar.h"
#include "wasm_simd128/math_wasm_simd128.h"

/* Nothing to choose from: every x is -inf, which gives 1/n, or NaN, which spreads to all. */
static void all_masked(float *x, int n)
{
    float uniform = 1.0f / (float)n;
    for (int i = 0; i < n; i++)
        if (x[i] != x[i])
            uniform = x[i];
    for (int i = 0; i < n; i++)
        x[i] = uniform;
}

void ml_k_softmax_wasm_simd128(float *x, int n)
{
    v128_t maximum_lanes0 = wasm_f32x4_splat(-INFINITY);
    v128_t maximum_lanes1 = wasm_f32x4_splat(-INFINITY);
    v128_t maximum_lanes2 = wasm_f32x4_splat(-INFINITY);
    v128_t maximum_lanes3 = wasm_f32x4_splat(-INFINITY);
    int i = 0;
    for (; i + 16 <= n; i += 16) { /* in turn, to hide the latency */
        maximum_lanes0 = wasm_f32x4_pmax(maximum_lanes0, wasm_v128_load(x + i));
        maximum_lanes1 = wasm_f32x4_pmax(maximum_lanes1, wasm_v128_load(x + (i + 4)));
        maximum_lanes2 = wasm_f32x4_pmax(maximum_lanes2, wasm_v128_load(x + (i + 8)));
        maximum_lanes3 = wasm_f32x4_pmax(maximum_lanes3, wasm_v128_load(x + (i + 12)));
    }
    for (; i + 4 <= n; i += 4)
        maximum_lanes0 = wasm_f32x4_pmax(maximum_lanes0, wasm_v128_load(x + i));
    maximum_lanes0 = wasm_f32x4_pmax(maximum_lanes2, maximum_lanes0);
    maximum_lanes1 = wasm_f32x4_pmax(maximum_lanes3, maximum_lanes1);
    maximum_lanes0 = wasm_f32x4_pmax(maximum_lanes1, maximum_lanes0);
    float maximum = ml_max_wasm(maximum_lanes0);
    for (; i < n; i++) {
        float value = x[i];
        maximum = (value > maximum ? value : maximum);
    }
    if (maximum == -INFINITY) {
        all_masked(x, n);
        return;
    }
    int j = 0;
    for (; j + 4 <= n; j += 4) {
        wasm_v128_store(
            x + j, ml_exp_wasm_simd128(wasm_f32x4_sub(wasm_v128_load(x + j), wasm_f32x4_splat(maximum))));
    }
    for (; j < n; j++) { /* the rest, one by one */
        x[j] = ml_exp_scalar((x[j] - maximum));
    }
    v128_t p0 = wasm_f32x4_splat(0.0f);
    v128_t p1 = wasm_f32x4_splat(0.0f);
    v128_t p2 = wasm_f32x4_splat(0.0f);
    v128_t p3 = wasm_f32x4_splat(0.0f);
    int k = 0;
    for (; k + 16 <= n; k += 16) {
        p0 = wasm_f32x4_add(p0, wasm_v128_load(x + k));
        p1 = wasm_f32x4_add(p1, wasm_v128_load(x + (k + 4)));
        p2 = wasm_f32x4_add(p2, wasm_v128_load(x + (k + 8)));
        p3 = wasm_f32x4_add(p3, wasm_v128_load(x + (k + 12)));
    }
    float sum;
    if (k == n) {
        sum = ml_fold16_wasm(p0, p1, p2, p3);
    } else {
        float partial[16];
        wasm_v128_store(partial, p0);
        wasm_v128_store(partial + 4, p1);
        wasm_v128_store(partial + 8, p2);
        wasm_v128_store(partial + 12, p3);
        for (; k < n; k++)
            partial[k & 15] = (partial[k & 15] + x[k]);
        sum = ml_fold16(partial);
    }
    const float inverse = 1.0f / sum;
    int l = 0;
    for (; l + 4 <= n; l += 4) {
        wasm_v128_store(x + l, wasm_f32x4_mul(wasm_v128_load(x + l), wasm_f32x4_splat(inverse)));
    }
    for (; l < n; l++) { /* the rest, one by one */
        x[l] = (x[l] * inverse);
    }
}
