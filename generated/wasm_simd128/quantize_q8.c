/*
 * ml_k_quantize_q8_wasm_simd128
 * Q8_0 activations: blocks of 32 with one scale, by the rule of the file format.
 *
 * Written by krafla-gen from templates/quantize_q8.c.j2 and isa_specs/wasm_simd128.py (facets: f32, reduce);
 * do not edit.
 */
#include "ml_config.h"
#include "core/wasm_common.h"

/* One block: the rule of the file format in exact single-precision operations. */
static void quantize_block(int8_t *q, float *d, const float *x)
{
    v128_t largest_lanes0 = wasm_f32x4_splat(0.0f);
    v128_t largest_lanes1 = wasm_f32x4_splat(0.0f);
    v128_t largest_lanes2 = wasm_f32x4_splat(0.0f);
    v128_t largest_lanes3 = wasm_f32x4_splat(0.0f);
    int i = 0;
    for (; i + 16 <= 32; i += 16) { /* in turn, to hide the latency */
        largest_lanes0 = wasm_f32x4_pmax(largest_lanes0, wasm_f32x4_abs(wasm_v128_load(x + i)));
        largest_lanes1 = wasm_f32x4_pmax(largest_lanes1, wasm_f32x4_abs(wasm_v128_load(x + (i + 4))));
        largest_lanes2 = wasm_f32x4_pmax(largest_lanes2, wasm_f32x4_abs(wasm_v128_load(x + (i + 8))));
        largest_lanes3 = wasm_f32x4_pmax(largest_lanes3, wasm_f32x4_abs(wasm_v128_load(x + (i + 12))));
    }
    for (; i + 4 <= 32; i += 4)
        largest_lanes0 = wasm_f32x4_pmax(largest_lanes0, wasm_f32x4_abs(wasm_v128_load(x + i)));
    largest_lanes0 = wasm_f32x4_pmax(largest_lanes2, largest_lanes0);
    largest_lanes1 = wasm_f32x4_pmax(largest_lanes3, largest_lanes1);
    largest_lanes0 = wasm_f32x4_pmax(largest_lanes1, largest_lanes0);
    float largest = ml_max_wasm(largest_lanes0);
    if (largest < 1e-30f) { /* 127 / largest would overflow */
        memset(q, 0, ML_BLOCK);
        *d = 0.0f;
        return;
    }
    *d = largest / 127.0f;
    const float inverse = 127.0f / largest;
    for (int j = 0; j < 32; j += 4) {
        /* Half away from zero, then truncation; the bounds hold before it as well as after. */
        const v128_t value = wasm_v128_load(x + j);
        v128_t level = wasm_f32x4_add(
            wasm_f32x4_mul(value, wasm_f32x4_splat(inverse)),
            wasm_v128_or(wasm_v128_and(value, wasm_f32x4_splat(-0.0f)), wasm_f32x4_splat(0.5f)));
        level = wasm_f32x4_pmax(wasm_f32x4_splat(-127.0f), level);
        level = wasm_f32x4_pmin(wasm_f32x4_splat(127.0f), level);
        ml_store_i8_wasm(q + j, level);
    }
}

static int32_t sum_of_block(const int8_t *q)
{
    int32_t sum = 0;
    for (int j = 0; j < ML_BLOCK; j++)
        sum += q[j];
    return sum;
}

void ml_k_quantize_q8_wasm_simd128(int8_t *q, float *d, int32_t *s, const float *x, int n)
{
    for (int b = 0; b < n / ML_BLOCK; b++)
        quantize_block(q + b * ML_BLOCK, d + b, x + b * ML_BLOCK);
    /* In a pass of its own: to read bytes right after they were written would wait for the stores. */
    for (int b = 0; b < n / ML_BLOCK; b++)
        s[b] = sum_of_block(q + b * ML_BLOCK);
}
