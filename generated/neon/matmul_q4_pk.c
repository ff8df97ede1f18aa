/*
 * ml_k_matmul_q4_pk_neon
 * y[token][r0..r1) = W x[token] for packed Q4_0 weights with f32 scales.
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
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const uint8x16_t low_nibbles = vdupq_n_u8(0x0f);
    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    float32x4_t sum0_1 = vdupq_n_f32(0.0f);
    float32x4_t sum0_2 = vdupq_n_f32(0.0f);
    float32x4_t sum0_3 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        int16x8_t isum0_0_0 = vdupq_n_s16((int16_t)xs[4]);
        int16x8_t isum0_0_1 = vdupq_n_s16((int16_t)xs[4]);
        int16x8_t isum0_1_0 = vdupq_n_s16((int16_t)xs[5]);
        int16x8_t isum0_1_1 = vdupq_n_s16((int16_t)xs[5]);
        int16x8_t isum0_2_0 = vdupq_n_s16((int16_t)xs[6]);
        int16x8_t isum0_2_1 = vdupq_n_s16((int16_t)xs[6]);
        int16x8_t isum0_3_0 = vdupq_n_s16((int16_t)xs[7]);
        int16x8_t isum0_3_1 = vdupq_n_s16((int16_t)xs[7]);

        const int8x16x2_t packed0_0 = ml_load_halves_neon(w);
        const int8x16x2_t w0_0 = {
            {vreinterpretq_s8_u8(vandq_u8(vreinterpretq_u8_s8(packed0_0.val[0]), low_nibbles)),
             vreinterpretq_s8_u8(vandq_u8(vreinterpretq_u8_s8(packed0_0.val[1]), low_nibbles))}};
        const int8x16_t x0_0 = vld1q_s8(x);
        const int8x16_t x1_0 = vld1q_s8(x + 16);
        const int8x16_t x2_0 = vld1q_s8(x + 32);
        const int8x16_t x3_0 = vld1q_s8(x + 48);
        isum0_0_0 = vmlal_s8(vmlal_s8(isum0_0_0, vget_low_s8(w0_0.val[0]), vget_low_s8(x0_0)),
                             vget_high_s8(w0_0.val[0]), vget_high_s8(x0_0));
        isum0_0_1 = vmlal_s8(vmlal_s8(isum0_0_1, vget_low_s8(w0_0.val[1]), vget_low_s8(x0_0)),
                             vget_high_s8(w0_0.val[1]), vget_high_s8(x0_0));
        isum0_1_0 = vmlal_s8(vmlal_s8(isum0_1_0, vget_low_s8(w0_0.val[0]), vget_low_s8(x1_0)),
                             vget_high_s8(w0_0.val[0]), vget_high_s8(x1_0));
        isum0_1_1 = vmlal_s8(vmlal_s8(isum0_1_1, vget_low_s8(w0_0.val[1]), vget_low_s8(x1_0)),
                             vget_high_s8(w0_0.val[1]), vget_high_s8(x1_0));
        isum0_2_0 = vmlal_s8(vmlal_s8(isum0_2_0, vget_low_s8(w0_0.val[0]), vget_low_s8(x2_0)),
                             vget_high_s8(w0_0.val[0]), vget_high_s8(x2_0));
        isum0_2_1 = vmlal_s8(vmlal_s8(isum0_2_1, vget_low_s8(w0_0.val[1]), vget_low_s8(x2_0)),
                             vget_high_s8(w0_0.val[1]), vget_high_s8(x2_0));
        isum0_3_0 = vmlal_s8(vmlal_s8(isum0_3_0, vget_low_s8(w0_0.val[0]), vget_low_s8(x3_0)),
                             vget_high_s8(w0_0.val[0]), vget_high_s8(x3_0));
        isum0_3_1 = vmlal_s8(vmlal_s8(isum0_3_1, vget_low_s8(w0_0.val[1]), vget_low_s8(x3_0)),
                             vget_high_s8(w0_0.val[1]), vget_high_s8(x3_0));
        const int8x16x2_t w0_2 = {
            {vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(packed0_0.val[0]), 4)),
             vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(packed0_0.val[1]), 4))}};
        const int8x16_t x0_2 = vld1q_s8(x + 128);
        const int8x16_t x1_2 = vld1q_s8(x + 144);
        const int8x16_t x2_2 = vld1q_s8(x + 160);
        const int8x16_t x3_2 = vld1q_s8(x + 176);
        isum0_0_0 = vmlal_s8(vmlal_s8(isum0_0_0, vget_low_s8(w0_2.val[0]), vget_low_s8(x0_2)),
                             vget_high_s8(w0_2.val[0]), vget_high_s8(x0_2));
        isum0_0_1 = vmlal_s8(vmlal_s8(isum0_0_1, vget_low_s8(w0_2.val[1]), vget_low_s8(x0_2)),
                             vget_high_s8(w0_2.val[1]), vget_high_s8(x0_2));
        isum0_1_0 = vmlal_s8(vmlal_s8(isum0_1_0, vget_low_s8(w0_2.val[0]), vget_low_s8(x1_2)),
                             vget_high_s8(w0_2.val[0]), vget_high_s8(x1_2));
        isum0_1_1 = vmlal_s8(vmlal_s8(isum0_1_1, vget_low_s8(w0_2.val[1]), vget_low_s8(x1_2)),
                             vget_high_s8(w0_2.val[1]), vget_high_s8(x1_2));
        isum0_2_0 = vmlal_s8(vmlal_s8(isum0_2_0, vget_low_s8(w0_2.val[0]), vget_low_s8(x2_2)),
                             vget_high_s8(w0_2.val[0]), vget_high_s8(x2_2));
        isum0_2_1 = vmlal_s8(vmlal_s8(isum0_2_1, vget_low_s8(w0_2.val[1]), vget_low_s8(x2_2)),
                             vget_high_s8(w0_2.val[1]), vget_high_s8(x2_2));
        isum0_3_0 = vmlal_s8(vmlal_s8(isum0_3_0, vget_low_s8(w0_2.val[0]), vget_low_s8(x3_2)),
                             vget_high_s8(w0_2.val[0]), vget_high_s8(x3_2));
        isum0_3_1 = vmlal_s8(vmlal_s8(isum0_3_1, vget_low_s8(w0_2.val[1]), vget_low_s8(x3_2)),
                             vget_high_s8(w0_2.val[1]), vget_high_s8(x3_2));
        const int8x16x2_t packed0_1 = ml_load_halves_neon(w + 32);
        const int8x16x2_t w0_1 = {
            {vreinterpretq_s8_u8(vandq_u8(vreinterpretq_u8_s8(packed0_1.val[0]), low_nibbles)),
             vreinterpretq_s8_u8(vandq_u8(vreinterpretq_u8_s8(packed0_1.val[1]), low_nibbles))}};
        const int8x16_t x0_1 = vld1q_s8(x + 64);
        const int8x16_t x1_1 = vld1q_s8(x + 80);
        const int8x16_t x2_1 = vld1q_s8(x + 96);
        const int8x16_t x3_1 = vld1q_s8(x + 112);
        isum0_0_0 = vmlal_s8(vmlal_s8(isum0_0_0, vget_low_s8(w0_1.val[0]), vget_low_s8(x0_1)),
                             vget_high_s8(w0_1.val[0]), vget_high_s8(x0_1));
        isum0_0_1 = vmlal_s8(vmlal_s8(isum0_0_1, vget_low_s8(w0_1.val[1]), vget_low_s8(x0_1)),
                             vget_high_s8(w0_1.val[1]), vget_high_s8(x0_1));
        isum0_1_0 = vmlal_s8(vmlal_s8(isum0_1_0, vget_low_s8(w0_1.val[0]), vget_low_s8(x1_1)),
                             vget_high_s8(w0_1.val[0]), vget_high_s8(x1_1));
        isum0_1_1 = vmlal_s8(vmlal_s8(isum0_1_1, vget_low_s8(w0_1.val[1]), vget_low_s8(x1_1)),
                             vget_high_s8(w0_1.val[1]), vget_high_s8(x1_1));
        isum0_2_0 = vmlal_s8(vmlal_s8(isum0_2_0, vget_low_s8(w0_1.val[0]), vget_low_s8(x2_1)),
                             vget_high_s8(w0_1.val[0]), vget_high_s8(x2_1));
        isum0_2_1 = vmlal_s8(vmlal_s8(isum0_2_1, vget_low_s8(w0_1.val[1]), vget_low_s8(x2_1)),
                             vget_high_s8(w0_1.val[1]), vget_high_s8(x2_1));
        isum0_3_0 = vmlal_s8(vmlal_s8(isum0_3_0, vget_low_s8(w0_1.val[0]), vget_low_s8(x3_1)),
                             vget_high_s8(w0_1.val[0]), vget_high_s8(x3_1));
        isum0_3_1 = vmlal_s8(vmlal_s8(isum0_3_1, vget_low_s8(w0_1.val[1]), vget_low_s8(x3_1)),
                             vget_high_s8(w0_1.val[1]), vget_high_s8(x3_1));
        const int8x16x2_t w0_3 = {
            {vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(packed0_1.val[0]), 4)),
             vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(packed0_1.val[1]), 4))}};
        const int8x16_t x0_3 = vld1q_s8(x + 192);
        const int8x16_t x1_3 = vld1q_s8(x + 208);
        const int8x16_t x2_3 = vld1q_s8(x + 224);
        const int8x16_t x3_3 = vld1q_s8(x + 240);
        isum0_0_0 = vmlal_s8(vmlal_s8(isum0_0_0, vget_low_s8(w0_3.val[0]), vget_low_s8(x0_3)),
                             vget_high_s8(w0_3.val[0]), vget_high_s8(x0_3));
        isum0_0_1 = vmlal_s8(vmlal_s8(isum0_0_1, vget_low_s8(w0_3.val[1]), vget_low_s8(x0_3)),
                             vget_high_s8(w0_3.val[1]), vget_high_s8(x0_3));
        isum0_1_0 = vmlal_s8(vmlal_s8(isum0_1_0, vget_low_s8(w0_3.val[0]), vget_low_s8(x1_3)),
                             vget_high_s8(w0_3.val[0]), vget_high_s8(x1_3));
        isum0_1_1 = vmlal_s8(vmlal_s8(isum0_1_1, vget_low_s8(w0_3.val[1]), vget_low_s8(x1_3)),
                             vget_high_s8(w0_3.val[1]), vget_high_s8(x1_3));
        isum0_2_0 = vmlal_s8(vmlal_s8(isum0_2_0, vget_low_s8(w0_3.val[0]), vget_low_s8(x2_3)),
                             vget_high_s8(w0_3.val[0]), vget_high_s8(x2_3));
        isum0_2_1 = vmlal_s8(vmlal_s8(isum0_2_1, vget_low_s8(w0_3.val[1]), vget_low_s8(x2_3)),
                             vget_high_s8(w0_3.val[1]), vget_high_s8(x2_3));
        isum0_3_0 = vmlal_s8(vmlal_s8(isum0_3_0, vget_low_s8(w0_3.val[0]), vget_low_s8(x3_3)),
                             vget_high_s8(w0_3.val[0]), vget_high_s8(x3_3));
        isum0_3_1 = vmlal_s8(vmlal_s8(isum0_3_1, vget_low_s8(w0_3.val[1]), vget_low_s8(x3_3)),
                             vget_high_s8(w0_3.val[1]), vget_high_s8(x3_3));
        const float32x4_t w_scale0 = vld1q_f32(wd);
        const float32x2_t x_scale0 = vld1_f32(xd);
        const float32x2_t x_scale2 = vld1_f32(xd + 2);
        sum0_0 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(vpaddlq_s16(isum0_0_0), vpaddlq_s16(isum0_0_1))),
                              vmulq_lane_f32(w_scale0, x_scale0, 0), sum0_0);
        sum0_1 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(vpaddlq_s16(isum0_1_0), vpaddlq_s16(isum0_1_1))),
                              vmulq_lane_f32(w_scale0, x_scale0, 1), sum0_1);
        sum0_2 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(vpaddlq_s16(isum0_2_0), vpaddlq_s16(isum0_2_1))),
                              vmulq_lane_f32(w_scale0, x_scale2, 0), sum0_2);
        sum0_3 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(vpaddlq_s16(isum0_3_0), vpaddlq_s16(isum0_3_1))),
                              vmulq_lane_f32(w_scale0, x_scale2, 1), sum0_3);
        w += 64;
        wd += 4;
        x += 256;
        xd += 4;
        xs += 8;
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
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const uint8x16_t low_nibbles = vdupq_n_u8(0x0f);
    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    float32x4_t sum0_1 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        int16x8_t isum0_0_0 = vdupq_n_s16((int16_t)xs[2]);
        int16x8_t isum0_0_1 = vdupq_n_s16((int16_t)xs[2]);
        int16x8_t isum0_1_0 = vdupq_n_s16((int16_t)xs[3]);
        int16x8_t isum0_1_1 = vdupq_n_s16((int16_t)xs[3]);

        const int8x16x2_t packed0_0 = ml_load_halves_neon(w);
        const int8x16x2_t w0_0 = {
            {vreinterpretq_s8_u8(vandq_u8(vreinterpretq_u8_s8(packed0_0.val[0]), low_nibbles)),
             vreinterpretq_s8_u8(vandq_u8(vreinterpretq_u8_s8(packed0_0.val[1]), low_nibbles))}};
        const int8x16_t x0_0 = vld1q_s8(x);
        const int8x16_t x1_0 = vld1q_s8(x + 16);
        isum0_0_0 = vmlal_s8(vmlal_s8(isum0_0_0, vget_low_s8(w0_0.val[0]), vget_low_s8(x0_0)),
                             vget_high_s8(w0_0.val[0]), vget_high_s8(x0_0));
        isum0_0_1 = vmlal_s8(vmlal_s8(isum0_0_1, vget_low_s8(w0_0.val[1]), vget_low_s8(x0_0)),
                             vget_high_s8(w0_0.val[1]), vget_high_s8(x0_0));
        isum0_1_0 = vmlal_s8(vmlal_s8(isum0_1_0, vget_low_s8(w0_0.val[0]), vget_low_s8(x1_0)),
                             vget_high_s8(w0_0.val[0]), vget_high_s8(x1_0));
        isum0_1_1 = vmlal_s8(vmlal_s8(isum0_1_1, vget_low_s8(w0_0.val[1]), vget_low_s8(x1_0)),
                             vget_high_s8(w0_0.val[1]), vget_high_s8(x1_0));
        const int8x16x2_t w0_2 = {
            {vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(packed0_0.val[0]), 4)),
             vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(packed0_0.val[1]), 4))}};
        const int8x16_t x0_2 = vld1q_s8(x + 64);
        const int8x16_t x1_2 = vld1q_s8(x + 80);
        isum0_0_0 = vmlal_s8(vmlal_s8(isum0_0_0, vget_low_s8(w0_2.val[0]), vget_low_s8(x0_2)),
                             vget_high_s8(w0_2.val[0]), vget_high_s8(x0_2));
        isum0_0_1 = vmlal_s8(vmlal_s8(isum0_0_1, vget_low_s8(w0_2.val[1]), vget_low_s8(x0_2)),
                             vget_high_s8(w0_2.val[1]), vget_high_s8(x0_2));
        isum0_1_0 = vmlal_s8(vmlal_s8(isum0_1_0, vget_low_s8(w0_2.val[0]), vget_low_s8(x1_2)),
                             vget_high_s8(w0_2.val[0]), vget_high_s8(x1_2));
        isum0_1_1 = vmlal_s8(vmlal_s8(isum0_1_1, vget_low_s8(w0_2.val[1]), vget_low_s8(x1_2)),
                             vget_high_s8(w0_2.val[1]), vget_high_s8(x1_2));
        const int8x16x2_t packed0_1 = ml_load_halves_neon(w + 32);
        const int8x16x2_t w0_1 = {
            {vreinterpretq_s8_u8(vandq_u8(vreinterpretq_u8_s8(packed0_1.val[0]), low_nibbles)),
             vreinterpretq_s8_u8(vandq_u8(vreinterpretq_u8_s8(packed0_1.val[1]), low_nibbles))}};
        const int8x16_t x0_1 = vld1q_s8(x + 32);
        const int8x16_t x1_1 = vld1q_s8(x + 48);
        isum0_0_0 = vmlal_s8(vmlal_s8(isum0_0_0, vget_low_s8(w0_1.val[0]), vget_low_s8(x0_1)),
                             vget_high_s8(w0_1.val[0]), vget_high_s8(x0_1));
        isum0_0_1 = vmlal_s8(vmlal_s8(isum0_0_1, vget_low_s8(w0_1.val[1]), vget_low_s8(x0_1)),
                             vget_high_s8(w0_1.val[1]), vget_high_s8(x0_1));
        isum0_1_0 = vmlal_s8(vmlal_s8(isum0_1_0, vget_low_s8(w0_1.val[0]), vget_low_s8(x1_1)),
                             vget_high_s8(w0_1.val[0]), vget_high_s8(x1_1));
        isum0_1_1 = vmlal_s8(vmlal_s8(isum0_1_1, vget_low_s8(w0_1.val[1]), vget_low_s8(x1_1)),
                             vget_high_s8(w0_1.val[1]), vget_high_s8(x1_1));
        const int8x16x2_t w0_3 = {
            {vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(packed0_1.val[0]), 4)),
             vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(packed0_1.val[1]), 4))}};
        const int8x16_t x0_3 = vld1q_s8(x + 96);
        const int8x16_t x1_3 = vld1q_s8(x + 112);
        isum0_0_0 = vmlal_s8(vmlal_s8(isum0_0_0, vget_low_s8(w0_3.val[0]), vget_low_s8(x0_3)),
                             vget_high_s8(w0_3.val[0]), vget_high_s8(x0_3));
        isum0_0_1 = vmlal_s8(vmlal_s8(isum0_0_1, vget_low_s8(w0_3.val[1]), vget_low_s8(x0_3)),
                             vget_high_s8(w0_3.val[1]), vget_high_s8(x0_3));
        isum0_1_0 = vmlal_s8(vmlal_s8(isum0_1_0, vget_low_s8(w0_3.val[0]), vget_low_s8(x1_3)),
                             vget_high_s8(w0_3.val[0]), vget_high_s8(x1_3));
        isum0_1_1 = vmlal_s8(vmlal_s8(isum0_1_1, vget_low_s8(w0_3.val[1]), vget_low_s8(x1_3)),
                             vget_high_s8(w0_3.val[1]), vget_high_s8(x1_3));
        const float32x4_t w_scale0 = vld1q_f32(wd);
        const float32x2_t x_scale0 = vld1_f32(xd);
        sum0_0 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(vpaddlq_s16(isum0_0_0), vpaddlq_s16(isum0_0_1))),
                              vmulq_lane_f32(w_scale0, x_scale0, 0), sum0_0);
        sum0_1 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(vpaddlq_s16(isum0_1_0), vpaddlq_s16(isum0_1_1))),
                              vmulq_lane_f32(w_scale0, x_scale0, 1), sum0_1);
        w += 64;
        wd += 4;
        x += 128;
        xd += 2;
        xs += 4;
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
                   const int32_t *xs, size_t blocks)
{
    const uint8x16_t low_nibbles = vdupq_n_u8(0x0f);
    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        int16x8_t isum0_0_0 = vdupq_n_s16((int16_t)xs[1]);
        int16x8_t isum0_0_1 = vdupq_n_s16((int16_t)xs[1]);

        const uint8x16_t packed0_0 = vld1q_u8(w);
        const int8x16_t w0_0 = vreinterpretq_s8_u8(vandq_u8(packed0_0, low_nibbles));
        const int8x16_t w0_4 = vreinterpretq_s8_u8(vshrq_n_u8(packed0_0, 4));
        const int8x16_t x0_0 = vld1q_s8(x);
        const int8x16_t x0_4 = vld1q_s8(x + 64);
        isum0_0_0 = vmlal_s8(vmlal_s8(isum0_0_0, vget_low_s8(w0_0), vget_low_s8(x0_0)), vget_low_s8(w0_4),
                             vget_low_s8(x0_4));
        isum0_0_1 = vmlal_s8(vmlal_s8(isum0_0_1, vget_high_s8(w0_0), vget_high_s8(x0_0)), vget_high_s8(w0_4),
                             vget_high_s8(x0_4));
        const uint8x16_t packed0_1 = vld1q_u8(w + 16);
        const int8x16_t w0_1 = vreinterpretq_s8_u8(vandq_u8(packed0_1, low_nibbles));
        const int8x16_t w0_5 = vreinterpretq_s8_u8(vshrq_n_u8(packed0_1, 4));
        const int8x16_t x0_1 = vld1q_s8(x + 16);
        const int8x16_t x0_5 = vld1q_s8(x + 80);
        isum0_0_0 = vmlal_s8(vmlal_s8(isum0_0_0, vget_low_s8(w0_1), vget_low_s8(x0_1)), vget_low_s8(w0_5),
                             vget_low_s8(x0_5));
        isum0_0_1 = vmlal_s8(vmlal_s8(isum0_0_1, vget_high_s8(w0_1), vget_high_s8(x0_1)), vget_high_s8(w0_5),
                             vget_high_s8(x0_5));
        const uint8x16_t packed0_2 = vld1q_u8(w + 32);
        const int8x16_t w0_2 = vreinterpretq_s8_u8(vandq_u8(packed0_2, low_nibbles));
        const int8x16_t w0_6 = vreinterpretq_s8_u8(vshrq_n_u8(packed0_2, 4));
        const int8x16_t x0_2 = vld1q_s8(x + 32);
        const int8x16_t x0_6 = vld1q_s8(x + 96);
        isum0_0_0 = vmlal_s8(vmlal_s8(isum0_0_0, vget_low_s8(w0_2), vget_low_s8(x0_2)), vget_low_s8(w0_6),
                             vget_low_s8(x0_6));
        isum0_0_1 = vmlal_s8(vmlal_s8(isum0_0_1, vget_high_s8(w0_2), vget_high_s8(x0_2)), vget_high_s8(w0_6),
                             vget_high_s8(x0_6));
        const uint8x16_t packed0_3 = vld1q_u8(w + 48);
        const int8x16_t w0_3 = vreinterpretq_s8_u8(vandq_u8(packed0_3, low_nibbles));
        const int8x16_t w0_7 = vreinterpretq_s8_u8(vshrq_n_u8(packed0_3, 4));
        const int8x16_t x0_3 = vld1q_s8(x + 48);
        const int8x16_t x0_7 = vld1q_s8(x + 112);
        isum0_0_0 = vmlal_s8(vmlal_s8(isum0_0_0, vget_low_s8(w0_3), vget_low_s8(x0_3)), vget_low_s8(w0_7),
                             vget_low_s8(x0_7));
        isum0_0_1 = vmlal_s8(vmlal_s8(isum0_0_1, vget_high_s8(w0_3), vget_high_s8(x0_3)), vget_high_s8(w0_7),
                             vget_high_s8(x0_7));
        const float32x4_t w_scale0 = vld1q_f32(wd);
        const float x_scale0 = xd[0];
        sum0_0 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(vpaddlq_s16(isum0_0_0), vpaddlq_s16(isum0_0_1))),
                              vmulq_n_f32(w_scale0, x_scale0), sum0_0);
        w += 64;
        wd += 4;
        x += 128;
        xd += 1;
        xs += 2;
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
        tile_4(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 128, xd + t * blocks,
               xs + t * blocks * 2, blocks);
    for (; t + 2 <= tokens; t += 2)
        tile_2(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 128, xd + t * blocks,
               xs + t * blocks * 2, blocks);
    for (; t + 1 <= tokens; t += 1)
        tile_1(y + t * y_stride, rows, w, wd, xt + t * blocks * 128, xd + t * blocks, xs + t * blocks * 2,
               blocks);
}

void ml_k_matmul_q4_pk_neon(float *y, size_t y_stride, const uint8_t *wq, const float *wd, const int8_t *xt,
                            const float *xd, const int32_t *xs, int cols, int tokens, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 4)
        row_group(y + r, y_stride, r1 - r, wq + (size_t)r * blocks * 16, wd + (size_t)r * blocks, xt, xd, xs,
                  blocks, 0, (size_t)tokens);
}
