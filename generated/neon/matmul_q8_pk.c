/*
 * ml_k_matmul_q8_pk_neon
 * y[token][r0..r1) = W x[token] for packed Q8_0 weights with f32 scales.
 *
 * Written by krafla-gen from templates/matmul_pk.c.j2 and isa_specs/neon.py (facets: pack, tile); do not
 * edit.
 *
 * No dot product: vmull_s8 and vmlal_s8 add two steps' products of two rows in 16 bits (at most 2 * 128 *
 * 127), vpadalq_s16 adds pairs of those to 32 bits. Q4 products (nibbles of 0 to 15, eight of them a lane)
 * stay in 16 bits over the whole block; each of a row's four lanes starts with a quarter of -8 * sum(x).
 * tile_q8 writes every four activations four times, to meet four rows in the same halves of registers.
 *
 * Several tokens share the halves of two consecutive steps, exchanged once so that a register holds the
 * same two rows of both. Activations are then needed only twice, and half as much of them is read.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* One group of 4 rows against 4 tokens; sums stay in registers over all blocks. */
static void tile_4(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, size_t blocks)
{

    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    float32x4_t sum0_1 = vdupq_n_f32(0.0f);
    float32x4_t sum0_2 = vdupq_n_f32(0.0f);
    float32x4_t sum0_3 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        int32x4_t isum0_0_0 = vdupq_n_s32(0);
        int32x4_t isum0_0_1 = vdupq_n_s32(0);
        int32x4_t isum0_1_0 = vdupq_n_s32(0);
        int32x4_t isum0_1_1 = vdupq_n_s32(0);
        int32x4_t isum0_2_0 = vdupq_n_s32(0);
        int32x4_t isum0_2_1 = vdupq_n_s32(0);
        int32x4_t isum0_3_0 = vdupq_n_s32(0);
        int32x4_t isum0_3_1 = vdupq_n_s32(0);

        const int8x16x2_t w0_0 = ml_load_halves_neon(w);
        const int8x16_t x0_0 = vld1q_s8(x);
        const int8x16_t x1_0 = vld1q_s8(x + 16);
        const int8x16_t x2_0 = vld1q_s8(x + 32);
        const int8x16_t x3_0 = vld1q_s8(x + 48);
        isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_0.val[0]), vget_low_s8(x0_0)),
                                                    vget_high_s8(w0_0.val[0]), vget_high_s8(x0_0)));
        isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_low_s8(w0_0.val[1]), vget_low_s8(x0_0)),
                                                    vget_high_s8(w0_0.val[1]), vget_high_s8(x0_0)));
        isum0_1_0 = vpadalq_s16(isum0_1_0, vmlal_s8(vmull_s8(vget_low_s8(w0_0.val[0]), vget_low_s8(x1_0)),
                                                    vget_high_s8(w0_0.val[0]), vget_high_s8(x1_0)));
        isum0_1_1 = vpadalq_s16(isum0_1_1, vmlal_s8(vmull_s8(vget_low_s8(w0_0.val[1]), vget_low_s8(x1_0)),
                                                    vget_high_s8(w0_0.val[1]), vget_high_s8(x1_0)));
        isum0_2_0 = vpadalq_s16(isum0_2_0, vmlal_s8(vmull_s8(vget_low_s8(w0_0.val[0]), vget_low_s8(x2_0)),
                                                    vget_high_s8(w0_0.val[0]), vget_high_s8(x2_0)));
        isum0_2_1 = vpadalq_s16(isum0_2_1, vmlal_s8(vmull_s8(vget_low_s8(w0_0.val[1]), vget_low_s8(x2_0)),
                                                    vget_high_s8(w0_0.val[1]), vget_high_s8(x2_0)));
        isum0_3_0 = vpadalq_s16(isum0_3_0, vmlal_s8(vmull_s8(vget_low_s8(w0_0.val[0]), vget_low_s8(x3_0)),
                                                    vget_high_s8(w0_0.val[0]), vget_high_s8(x3_0)));
        isum0_3_1 = vpadalq_s16(isum0_3_1, vmlal_s8(vmull_s8(vget_low_s8(w0_0.val[1]), vget_low_s8(x3_0)),
                                                    vget_high_s8(w0_0.val[1]), vget_high_s8(x3_0)));
        const int8x16x2_t w0_1 = ml_load_halves_neon(w + 32);
        const int8x16_t x0_1 = vld1q_s8(x + 64);
        const int8x16_t x1_1 = vld1q_s8(x + 80);
        const int8x16_t x2_1 = vld1q_s8(x + 96);
        const int8x16_t x3_1 = vld1q_s8(x + 112);
        isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_1.val[0]), vget_low_s8(x0_1)),
                                                    vget_high_s8(w0_1.val[0]), vget_high_s8(x0_1)));
        isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_low_s8(w0_1.val[1]), vget_low_s8(x0_1)),
                                                    vget_high_s8(w0_1.val[1]), vget_high_s8(x0_1)));
        isum0_1_0 = vpadalq_s16(isum0_1_0, vmlal_s8(vmull_s8(vget_low_s8(w0_1.val[0]), vget_low_s8(x1_1)),
                                                    vget_high_s8(w0_1.val[0]), vget_high_s8(x1_1)));
        isum0_1_1 = vpadalq_s16(isum0_1_1, vmlal_s8(vmull_s8(vget_low_s8(w0_1.val[1]), vget_low_s8(x1_1)),
                                                    vget_high_s8(w0_1.val[1]), vget_high_s8(x1_1)));
        isum0_2_0 = vpadalq_s16(isum0_2_0, vmlal_s8(vmull_s8(vget_low_s8(w0_1.val[0]), vget_low_s8(x2_1)),
                                                    vget_high_s8(w0_1.val[0]), vget_high_s8(x2_1)));
        isum0_2_1 = vpadalq_s16(isum0_2_1, vmlal_s8(vmull_s8(vget_low_s8(w0_1.val[1]), vget_low_s8(x2_1)),
                                                    vget_high_s8(w0_1.val[1]), vget_high_s8(x2_1)));
        isum0_3_0 = vpadalq_s16(isum0_3_0, vmlal_s8(vmull_s8(vget_low_s8(w0_1.val[0]), vget_low_s8(x3_1)),
                                                    vget_high_s8(w0_1.val[0]), vget_high_s8(x3_1)));
        isum0_3_1 = vpadalq_s16(isum0_3_1, vmlal_s8(vmull_s8(vget_low_s8(w0_1.val[1]), vget_low_s8(x3_1)),
                                                    vget_high_s8(w0_1.val[1]), vget_high_s8(x3_1)));
        const int8x16x2_t w0_2 = ml_load_halves_neon(w + 64);
        const int8x16_t x0_2 = vld1q_s8(x + 128);
        const int8x16_t x1_2 = vld1q_s8(x + 144);
        const int8x16_t x2_2 = vld1q_s8(x + 160);
        const int8x16_t x3_2 = vld1q_s8(x + 176);
        isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_2.val[0]), vget_low_s8(x0_2)),
                                                    vget_high_s8(w0_2.val[0]), vget_high_s8(x0_2)));
        isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_low_s8(w0_2.val[1]), vget_low_s8(x0_2)),
                                                    vget_high_s8(w0_2.val[1]), vget_high_s8(x0_2)));
        isum0_1_0 = vpadalq_s16(isum0_1_0, vmlal_s8(vmull_s8(vget_low_s8(w0_2.val[0]), vget_low_s8(x1_2)),
                                                    vget_high_s8(w0_2.val[0]), vget_high_s8(x1_2)));
        isum0_1_1 = vpadalq_s16(isum0_1_1, vmlal_s8(vmull_s8(vget_low_s8(w0_2.val[1]), vget_low_s8(x1_2)),
                                                    vget_high_s8(w0_2.val[1]), vget_high_s8(x1_2)));
        isum0_2_0 = vpadalq_s16(isum0_2_0, vmlal_s8(vmull_s8(vget_low_s8(w0_2.val[0]), vget_low_s8(x2_2)),
                                                    vget_high_s8(w0_2.val[0]), vget_high_s8(x2_2)));
        isum0_2_1 = vpadalq_s16(isum0_2_1, vmlal_s8(vmull_s8(vget_low_s8(w0_2.val[1]), vget_low_s8(x2_2)),
                                                    vget_high_s8(w0_2.val[1]), vget_high_s8(x2_2)));
        isum0_3_0 = vpadalq_s16(isum0_3_0, vmlal_s8(vmull_s8(vget_low_s8(w0_2.val[0]), vget_low_s8(x3_2)),
                                                    vget_high_s8(w0_2.val[0]), vget_high_s8(x3_2)));
        isum0_3_1 = vpadalq_s16(isum0_3_1, vmlal_s8(vmull_s8(vget_low_s8(w0_2.val[1]), vget_low_s8(x3_2)),
                                                    vget_high_s8(w0_2.val[1]), vget_high_s8(x3_2)));
        const int8x16x2_t w0_3 = ml_load_halves_neon(w + 96);
        const int8x16_t x0_3 = vld1q_s8(x + 192);
        const int8x16_t x1_3 = vld1q_s8(x + 208);
        const int8x16_t x2_3 = vld1q_s8(x + 224);
        const int8x16_t x3_3 = vld1q_s8(x + 240);
        isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_3.val[0]), vget_low_s8(x0_3)),
                                                    vget_high_s8(w0_3.val[0]), vget_high_s8(x0_3)));
        isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_low_s8(w0_3.val[1]), vget_low_s8(x0_3)),
                                                    vget_high_s8(w0_3.val[1]), vget_high_s8(x0_3)));
        isum0_1_0 = vpadalq_s16(isum0_1_0, vmlal_s8(vmull_s8(vget_low_s8(w0_3.val[0]), vget_low_s8(x1_3)),
                                                    vget_high_s8(w0_3.val[0]), vget_high_s8(x1_3)));
        isum0_1_1 = vpadalq_s16(isum0_1_1, vmlal_s8(vmull_s8(vget_low_s8(w0_3.val[1]), vget_low_s8(x1_3)),
                                                    vget_high_s8(w0_3.val[1]), vget_high_s8(x1_3)));
        isum0_2_0 = vpadalq_s16(isum0_2_0, vmlal_s8(vmull_s8(vget_low_s8(w0_3.val[0]), vget_low_s8(x2_3)),
                                                    vget_high_s8(w0_3.val[0]), vget_high_s8(x2_3)));
        isum0_2_1 = vpadalq_s16(isum0_2_1, vmlal_s8(vmull_s8(vget_low_s8(w0_3.val[1]), vget_low_s8(x2_3)),
                                                    vget_high_s8(w0_3.val[1]), vget_high_s8(x2_3)));
        isum0_3_0 = vpadalq_s16(isum0_3_0, vmlal_s8(vmull_s8(vget_low_s8(w0_3.val[0]), vget_low_s8(x3_3)),
                                                    vget_high_s8(w0_3.val[0]), vget_high_s8(x3_3)));
        isum0_3_1 = vpadalq_s16(isum0_3_1, vmlal_s8(vmull_s8(vget_low_s8(w0_3.val[1]), vget_low_s8(x3_3)),
                                                    vget_high_s8(w0_3.val[1]), vget_high_s8(x3_3)));
        const float32x4_t w_scale0 = vld1q_f32(wd);
        const float32x2_t x_scale0 = vld1_f32(xd);
        const float32x2_t x_scale2 = vld1_f32(xd + 2);
        sum0_0 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum0_0_0, isum0_0_1)),
                              vmulq_lane_f32(w_scale0, x_scale0, 0), sum0_0);
        sum0_1 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum0_1_0, isum0_1_1)),
                              vmulq_lane_f32(w_scale0, x_scale0, 1), sum0_1);
        sum0_2 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum0_2_0, isum0_2_1)),
                              vmulq_lane_f32(w_scale0, x_scale2, 0), sum0_2);
        sum0_3 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum0_3_0, isum0_3_1)),
                              vmulq_lane_f32(w_scale0, x_scale2, 1), sum0_3);
        w += 128;
        wd += 4;
        x += 256;
        xd += 4;
    }
    if (rows >= 4) {
        vst1q_f32(y, sum0_0);
        vst1q_f32((y + y_stride), sum0_1);
        vst1q_f32((y + 2 * y_stride), sum0_2);
        vst1q_f32((y + 3 * y_stride), sum0_3);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    vst1q_f32(out, sum0_0);
    memcpy(y, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum0_1);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum0_2);
    memcpy(y + 2 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum0_3);
    memcpy(y + 3 * y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 4 rows against 2 tokens; sums stay in registers over all blocks. */
static void tile_2(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, size_t blocks)
{

    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    float32x4_t sum0_1 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        int32x4_t isum0_0_0 = vdupq_n_s32(0);
        int32x4_t isum0_0_1 = vdupq_n_s32(0);
        int32x4_t isum0_1_0 = vdupq_n_s32(0);
        int32x4_t isum0_1_1 = vdupq_n_s32(0);

        const int8x16x2_t w0_0 = ml_load_halves_neon(w);
        const int8x16_t x0_0 = vld1q_s8(x);
        const int8x16_t x1_0 = vld1q_s8(x + 16);
        isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_0.val[0]), vget_low_s8(x0_0)),
                                                    vget_high_s8(w0_0.val[0]), vget_high_s8(x0_0)));
        isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_low_s8(w0_0.val[1]), vget_low_s8(x0_0)),
                                                    vget_high_s8(w0_0.val[1]), vget_high_s8(x0_0)));
        isum0_1_0 = vpadalq_s16(isum0_1_0, vmlal_s8(vmull_s8(vget_low_s8(w0_0.val[0]), vget_low_s8(x1_0)),
                                                    vget_high_s8(w0_0.val[0]), vget_high_s8(x1_0)));
        isum0_1_1 = vpadalq_s16(isum0_1_1, vmlal_s8(vmull_s8(vget_low_s8(w0_0.val[1]), vget_low_s8(x1_0)),
                                                    vget_high_s8(w0_0.val[1]), vget_high_s8(x1_0)));
        const int8x16x2_t w0_1 = ml_load_halves_neon(w + 32);
        const int8x16_t x0_1 = vld1q_s8(x + 32);
        const int8x16_t x1_1 = vld1q_s8(x + 48);
        isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_1.val[0]), vget_low_s8(x0_1)),
                                                    vget_high_s8(w0_1.val[0]), vget_high_s8(x0_1)));
        isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_low_s8(w0_1.val[1]), vget_low_s8(x0_1)),
                                                    vget_high_s8(w0_1.val[1]), vget_high_s8(x0_1)));
        isum0_1_0 = vpadalq_s16(isum0_1_0, vmlal_s8(vmull_s8(vget_low_s8(w0_1.val[0]), vget_low_s8(x1_1)),
                                                    vget_high_s8(w0_1.val[0]), vget_high_s8(x1_1)));
        isum0_1_1 = vpadalq_s16(isum0_1_1, vmlal_s8(vmull_s8(vget_low_s8(w0_1.val[1]), vget_low_s8(x1_1)),
                                                    vget_high_s8(w0_1.val[1]), vget_high_s8(x1_1)));
        const int8x16x2_t w0_2 = ml_load_halves_neon(w + 64);
        const int8x16_t x0_2 = vld1q_s8(x + 64);
        const int8x16_t x1_2 = vld1q_s8(x + 80);
        isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_2.val[0]), vget_low_s8(x0_2)),
                                                    vget_high_s8(w0_2.val[0]), vget_high_s8(x0_2)));
        isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_low_s8(w0_2.val[1]), vget_low_s8(x0_2)),
                                                    vget_high_s8(w0_2.val[1]), vget_high_s8(x0_2)));
        isum0_1_0 = vpadalq_s16(isum0_1_0, vmlal_s8(vmull_s8(vget_low_s8(w0_2.val[0]), vget_low_s8(x1_2)),
                                                    vget_high_s8(w0_2.val[0]), vget_high_s8(x1_2)));
        isum0_1_1 = vpadalq_s16(isum0_1_1, vmlal_s8(vmull_s8(vget_low_s8(w0_2.val[1]), vget_low_s8(x1_2)),
                                                    vget_high_s8(w0_2.val[1]), vget_high_s8(x1_2)));
        const int8x16x2_t w0_3 = ml_load_halves_neon(w + 96);
        const int8x16_t x0_3 = vld1q_s8(x + 96);
        const int8x16_t x1_3 = vld1q_s8(x + 112);
        isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_3.val[0]), vget_low_s8(x0_3)),
                                                    vget_high_s8(w0_3.val[0]), vget_high_s8(x0_3)));
        isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_low_s8(w0_3.val[1]), vget_low_s8(x0_3)),
                                                    vget_high_s8(w0_3.val[1]), vget_high_s8(x0_3)));
        isum0_1_0 = vpadalq_s16(isum0_1_0, vmlal_s8(vmull_s8(vget_low_s8(w0_3.val[0]), vget_low_s8(x1_3)),
                                                    vget_high_s8(w0_3.val[0]), vget_high_s8(x1_3)));
        isum0_1_1 = vpadalq_s16(isum0_1_1, vmlal_s8(vmull_s8(vget_low_s8(w0_3.val[1]), vget_low_s8(x1_3)),
                                                    vget_high_s8(w0_3.val[1]), vget_high_s8(x1_3)));
        const float32x4_t w_scale0 = vld1q_f32(wd);
        const float32x2_t x_scale0 = vld1_f32(xd);
        sum0_0 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum0_0_0, isum0_0_1)),
                              vmulq_lane_f32(w_scale0, x_scale0, 0), sum0_0);
        sum0_1 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum0_1_0, isum0_1_1)),
                              vmulq_lane_f32(w_scale0, x_scale0, 1), sum0_1);
        w += 128;
        wd += 4;
        x += 128;
        xd += 2;
    }
    if (rows >= 4) {
        vst1q_f32(y, sum0_0);
        vst1q_f32((y + y_stride), sum0_1);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    vst1q_f32(out, sum0_0);
    memcpy(y, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum0_1);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 4 rows against 1 token; sums stay in registers over all blocks. */
static void tile_1(float *y, int rows, const uint8_t *w, const float *wd, const int8_t *x, const float *xd,
                   size_t blocks)
{

    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        int32x4_t isum0_0_0 = vdupq_n_s32(0);
        int32x4_t isum0_0_1 = vdupq_n_s32(0);

        const int8x16_t w0_0 = vld1q_s8((const int8_t *)(w));
        const int8x16_t w0_1 = vld1q_s8((const int8_t *)(w + 16));
        const int8x16_t x0_0 = vld1q_s8(x);
        const int8x16_t x0_1 = vld1q_s8(x + 16);
        isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_0), vget_low_s8(x0_0)),
                                                    vget_low_s8(w0_1), vget_low_s8(x0_1)));
        isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_0), vget_high_s8(x0_0)),
                                                    vget_high_s8(w0_1), vget_high_s8(x0_1)));
        const int8x16_t w0_2 = vld1q_s8((const int8_t *)(w + 32));
        const int8x16_t w0_3 = vld1q_s8((const int8_t *)(w + 48));
        const int8x16_t x0_2 = vld1q_s8(x + 32);
        const int8x16_t x0_3 = vld1q_s8(x + 48);
        isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_2), vget_low_s8(x0_2)),
                                                    vget_low_s8(w0_3), vget_low_s8(x0_3)));
        isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_2), vget_high_s8(x0_2)),
                                                    vget_high_s8(w0_3), vget_high_s8(x0_3)));
        const int8x16_t w0_4 = vld1q_s8((const int8_t *)(w + 64));
        const int8x16_t w0_5 = vld1q_s8((const int8_t *)(w + 80));
        const int8x16_t x0_4 = vld1q_s8(x + 64);
        const int8x16_t x0_5 = vld1q_s8(x + 80);
        isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_4), vget_low_s8(x0_4)),
                                                    vget_low_s8(w0_5), vget_low_s8(x0_5)));
        isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_4), vget_high_s8(x0_4)),
                                                    vget_high_s8(w0_5), vget_high_s8(x0_5)));
        const int8x16_t w0_6 = vld1q_s8((const int8_t *)(w + 96));
        const int8x16_t w0_7 = vld1q_s8((const int8_t *)(w + 112));
        const int8x16_t x0_6 = vld1q_s8(x + 96);
        const int8x16_t x0_7 = vld1q_s8(x + 112);
        isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_6), vget_low_s8(x0_6)),
                                                    vget_low_s8(w0_7), vget_low_s8(x0_7)));
        isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_6), vget_high_s8(x0_6)),
                                                    vget_high_s8(w0_7), vget_high_s8(x0_7)));
        const float32x4_t w_scale0 = vld1q_f32(wd);
        const float x_scale0 = xd[0];
        sum0_0 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum0_0_0, isum0_0_1)),
                              vmulq_n_f32(w_scale0, x_scale0), sum0_0);
        w += 128;
        wd += 4;
        x += 128;
        xd += 1;
    }
    if (rows >= 4) {
        vst1q_f32(y, sum0_0);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    vst1q_f32(out, sum0_0);
    memcpy(y, out, (size_t)rows * sizeof(float));
}

/* One row group against the tokens from `t` on; its weights stay in cache across the token tiles. */
static void row_group(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd,
                      const int8_t *xt, const float *xd, const int32_t *xs, size_t blocks, size_t t,
                      size_t tokens)
{
    for (; t + 4 <= tokens; t += 4)
        tile_4(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 128, xd + t * blocks, blocks);
    for (; t + 2 <= tokens; t += 2)
        tile_2(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 128, xd + t * blocks, blocks);
    for (; t + 1 <= tokens; t += 1)
        tile_1(y + t * y_stride, rows, w, wd, xt + t * blocks * 128, xd + t * blocks, blocks);
    (void)xs; /* sums of signed products need no correction */
}

void ml_k_matmul_q8_pk_neon(float *y, size_t y_stride, const uint8_t *wq, const float *wd, const int8_t *xt,
                            const float *xd, const int32_t *xs, int cols, int tokens, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 4)
        row_group(y + r, y_stride, r1 - r, wq + (size_t)r * blocks * 32, wd + (size_t)r * blocks, xt, xd, xs,
                  blocks, 0, (size_t)tokens);
}
