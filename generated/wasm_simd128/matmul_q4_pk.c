/*
 * ml_k_matmul_q4_pk_wasm_simd128
 * y[token][r0..r1) = W x[token] for packed Q4_0 weights with f32 scales.
 *
 * Written by krafla-gen from templates/matmul_pk.c.j2 and isa_specs/wasm_simd128.py (facets: pack, tile); do
 * not edit.
 *
 * There is no 8-bit multiply. A 16-bit lane of a weight step holds two bytes of one row; they are split
 * into the even byte (w & 0xff) and the odd byte (w >> 8, logical), and pair sums of 16-bit products give
 * one partial sum per row. That needs unsigned weights: Q8 is stored with +128, and -128 * sum(x) is
 * added. Activations are expanded once per call into matching broadcast pairs, so the inner loop has no
 * shuffles, which matters on CPUs with one shuffle port.
 */
#include "ml_config.h"
#include "core/wasm_common.h"

/* One group of 4 rows against 4 tokens; sums stay in registers over all blocks. */
static void tile_4(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const v128_t even_mask = wasm_i16x8_splat(0x000f);
    v128_t sum0 = wasm_f32x4_splat(0.0f);
    v128_t sum1 = wasm_f32x4_splat(0.0f);
    v128_t sum2 = wasm_f32x4_splat(0.0f);
    v128_t sum3 = wasm_f32x4_splat(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 4) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        v128_t isum0 = wasm_i32x4_splat(xs[4]);
        v128_t isum1 = wasm_i32x4_splat(xs[5]);
        v128_t isum2 = wasm_i32x4_splat(xs[6]);
        v128_t isum3 = wasm_i32x4_splat(xs[7]);
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const v128_t packed = wasm_v128_load(w + step * 16);
            const v128_t even0 = wasm_v128_and(packed, even_mask); /* elements 0 to 15 of the block */
            const v128_t odd0 = wasm_v128_and(wasm_u16x8_shr(packed, 8), even_mask);
            const v128_t even1 = wasm_v128_and(wasm_u16x8_shr(packed, 4), even_mask); /* 16 to 31 */
            const v128_t odd1 = wasm_u16x8_shr(packed, 12);
            isum0 = wasm_i32x4_add(
                isum0, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + step * 128)),
                                      wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + step * 128 + 16))));
            isum1 = wasm_i32x4_add(
                isum1, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + step * 128 + 32)),
                                      wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + step * 128 + 48))));
            isum2 = wasm_i32x4_add(
                isum2, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + step * 128 + 64)),
                                      wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + step * 128 + 80))));
            isum3 = wasm_i32x4_add(
                isum3, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + step * 128 + 96)),
                                      wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + step * 128 + 112))));
            isum0 = wasm_i32x4_add(
                isum0, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even1, wasm_v128_load(x + (step + 4) * 128)),
                                      wasm_i32x4_dot_i16x8(odd1, wasm_v128_load(x + (step + 4) * 128 + 16))));
            isum1 = wasm_i32x4_add(
                isum1, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even1, wasm_v128_load(x + (step + 4) * 128 + 32)),
                                      wasm_i32x4_dot_i16x8(odd1, wasm_v128_load(x + (step + 4) * 128 + 48))));
            isum2 = wasm_i32x4_add(
                isum2, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even1, wasm_v128_load(x + (step + 4) * 128 + 64)),
                                      wasm_i32x4_dot_i16x8(odd1, wasm_v128_load(x + (step + 4) * 128 + 80))));
            isum3 = wasm_i32x4_add(
                isum3,
                wasm_i32x4_add(wasm_i32x4_dot_i16x8(even1, wasm_v128_load(x + (step + 4) * 128 + 96)),
                               wasm_i32x4_dot_i16x8(odd1, wasm_v128_load(x + (step + 4) * 128 + 112))));
        }
        const v128_t w_scale = wasm_v128_load(wd);
        sum0 = wasm_f32x4_add(
            wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum0), wasm_f32x4_mul(w_scale, wasm_f32x4_splat(xd[0]))),
            sum0);
        sum1 = wasm_f32x4_add(
            wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum1), wasm_f32x4_mul(w_scale, wasm_f32x4_splat(xd[1]))),
            sum1);
        sum2 = wasm_f32x4_add(
            wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum2), wasm_f32x4_mul(w_scale, wasm_f32x4_splat(xd[2]))),
            sum2);
        sum3 = wasm_f32x4_add(
            wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum3), wasm_f32x4_mul(w_scale, wasm_f32x4_splat(xd[3]))),
            sum3);
        w += 64;
        wd += 4;
        x += 1024;
        xd += 4;
        xs += 8;
    }
    if (rows >= 4) {
        wasm_v128_store(y, sum0);
        wasm_v128_store((y + y_stride), sum1);
        wasm_v128_store((y + 2 * y_stride), sum2);
        wasm_v128_store((y + 3 * y_stride), sum3);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    wasm_v128_store(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
    wasm_v128_store(out, sum1);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
    wasm_v128_store(out, sum2);
    memcpy(y + 2 * y_stride, out, (size_t)rows * sizeof(float));
    wasm_v128_store(out, sum3);
    memcpy(y + 3 * y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 4 rows against 2 tokens; sums stay in registers over all blocks. */
static void tile_2(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const v128_t even_mask = wasm_i16x8_splat(0x000f);
    v128_t sum0 = wasm_f32x4_splat(0.0f);
    v128_t sum1 = wasm_f32x4_splat(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 2) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        v128_t isum0 = wasm_i32x4_splat(xs[2]);
        v128_t isum1 = wasm_i32x4_splat(xs[3]);
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const v128_t packed = wasm_v128_load(w + step * 16);
            const v128_t even0 = wasm_v128_and(packed, even_mask); /* elements 0 to 15 of the block */
            const v128_t odd0 = wasm_v128_and(wasm_u16x8_shr(packed, 8), even_mask);
            const v128_t even1 = wasm_v128_and(wasm_u16x8_shr(packed, 4), even_mask); /* 16 to 31 */
            const v128_t odd1 = wasm_u16x8_shr(packed, 12);
            isum0 = wasm_i32x4_add(
                isum0, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + step * 64)),
                                      wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + step * 64 + 16))));
            isum1 = wasm_i32x4_add(
                isum1, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + step * 64 + 32)),
                                      wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + step * 64 + 48))));
            isum0 = wasm_i32x4_add(
                isum0, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even1, wasm_v128_load(x + (step + 4) * 64)),
                                      wasm_i32x4_dot_i16x8(odd1, wasm_v128_load(x + (step + 4) * 64 + 16))));
            isum1 = wasm_i32x4_add(
                isum1, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even1, wasm_v128_load(x + (step + 4) * 64 + 32)),
                                      wasm_i32x4_dot_i16x8(odd1, wasm_v128_load(x + (step + 4) * 64 + 48))));
        }
        const v128_t w_scale = wasm_v128_load(wd);
        sum0 = wasm_f32x4_add(
            wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum0), wasm_f32x4_mul(w_scale, wasm_f32x4_splat(xd[0]))),
            sum0);
        sum1 = wasm_f32x4_add(
            wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum1), wasm_f32x4_mul(w_scale, wasm_f32x4_splat(xd[1]))),
            sum1);
        w += 64;
        wd += 4;
        x += 512;
        xd += 2;
        xs += 4;
    }
    if (rows >= 4) {
        wasm_v128_store(y, sum0);
        wasm_v128_store((y + y_stride), sum1);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    wasm_v128_store(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
    wasm_v128_store(out, sum1);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 4 rows against 1 token; sums stay in registers over all blocks. */
static void tile_1(float *y, int rows, const uint8_t *w, const float *wd, const int8_t *x, const float *xd,
                   const int32_t *xs, size_t blocks)
{
    const v128_t even_mask = wasm_i16x8_splat(0x000f);
    v128_t sum0 = wasm_f32x4_splat(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        v128_t isum0 = wasm_i32x4_splat(xs[1]);
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const v128_t packed = wasm_v128_load(w + step * 16);
            const v128_t even0 = wasm_v128_and(packed, even_mask); /* elements 0 to 15 of the block */
            const v128_t odd0 = wasm_v128_and(wasm_u16x8_shr(packed, 8), even_mask);
            const v128_t even1 = wasm_v128_and(wasm_u16x8_shr(packed, 4), even_mask); /* 16 to 31 */
            const v128_t odd1 = wasm_u16x8_shr(packed, 12);
            isum0 = wasm_i32x4_add(
                isum0, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + step * 32)),
                                      wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + step * 32 + 16))));
            isum0 = wasm_i32x4_add(
                isum0, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even1, wasm_v128_load(x + (step + 4) * 32)),
                                      wasm_i32x4_dot_i16x8(odd1, wasm_v128_load(x + (step + 4) * 32 + 16))));
        }
        const v128_t w_scale = wasm_v128_load(wd);
        sum0 = wasm_f32x4_add(
            wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum0), wasm_f32x4_mul(w_scale, wasm_f32x4_splat(xd[0]))),
            sum0);
        w += 64;
        wd += 4;
        x += 256;
        xd += 1;
        xs += 2;
    }
    if (rows >= 4) {
        wasm_v128_store(y, sum0);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    wasm_v128_store(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
}

/* One row group against the tokens from `t` on; its weights stay in cache across the token tiles. */
static void row_group(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd,
                      const int8_t *xt, const float *xd, const int32_t *xs, size_t blocks, size_t t,
                      size_t tokens)
{
    for (; t + 4 <= tokens; t += 4)
        tile_4(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 256, xd + t * blocks,
               xs + t * blocks * 2, blocks);
    for (; t + 2 <= tokens; t += 2)
        tile_2(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 256, xd + t * blocks,
               xs + t * blocks * 2, blocks);
    for (; t + 1 <= tokens; t += 1)
        tile_1(y + t * y_stride, rows, w, wd, xt + t * blocks * 256, xd + t * blocks, xs + t * blocks * 2,
               blocks);
}

void ml_k_matmul_q4_pk_wasm_simd128(float *y, size_t y_stride, const uint8_t *wq, const float *wd,
                                    const int8_t *xt, const float *xd, const int32_t *xs, int cols,
                                    int tokens, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 4)
        row_group(y + r, y_stride, r1 - r, wq + (size_t)r * blocks * 16, wd + (size_t)r * blocks, xt, xd, xs,
                  blocks, 0, (size_t)tokens);
}
