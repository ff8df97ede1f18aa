/*
 * ml_k_dot_q8_neon
 * Scores s[query][position] = q[query] . k[position] over one page of q8 keys.
 *
 * Written by krafla-gen from templates/dot_q8.c.j2 and isa_specs/neon.py (facets: f32, pack); do not edit.
 *
 * No dot product: vmull_s8 and vmlal_s8 add two steps' products of two rows in 16 bits (at most 2 * 128 *
 * 127), vpadalq_s16 adds pairs of those to 32 bits. Q4 products (nibbles of 0 to 15, eight of them a lane)
 * stay in 16 bits over the whole block; each of a row's four lanes starts with a quarter of -8 * sum(x).
 * tile_q8 writes every four activations four times, to meet four rows in the same halves of registers.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* 4 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_4(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{

    (void)xs; /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 4) {
        int32x4_t isum0_0_0 = vdupq_n_s32(0);
        int32x4_t isum0_0_1 = vdupq_n_s32(0);
        int32x4_t isum0_1_0 = vdupq_n_s32(0);
        int32x4_t isum0_1_1 = vdupq_n_s32(0);
        int32x4_t isum0_2_0 = vdupq_n_s32(0);
        int32x4_t isum0_2_1 = vdupq_n_s32(0);
        int32x4_t isum0_3_0 = vdupq_n_s32(0);
        int32x4_t isum0_3_1 = vdupq_n_s32(0);
        for (int b = 0; b < n / ML_BLOCK; b++) {
            const int8x16_t w0_0 = vld1q_s8((const int8_t *)(k + b * 128));
            const int8x16_t w0_1 = vld1q_s8((const int8_t *)(k + b * 128 + 16));
            const int8x16_t x0_0 = vld1q_s8(x + b * 128);
            const int8x16_t x0_1 = vld1q_s8(x + b * 128 + 16);
            const int8x16_t x1_0 = vld1q_s8(x + x_stride + b * 128);
            const int8x16_t x1_1 = vld1q_s8(x + x_stride + b * 128 + 16);
            const int8x16_t x2_0 = vld1q_s8(x + 2 * x_stride + b * 128);
            const int8x16_t x2_1 = vld1q_s8(x + 2 * x_stride + b * 128 + 16);
            const int8x16_t x3_0 = vld1q_s8(x + 3 * x_stride + b * 128);
            const int8x16_t x3_1 = vld1q_s8(x + 3 * x_stride + b * 128 + 16);
            isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_0), vget_low_s8(x0_0)),
                                                        vget_low_s8(w0_1), vget_low_s8(x0_1)));
            isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_0), vget_high_s8(x0_0)),
                                                        vget_high_s8(w0_1), vget_high_s8(x0_1)));
            isum0_1_0 = vpadalq_s16(isum0_1_0, vmlal_s8(vmull_s8(vget_low_s8(w0_0), vget_low_s8(x1_0)),
                                                        vget_low_s8(w0_1), vget_low_s8(x1_1)));
            isum0_1_1 = vpadalq_s16(isum0_1_1, vmlal_s8(vmull_s8(vget_high_s8(w0_0), vget_high_s8(x1_0)),
                                                        vget_high_s8(w0_1), vget_high_s8(x1_1)));
            isum0_2_0 = vpadalq_s16(isum0_2_0, vmlal_s8(vmull_s8(vget_low_s8(w0_0), vget_low_s8(x2_0)),
                                                        vget_low_s8(w0_1), vget_low_s8(x2_1)));
            isum0_2_1 = vpadalq_s16(isum0_2_1, vmlal_s8(vmull_s8(vget_high_s8(w0_0), vget_high_s8(x2_0)),
                                                        vget_high_s8(w0_1), vget_high_s8(x2_1)));
            isum0_3_0 = vpadalq_s16(isum0_3_0, vmlal_s8(vmull_s8(vget_low_s8(w0_0), vget_low_s8(x3_0)),
                                                        vget_low_s8(w0_1), vget_low_s8(x3_1)));
            isum0_3_1 = vpadalq_s16(isum0_3_1, vmlal_s8(vmull_s8(vget_high_s8(w0_0), vget_high_s8(x3_0)),
                                                        vget_high_s8(w0_1), vget_high_s8(x3_1)));
            const int8x16_t w0_2 = vld1q_s8((const int8_t *)(k + b * 128 + 32));
            const int8x16_t w0_3 = vld1q_s8((const int8_t *)(k + b * 128 + 48));
            const int8x16_t x0_2 = vld1q_s8(x + b * 128 + 32);
            const int8x16_t x0_3 = vld1q_s8(x + b * 128 + 48);
            const int8x16_t x1_2 = vld1q_s8(x + x_stride + b * 128 + 32);
            const int8x16_t x1_3 = vld1q_s8(x + x_stride + b * 128 + 48);
            const int8x16_t x2_2 = vld1q_s8(x + 2 * x_stride + b * 128 + 32);
            const int8x16_t x2_3 = vld1q_s8(x + 2 * x_stride + b * 128 + 48);
            const int8x16_t x3_2 = vld1q_s8(x + 3 * x_stride + b * 128 + 32);
            const int8x16_t x3_3 = vld1q_s8(x + 3 * x_stride + b * 128 + 48);
            isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_2), vget_low_s8(x0_2)),
                                                        vget_low_s8(w0_3), vget_low_s8(x0_3)));
            isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_2), vget_high_s8(x0_2)),
                                                        vget_high_s8(w0_3), vget_high_s8(x0_3)));
            isum0_1_0 = vpadalq_s16(isum0_1_0, vmlal_s8(vmull_s8(vget_low_s8(w0_2), vget_low_s8(x1_2)),
                                                        vget_low_s8(w0_3), vget_low_s8(x1_3)));
            isum0_1_1 = vpadalq_s16(isum0_1_1, vmlal_s8(vmull_s8(vget_high_s8(w0_2), vget_high_s8(x1_2)),
                                                        vget_high_s8(w0_3), vget_high_s8(x1_3)));
            isum0_2_0 = vpadalq_s16(isum0_2_0, vmlal_s8(vmull_s8(vget_low_s8(w0_2), vget_low_s8(x2_2)),
                                                        vget_low_s8(w0_3), vget_low_s8(x2_3)));
            isum0_2_1 = vpadalq_s16(isum0_2_1, vmlal_s8(vmull_s8(vget_high_s8(w0_2), vget_high_s8(x2_2)),
                                                        vget_high_s8(w0_3), vget_high_s8(x2_3)));
            isum0_3_0 = vpadalq_s16(isum0_3_0, vmlal_s8(vmull_s8(vget_low_s8(w0_2), vget_low_s8(x3_2)),
                                                        vget_low_s8(w0_3), vget_low_s8(x3_3)));
            isum0_3_1 = vpadalq_s16(isum0_3_1, vmlal_s8(vmull_s8(vget_high_s8(w0_2), vget_high_s8(x3_2)),
                                                        vget_high_s8(w0_3), vget_high_s8(x3_3)));
            const int8x16_t w0_4 = vld1q_s8((const int8_t *)(k + b * 128 + 64));
            const int8x16_t w0_5 = vld1q_s8((const int8_t *)(k + b * 128 + 80));
            const int8x16_t x0_4 = vld1q_s8(x + b * 128 + 64);
            const int8x16_t x0_5 = vld1q_s8(x + b * 128 + 80);
            const int8x16_t x1_4 = vld1q_s8(x + x_stride + b * 128 + 64);
            const int8x16_t x1_5 = vld1q_s8(x + x_stride + b * 128 + 80);
            const int8x16_t x2_4 = vld1q_s8(x + 2 * x_stride + b * 128 + 64);
            const int8x16_t x2_5 = vld1q_s8(x + 2 * x_stride + b * 128 + 80);
            const int8x16_t x3_4 = vld1q_s8(x + 3 * x_stride + b * 128 + 64);
            const int8x16_t x3_5 = vld1q_s8(x + 3 * x_stride + b * 128 + 80);
            isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_4), vget_low_s8(x0_4)),
                                                        vget_low_s8(w0_5), vget_low_s8(x0_5)));
            isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_4), vget_high_s8(x0_4)),
                                                        vget_high_s8(w0_5), vget_high_s8(x0_5)));
            isum0_1_0 = vpadalq_s16(isum0_1_0, vmlal_s8(vmull_s8(vget_low_s8(w0_4), vget_low_s8(x1_4)),
                                                        vget_low_s8(w0_5), vget_low_s8(x1_5)));
            isum0_1_1 = vpadalq_s16(isum0_1_1, vmlal_s8(vmull_s8(vget_high_s8(w0_4), vget_high_s8(x1_4)),
                                                        vget_high_s8(w0_5), vget_high_s8(x1_5)));
            isum0_2_0 = vpadalq_s16(isum0_2_0, vmlal_s8(vmull_s8(vget_low_s8(w0_4), vget_low_s8(x2_4)),
                                                        vget_low_s8(w0_5), vget_low_s8(x2_5)));
            isum0_2_1 = vpadalq_s16(isum0_2_1, vmlal_s8(vmull_s8(vget_high_s8(w0_4), vget_high_s8(x2_4)),
                                                        vget_high_s8(w0_5), vget_high_s8(x2_5)));
            isum0_3_0 = vpadalq_s16(isum0_3_0, vmlal_s8(vmull_s8(vget_low_s8(w0_4), vget_low_s8(x3_4)),
                                                        vget_low_s8(w0_5), vget_low_s8(x3_5)));
            isum0_3_1 = vpadalq_s16(isum0_3_1, vmlal_s8(vmull_s8(vget_high_s8(w0_4), vget_high_s8(x3_4)),
                                                        vget_high_s8(w0_5), vget_high_s8(x3_5)));
            const int8x16_t w0_6 = vld1q_s8((const int8_t *)(k + b * 128 + 96));
            const int8x16_t w0_7 = vld1q_s8((const int8_t *)(k + b * 128 + 112));
            const int8x16_t x0_6 = vld1q_s8(x + b * 128 + 96);
            const int8x16_t x0_7 = vld1q_s8(x + b * 128 + 112);
            const int8x16_t x1_6 = vld1q_s8(x + x_stride + b * 128 + 96);
            const int8x16_t x1_7 = vld1q_s8(x + x_stride + b * 128 + 112);
            const int8x16_t x2_6 = vld1q_s8(x + 2 * x_stride + b * 128 + 96);
            const int8x16_t x2_7 = vld1q_s8(x + 2 * x_stride + b * 128 + 112);
            const int8x16_t x3_6 = vld1q_s8(x + 3 * x_stride + b * 128 + 96);
            const int8x16_t x3_7 = vld1q_s8(x + 3 * x_stride + b * 128 + 112);
            isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_6), vget_low_s8(x0_6)),
                                                        vget_low_s8(w0_7), vget_low_s8(x0_7)));
            isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_6), vget_high_s8(x0_6)),
                                                        vget_high_s8(w0_7), vget_high_s8(x0_7)));
            isum0_1_0 = vpadalq_s16(isum0_1_0, vmlal_s8(vmull_s8(vget_low_s8(w0_6), vget_low_s8(x1_6)),
                                                        vget_low_s8(w0_7), vget_low_s8(x1_7)));
            isum0_1_1 = vpadalq_s16(isum0_1_1, vmlal_s8(vmull_s8(vget_high_s8(w0_6), vget_high_s8(x1_6)),
                                                        vget_high_s8(w0_7), vget_high_s8(x1_7)));
            isum0_2_0 = vpadalq_s16(isum0_2_0, vmlal_s8(vmull_s8(vget_low_s8(w0_6), vget_low_s8(x2_6)),
                                                        vget_low_s8(w0_7), vget_low_s8(x2_7)));
            isum0_2_1 = vpadalq_s16(isum0_2_1, vmlal_s8(vmull_s8(vget_high_s8(w0_6), vget_high_s8(x2_6)),
                                                        vget_high_s8(w0_7), vget_high_s8(x2_7)));
            isum0_3_0 = vpadalq_s16(isum0_3_0, vmlal_s8(vmull_s8(vget_low_s8(w0_6), vget_low_s8(x3_6)),
                                                        vget_low_s8(w0_7), vget_low_s8(x3_7)));
            isum0_3_1 = vpadalq_s16(isum0_3_1, vmlal_s8(vmull_s8(vget_high_s8(w0_6), vget_high_s8(x3_6)),
                                                        vget_high_s8(w0_7), vget_high_s8(x3_7)));
        }
        const float32x4_t k_scale = vld1q_f32(dk + t);
        vst1q_f32(s + t, vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum0_0_0, isum0_0_1)),
                                   vmulq_f32(vdupq_n_f32(dq[0]), k_scale)));
        vst1q_f32((s + s_stride) + t, vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum0_1_0, isum0_1_1)),
                                                vmulq_f32(vdupq_n_f32(dq[1]), k_scale)));
        vst1q_f32((s + 2 * s_stride) + t, vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum0_2_0, isum0_2_1)),
                                                    vmulq_f32(vdupq_n_f32(dq[2]), k_scale)));
        vst1q_f32((s + 3 * s_stride) + t, vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum0_3_0, isum0_3_1)),
                                                    vmulq_f32(vdupq_n_f32(dq[3]), k_scale)));
        k += n * 4;
    }
}

/* 2 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_2(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{

    (void)xs; /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 4) {
        int32x4_t isum0_0_0 = vdupq_n_s32(0);
        int32x4_t isum0_0_1 = vdupq_n_s32(0);
        int32x4_t isum0_1_0 = vdupq_n_s32(0);
        int32x4_t isum0_1_1 = vdupq_n_s32(0);
        for (int b = 0; b < n / ML_BLOCK; b++) {
            const int8x16_t w0_0 = vld1q_s8((const int8_t *)(k + b * 128));
            const int8x16_t w0_1 = vld1q_s8((const int8_t *)(k + b * 128 + 16));
            const int8x16_t x0_0 = vld1q_s8(x + b * 128);
            const int8x16_t x0_1 = vld1q_s8(x + b * 128 + 16);
            const int8x16_t x1_0 = vld1q_s8(x + x_stride + b * 128);
            const int8x16_t x1_1 = vld1q_s8(x + x_stride + b * 128 + 16);
            isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_0), vget_low_s8(x0_0)),
                                                        vget_low_s8(w0_1), vget_low_s8(x0_1)));
            isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_0), vget_high_s8(x0_0)),
                                                        vget_high_s8(w0_1), vget_high_s8(x0_1)));
            isum0_1_0 = vpadalq_s16(isum0_1_0, vmlal_s8(vmull_s8(vget_low_s8(w0_0), vget_low_s8(x1_0)),
                                                        vget_low_s8(w0_1), vget_low_s8(x1_1)));
            isum0_1_1 = vpadalq_s16(isum0_1_1, vmlal_s8(vmull_s8(vget_high_s8(w0_0), vget_high_s8(x1_0)),
                                                        vget_high_s8(w0_1), vget_high_s8(x1_1)));
            const int8x16_t w0_2 = vld1q_s8((const int8_t *)(k + b * 128 + 32));
            const int8x16_t w0_3 = vld1q_s8((const int8_t *)(k + b * 128 + 48));
            const int8x16_t x0_2 = vld1q_s8(x + b * 128 + 32);
            const int8x16_t x0_3 = vld1q_s8(x + b * 128 + 48);
            const int8x16_t x1_2 = vld1q_s8(x + x_stride + b * 128 + 32);
            const int8x16_t x1_3 = vld1q_s8(x + x_stride + b * 128 + 48);
            isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_2), vget_low_s8(x0_2)),
                                                        vget_low_s8(w0_3), vget_low_s8(x0_3)));
            isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_2), vget_high_s8(x0_2)),
                                                        vget_high_s8(w0_3), vget_high_s8(x0_3)));
            isum0_1_0 = vpadalq_s16(isum0_1_0, vmlal_s8(vmull_s8(vget_low_s8(w0_2), vget_low_s8(x1_2)),
                                                        vget_low_s8(w0_3), vget_low_s8(x1_3)));
            isum0_1_1 = vpadalq_s16(isum0_1_1, vmlal_s8(vmull_s8(vget_high_s8(w0_2), vget_high_s8(x1_2)),
                                                        vget_high_s8(w0_3), vget_high_s8(x1_3)));
            const int8x16_t w0_4 = vld1q_s8((const int8_t *)(k + b * 128 + 64));
            const int8x16_t w0_5 = vld1q_s8((const int8_t *)(k + b * 128 + 80));
            const int8x16_t x0_4 = vld1q_s8(x + b * 128 + 64);
            const int8x16_t x0_5 = vld1q_s8(x + b * 128 + 80);
            const int8x16_t x1_4 = vld1q_s8(x + x_stride + b * 128 + 64);
            const int8x16_t x1_5 = vld1q_s8(x + x_stride + b * 128 + 80);
            isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_4), vget_low_s8(x0_4)),
                                                        vget_low_s8(w0_5), vget_low_s8(x0_5)));
            isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_4), vget_high_s8(x0_4)),
                                                        vget_high_s8(w0_5), vget_high_s8(x0_5)));
            isum0_1_0 = vpadalq_s16(isum0_1_0, vmlal_s8(vmull_s8(vget_low_s8(w0_4), vget_low_s8(x1_4)),
                                                        vget_low_s8(w0_5), vget_low_s8(x1_5)));
            isum0_1_1 = vpadalq_s16(isum0_1_1, vmlal_s8(vmull_s8(vget_high_s8(w0_4), vget_high_s8(x1_4)),
                                                        vget_high_s8(w0_5), vget_high_s8(x1_5)));
            const int8x16_t w0_6 = vld1q_s8((const int8_t *)(k + b * 128 + 96));
            const int8x16_t w0_7 = vld1q_s8((const int8_t *)(k + b * 128 + 112));
            const int8x16_t x0_6 = vld1q_s8(x + b * 128 + 96);
            const int8x16_t x0_7 = vld1q_s8(x + b * 128 + 112);
            const int8x16_t x1_6 = vld1q_s8(x + x_stride + b * 128 + 96);
            const int8x16_t x1_7 = vld1q_s8(x + x_stride + b * 128 + 112);
            isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_6), vget_low_s8(x0_6)),
                                                        vget_low_s8(w0_7), vget_low_s8(x0_7)));
            isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_6), vget_high_s8(x0_6)),
                                                        vget_high_s8(w0_7), vget_high_s8(x0_7)));
            isum0_1_0 = vpadalq_s16(isum0_1_0, vmlal_s8(vmull_s8(vget_low_s8(w0_6), vget_low_s8(x1_6)),
                                                        vget_low_s8(w0_7), vget_low_s8(x1_7)));
            isum0_1_1 = vpadalq_s16(isum0_1_1, vmlal_s8(vmull_s8(vget_high_s8(w0_6), vget_high_s8(x1_6)),
                                                        vget_high_s8(w0_7), vget_high_s8(x1_7)));
        }
        const float32x4_t k_scale = vld1q_f32(dk + t);
        vst1q_f32(s + t, vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum0_0_0, isum0_0_1)),
                                   vmulq_f32(vdupq_n_f32(dq[0]), k_scale)));
        vst1q_f32((s + s_stride) + t, vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum0_1_0, isum0_1_1)),
                                                vmulq_f32(vdupq_n_f32(dq[1]), k_scale)));
        k += n * 4;
    }
}

/* 1 query against the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_1(float *s, const int8_t *x, const float *dq, const int32_t *xs, const uint8_t *k,
                      const float *dk, int n)
{

    (void)xs; /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 4) {
        int32x4_t isum0_0_0 = vdupq_n_s32(0);
        int32x4_t isum0_0_1 = vdupq_n_s32(0);
        for (int b = 0; b < n / ML_BLOCK; b++) {
            const int8x16_t w0_0 = vld1q_s8((const int8_t *)(k + b * 128));
            const int8x16_t w0_1 = vld1q_s8((const int8_t *)(k + b * 128 + 16));
            const int8x16_t x0_0 = vld1q_s8(x + b * 128);
            const int8x16_t x0_1 = vld1q_s8(x + b * 128 + 16);
            isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_0), vget_low_s8(x0_0)),
                                                        vget_low_s8(w0_1), vget_low_s8(x0_1)));
            isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_0), vget_high_s8(x0_0)),
                                                        vget_high_s8(w0_1), vget_high_s8(x0_1)));
            const int8x16_t w0_2 = vld1q_s8((const int8_t *)(k + b * 128 + 32));
            const int8x16_t w0_3 = vld1q_s8((const int8_t *)(k + b * 128 + 48));
            const int8x16_t x0_2 = vld1q_s8(x + b * 128 + 32);
            const int8x16_t x0_3 = vld1q_s8(x + b * 128 + 48);
            isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_2), vget_low_s8(x0_2)),
                                                        vget_low_s8(w0_3), vget_low_s8(x0_3)));
            isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_2), vget_high_s8(x0_2)),
                                                        vget_high_s8(w0_3), vget_high_s8(x0_3)));
            const int8x16_t w0_4 = vld1q_s8((const int8_t *)(k + b * 128 + 64));
            const int8x16_t w0_5 = vld1q_s8((const int8_t *)(k + b * 128 + 80));
            const int8x16_t x0_4 = vld1q_s8(x + b * 128 + 64);
            const int8x16_t x0_5 = vld1q_s8(x + b * 128 + 80);
            isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_4), vget_low_s8(x0_4)),
                                                        vget_low_s8(w0_5), vget_low_s8(x0_5)));
            isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_4), vget_high_s8(x0_4)),
                                                        vget_high_s8(w0_5), vget_high_s8(x0_5)));
            const int8x16_t w0_6 = vld1q_s8((const int8_t *)(k + b * 128 + 96));
            const int8x16_t w0_7 = vld1q_s8((const int8_t *)(k + b * 128 + 112));
            const int8x16_t x0_6 = vld1q_s8(x + b * 128 + 96);
            const int8x16_t x0_7 = vld1q_s8(x + b * 128 + 112);
            isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_6), vget_low_s8(x0_6)),
                                                        vget_low_s8(w0_7), vget_low_s8(x0_7)));
            isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_6), vget_high_s8(x0_6)),
                                                        vget_high_s8(w0_7), vget_high_s8(x0_7)));
        }
        const float32x4_t k_scale = vld1q_f32(dk + t);
        vst1q_f32(s + t, vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum0_0_0, isum0_0_1)),
                                   vmulq_f32(vdupq_n_f32(dq[0]), k_scale)));
        k += n * 4;
    }
}

void ml_k_dot_q8_neon(float *s, size_t s_stride, const int8_t *xt, const float *dq, const int32_t *xs,
                      int queries, const uint8_t *k, const float *dk, int n)
{
    const size_t x_stride = (size_t)n / ML_BLOCK * 128;
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
