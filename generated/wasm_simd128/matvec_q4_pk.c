/*
 * ml_k_matvec_q4_pk_wasm_simd128
 * y[r0..r1) = W x for packed Q4_0 weights with f32 scales.
 *
 * Written by krafla-gen from templates/matvec_pk.c.j2 and isa_specs/wasm_simd128.py (facets: pack); do not
 * edit.
 *
 * There is no 8-bit multiply. A 16-bit lane of a weight step holds two bytes of one row; they are split
 * into the even byte (w & 0xff) and the odd byte (w >> 8, logical), and pair sums of 16-bit products give
 * one partial sum per row. That needs unsigned weights: Q8 is stored with +128, and -128 * sum(x) is
 * added. Activations are expanded once per call into matching broadcast pairs, so the inner loop has no
 * shuffles, which matters on CPUs with one shuffle port.
 */
#include "ml_config.h"
#include "core/wasm_common.h"

/* One group of 4 rows against 1 token; sums stay in registers over all blocks. */
static void tile_1(float *y, int rows, const uint8_t *w, const float *wd, const int8_t *x, const float *xd,
                   const int32_t *xs, size_t blocks)
{
    const v128_t even_mask = wasm_i16x8_splat(0x000f);
    v128_t sum0 = wasm_f32x4_splat(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        /* Hardware prefetchers stop at page boundaries. */
        for (int line = 0; line < 64; line += 64)
            ml_prefetch(w + ML_PREFETCH_DISTANCE + line);
#endif
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

void ml_k_matvec_q4_pk_wasm_simd128(float *y, const uint8_t *wq, const float *wd, const int8_t *xt,
                                    const float *xd, const int32_t *xs, int cols, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 4) {
        const size_t offset = (size_t)r * blocks; /* blocks before this group */
        tile_1(y + r, r1 - r, wq + offset * 16, wd + offset, xt, xd, xs, blocks);
    }
}
