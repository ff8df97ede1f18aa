/*
 * ml_k_dot_q8_wasm_simd128
 * Scores s[query][position] = q[query] . k[position] over one page of q8 keys.
 *
 * Written by krafla-gen from templates/dot_q8.c.j2 and isa_specs/wasm_simd128.py (facets: f32, pack); do not
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

/* 4 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_4(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{
    const v128_t even_mask = wasm_i16x8_splat(0x00ff);
    for (int t = 0; t < ML_PAGE; t += 4) {
        v128_t isum0_0 = wasm_i32x4_splat(xs[0]);
        v128_t isum1_0 = wasm_i32x4_splat(xs[1]);
        v128_t isum2_0 = wasm_i32x4_splat(xs[2]);
        v128_t isum3_0 = wasm_i32x4_splat(xs[3]);
        for (int step = 0; step < n / 4; step++) {
            {
                const v128_t packed = wasm_v128_load(k + step * 16);
                const v128_t even0 = wasm_v128_and(packed, even_mask);
                const v128_t odd0 = wasm_u16x8_shr(packed, 8);
                isum0_0 = wasm_i32x4_add(
                    isum0_0, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + step * 32)),
                                            wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + step * 32 + 16))));
                isum1_0 = wasm_i32x4_add(
                    isum1_0, wasm_i32x4_add(
                                 wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + x_stride + step * 32)),
                                 wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + x_stride + step * 32 + 16))));
                isum2_0 = wasm_i32x4_add(
                    isum2_0,
                    wasm_i32x4_add(
                        wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + 2 * x_stride + step * 32)),
                        wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + 2 * x_stride + step * 32 + 16))));
                isum3_0 = wasm_i32x4_add(
                    isum3_0,
                    wasm_i32x4_add(
                        wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + 3 * x_stride + step * 32)),
                        wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + 3 * x_stride + step * 32 + 16))));
            }
        }
        const v128_t k_scale0 = wasm_v128_load(dk + t);
        wasm_v128_store(s + t, wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum0_0),
                                              wasm_f32x4_mul(wasm_f32x4_splat(dq[0]), k_scale0)));
        wasm_v128_store((s + s_stride) + t,
                        wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum1_0),
                                       wasm_f32x4_mul(wasm_f32x4_splat(dq[1]), k_scale0)));
        wasm_v128_store((s + 2 * s_stride) + t,
                        wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum2_0),
                                       wasm_f32x4_mul(wasm_f32x4_splat(dq[2]), k_scale0)));
        wasm_v128_store((s + 3 * s_stride) + t,
                        wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum3_0),
                                       wasm_f32x4_mul(wasm_f32x4_splat(dq[3]), k_scale0)));
        k += n * 4;
    }
}

/* 2 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_2(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{
    const v128_t even_mask = wasm_i16x8_splat(0x00ff);
    for (int t = 0; t < ML_PAGE; t += 8) {
        v128_t isum0_0 = wasm_i32x4_splat(xs[0]);
        v128_t isum0_1 = wasm_i32x4_splat(xs[0]);
        v128_t isum1_0 = wasm_i32x4_splat(xs[1]);
        v128_t isum1_1 = wasm_i32x4_splat(xs[1]);
        for (int step = 0; step < n / 4; step++) {
            {
                const v128_t packed = wasm_v128_load(k + step * 16);
                const v128_t even0 = wasm_v128_and(packed, even_mask);
                const v128_t odd0 = wasm_u16x8_shr(packed, 8);
                isum0_0 = wasm_i32x4_add(
                    isum0_0, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + step * 32)),
                                            wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + step * 32 + 16))));
                isum1_0 = wasm_i32x4_add(
                    isum1_0, wasm_i32x4_add(
                                 wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + x_stride + step * 32)),
                                 wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + x_stride + step * 32 + 16))));
            }
            {
                const v128_t packed = wasm_v128_load(k + n * 4 + step * 16);
                const v128_t even0 = wasm_v128_and(packed, even_mask);
                const v128_t odd0 = wasm_u16x8_shr(packed, 8);
                isum0_1 = wasm_i32x4_add(
                    isum0_1, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + step * 32)),
                                            wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + step * 32 + 16))));
                isum1_1 = wasm_i32x4_add(
                    isum1_1, wasm_i32x4_add(
                                 wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + x_stride + step * 32)),
                                 wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + x_stride + step * 32 + 16))));
            }
        }
        const v128_t k_scale0 = wasm_v128_load(dk + t);
        wasm_v128_store(s + t, wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum0_0),
                                              wasm_f32x4_mul(wasm_f32x4_splat(dq[0]), k_scale0)));
        wasm_v128_store((s + s_stride) + t,
                        wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum1_0),
                                       wasm_f32x4_mul(wasm_f32x4_splat(dq[1]), k_scale0)));
        const v128_t k_scale1 = wasm_v128_load(dk + (t + 4));
        wasm_v128_store(s + (t + 4), wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum0_1),
                                                    wasm_f32x4_mul(wasm_f32x4_splat(dq[0]), k_scale1)));
        wasm_v128_store((s + s_stride) + (t + 4),
                        wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum1_1),
                                       wasm_f32x4_mul(wasm_f32x4_splat(dq[1]), k_scale1)));
        k += n * 8;
    }
}

/* 1 query against the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_1(float *s, const int8_t *x, const float *dq, const int32_t *xs, const uint8_t *k,
                      const float *dk, int n)
{
    const v128_t even_mask = wasm_i16x8_splat(0x00ff);
    for (int t = 0; t < ML_PAGE; t += 16) {
        v128_t isum0_0 = wasm_i32x4_splat(xs[0]);
        v128_t isum0_1 = wasm_i32x4_splat(xs[0]);
        v128_t isum0_2 = wasm_i32x4_splat(xs[0]);
        v128_t isum0_3 = wasm_i32x4_splat(xs[0]);
        for (int step = 0; step < n / 4; step++) {
            {
                const v128_t packed = wasm_v128_load(k + step * 16);
                const v128_t even0 = wasm_v128_and(packed, even_mask);
                const v128_t odd0 = wasm_u16x8_shr(packed, 8);
                isum0_0 = wasm_i32x4_add(
                    isum0_0, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + step * 32)),
                                            wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + step * 32 + 16))));
            }
            {
                const v128_t packed = wasm_v128_load(k + n * 4 + step * 16);
                const v128_t even0 = wasm_v128_and(packed, even_mask);
                const v128_t odd0 = wasm_u16x8_shr(packed, 8);
                isum0_1 = wasm_i32x4_add(
                    isum0_1, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + step * 32)),
                                            wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + step * 32 + 16))));
            }
            {
                const v128_t packed = wasm_v128_load(k + n * 8 + step * 16);
                const v128_t even0 = wasm_v128_and(packed, even_mask);
                const v128_t odd0 = wasm_u16x8_shr(packed, 8);
                isum0_2 = wasm_i32x4_add(
                    isum0_2, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + step * 32)),
                                            wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + step * 32 + 16))));
            }
            {
                const v128_t packed = wasm_v128_load(k + n * 12 + step * 16);
                const v128_t even0 = wasm_v128_and(packed, even_mask);
                const v128_t odd0 = wasm_u16x8_shr(packed, 8);
                isum0_3 = wasm_i32x4_add(
                    isum0_3, wasm_i32x4_add(wasm_i32x4_dot_i16x8(even0, wasm_v128_load(x + step * 32)),
                                            wasm_i32x4_dot_i16x8(odd0, wasm_v128_load(x + step * 32 + 16))));
            }
        }
        const v128_t k_scale0 = wasm_v128_load(dk + t);
        wasm_v128_store(s + t, wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum0_0),
                                              wasm_f32x4_mul(wasm_f32x4_splat(dq[0]), k_scale0)));
        const v128_t k_scale1 = wasm_v128_load(dk + (t + 4));
        wasm_v128_store(s + (t + 4), wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum0_1),
                                                    wasm_f32x4_mul(wasm_f32x4_splat(dq[0]), k_scale1)));
        const v128_t k_scale2 = wasm_v128_load(dk + (t + 8));
        wasm_v128_store(s + (t + 8), wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum0_2),
                                                    wasm_f32x4_mul(wasm_f32x4_splat(dq[0]), k_scale2)));
        const v128_t k_scale3 = wasm_v128_load(dk + (t + 12));
        wasm_v128_store(s + (t + 12), wasm_f32x4_mul(wasm_f32x4_convert_i32x4(isum0_3),
                                                     wasm_f32x4_mul(wasm_f32x4_splat(dq[0]), k_scale3)));
        k += n * 16;
    }
}

void ml_k_dot_q8_wasm_simd128(float *s, size_t s_stride, const int8_t *xt, const float *dq, const int32_t *xs,
                              int queries, const uint8_t *k, const float *dk, int n)
{
    const size_t x_stride = (size_t)n / ML_BLOCK * 256;
    int i = 0;
    for (; i + 4 <= queries; i += 4)
        queries_4(s + (size_t)i * s_stride, s_stride, xt + (size_t)i * x_stride, x_stride, dq + i, xs + i, k,
                  dk, n);
    for (; i + 2 <= queries; i += 2)
        queries_2(s + (size_t)i * s_stride, s_stride, xt + (size_t)i * x_stride, x_stride, dq + i, xs + i, k,
                  dk, n);
    for (; i + 1 <= queries; i += 1)
        queries_1(s + (size_t)i * s_stride, xt + (size_t)i * x_stride, dq + i, xs + i, k, dk, n);
}
