/*
 * ml_k_matmul_q8_pk_f16_neon_dotprod
 * y[token][r0..r1) = W x[token] for packed Q8_0 weights with f16 scales.
 *
 * Written by krafla-gen from templates/matmul_pk.c.j2 and isa_specs/neon_dotprod.py (facets: pack, tile); do
 * not edit.
 *
 * sdot takes signed bytes, and one of four tokens' or steps' activations as a lane. Q4 bytes are stored
 * XOR 0x88, so that a nibble reads as the signed value q - 8: shifted left by 4 (low) or masked (high) it
 * is 16 (q - 8) as a signed byte. Sums start from the bits of 1.5 * 2^23 (Q4: 2^19): as floats they are
 * then that bias plus the sum (over 16), and subtracting it is exact and takes less than a conversion.
 * Nothing has to be corrected.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* One group of 4 rows against 8 tokens; sums stay in registers over all blocks. */
static void tile_8(float *y, size_t y_stride, int rows, const uint8_t *w, const uint16_t *wd, const int8_t *x,
                   const float *xd, size_t blocks)
{

    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    float32x4_t sum0_1 = vdupq_n_f32(0.0f);
    float32x4_t sum0_2 = vdupq_n_f32(0.0f);
    float32x4_t sum0_3 = vdupq_n_f32(0.0f);
    float32x4_t sum0_4 = vdupq_n_f32(0.0f);
    float32x4_t sum0_5 = vdupq_n_f32(0.0f);
    float32x4_t sum0_6 = vdupq_n_f32(0.0f);
    float32x4_t sum0_7 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        const float32x4_t bias = vdupq_n_f32(0x1.8p23f);
        int32x4_t isum0_0 = vreinterpretq_s32_f32(bias);
        int32x4_t isum0_1 = vreinterpretq_s32_f32(bias);
        int32x4_t isum0_2 = vreinterpretq_s32_f32(bias);
        int32x4_t isum0_3 = vreinterpretq_s32_f32(bias);
        int32x4_t isum0_4 = vreinterpretq_s32_f32(bias);
        int32x4_t isum0_5 = vreinterpretq_s32_f32(bias);
        int32x4_t isum0_6 = vreinterpretq_s32_f32(bias);
        int32x4_t isum0_7 = vreinterpretq_s32_f32(bias);

        const int8x16_t w0_0 = vld1q_s8((const int8_t *)(w));
        const int8x16_t x0_0 = vld1q_s8(x);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_0, x0_0, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_0, x0_0, 1);
        isum0_2 = vdotq_laneq_s32(isum0_2, w0_0, x0_0, 2);
        isum0_3 = vdotq_laneq_s32(isum0_3, w0_0, x0_0, 3);
        const int8x16_t x0_1 = vld1q_s8(x + 16);
        isum0_4 = vdotq_laneq_s32(isum0_4, w0_0, x0_1, 0);
        isum0_5 = vdotq_laneq_s32(isum0_5, w0_0, x0_1, 1);
        isum0_6 = vdotq_laneq_s32(isum0_6, w0_0, x0_1, 2);
        isum0_7 = vdotq_laneq_s32(isum0_7, w0_0, x0_1, 3);
        const int8x16_t w0_1 = vld1q_s8((const int8_t *)(w + 16));
        const int8x16_t x0_2 = vld1q_s8(x + 32);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_1, x0_2, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_1, x0_2, 1);
        isum0_2 = vdotq_laneq_s32(isum0_2, w0_1, x0_2, 2);
        isum0_3 = vdotq_laneq_s32(isum0_3, w0_1, x0_2, 3);
        const int8x16_t x0_3 = vld1q_s8(x + 48);
        isum0_4 = vdotq_laneq_s32(isum0_4, w0_1, x0_3, 0);
        isum0_5 = vdotq_laneq_s32(isum0_5, w0_1, x0_3, 1);
        isum0_6 = vdotq_laneq_s32(isum0_6, w0_1, x0_3, 2);
        isum0_7 = vdotq_laneq_s32(isum0_7, w0_1, x0_3, 3);
        const int8x16_t w0_2 = vld1q_s8((const int8_t *)(w + 32));
        const int8x16_t x0_4 = vld1q_s8(x + 64);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_2, x0_4, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_2, x0_4, 1);
        isum0_2 = vdotq_laneq_s32(isum0_2, w0_2, x0_4, 2);
        isum0_3 = vdotq_laneq_s32(isum0_3, w0_2, x0_4, 3);
        const int8x16_t x0_5 = vld1q_s8(x + 80);
        isum0_4 = vdotq_laneq_s32(isum0_4, w0_2, x0_5, 0);
        isum0_5 = vdotq_laneq_s32(isum0_5, w0_2, x0_5, 1);
        isum0_6 = vdotq_laneq_s32(isum0_6, w0_2, x0_5, 2);
        isum0_7 = vdotq_laneq_s32(isum0_7, w0_2, x0_5, 3);
        const int8x16_t w0_3 = vld1q_s8((const int8_t *)(w + 48));
        const int8x16_t x0_6 = vld1q_s8(x + 96);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_3, x0_6, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_3, x0_6, 1);
        isum0_2 = vdotq_laneq_s32(isum0_2, w0_3, x0_6, 2);
        isum0_3 = vdotq_laneq_s32(isum0_3, w0_3, x0_6, 3);
        const int8x16_t x0_7 = vld1q_s8(x + 112);
        isum0_4 = vdotq_laneq_s32(isum0_4, w0_3, x0_7, 0);
        isum0_5 = vdotq_laneq_s32(isum0_5, w0_3, x0_7, 1);
        isum0_6 = vdotq_laneq_s32(isum0_6, w0_3, x0_7, 2);
        isum0_7 = vdotq_laneq_s32(isum0_7, w0_3, x0_7, 3);
        const int8x16_t w0_4 = vld1q_s8((const int8_t *)(w + 64));
        const int8x16_t x0_8 = vld1q_s8(x + 128);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_4, x0_8, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_4, x0_8, 1);
        isum0_2 = vdotq_laneq_s32(isum0_2, w0_4, x0_8, 2);
        isum0_3 = vdotq_laneq_s32(isum0_3, w0_4, x0_8, 3);
        const int8x16_t x0_9 = vld1q_s8(x + 144);
        isum0_4 = vdotq_laneq_s32(isum0_4, w0_4, x0_9, 0);
        isum0_5 = vdotq_laneq_s32(isum0_5, w0_4, x0_9, 1);
        isum0_6 = vdotq_laneq_s32(isum0_6, w0_4, x0_9, 2);
        isum0_7 = vdotq_laneq_s32(isum0_7, w0_4, x0_9, 3);
        const int8x16_t w0_5 = vld1q_s8((const int8_t *)(w + 80));
        const int8x16_t x0_10 = vld1q_s8(x + 160);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_5, x0_10, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_5, x0_10, 1);
        isum0_2 = vdotq_laneq_s32(isum0_2, w0_5, x0_10, 2);
        isum0_3 = vdotq_laneq_s32(isum0_3, w0_5, x0_10, 3);
        const int8x16_t x0_11 = vld1q_s8(x + 176);
        isum0_4 = vdotq_laneq_s32(isum0_4, w0_5, x0_11, 0);
        isum0_5 = vdotq_laneq_s32(isum0_5, w0_5, x0_11, 1);
        isum0_6 = vdotq_laneq_s32(isum0_6, w0_5, x0_11, 2);
        isum0_7 = vdotq_laneq_s32(isum0_7, w0_5, x0_11, 3);
        const int8x16_t w0_6 = vld1q_s8((const int8_t *)(w + 96));
        const int8x16_t x0_12 = vld1q_s8(x + 192);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_6, x0_12, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_6, x0_12, 1);
        isum0_2 = vdotq_laneq_s32(isum0_2, w0_6, x0_12, 2);
        isum0_3 = vdotq_laneq_s32(isum0_3, w0_6, x0_12, 3);
        const int8x16_t x0_13 = vld1q_s8(x + 208);
        isum0_4 = vdotq_laneq_s32(isum0_4, w0_6, x0_13, 0);
        isum0_5 = vdotq_laneq_s32(isum0_5, w0_6, x0_13, 1);
        isum0_6 = vdotq_laneq_s32(isum0_6, w0_6, x0_13, 2);
        isum0_7 = vdotq_laneq_s32(isum0_7, w0_6, x0_13, 3);
        const int8x16_t w0_7 = vld1q_s8((const int8_t *)(w + 112));
        const int8x16_t x0_14 = vld1q_s8(x + 224);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_7, x0_14, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_7, x0_14, 1);
        isum0_2 = vdotq_laneq_s32(isum0_2, w0_7, x0_14, 2);
        isum0_3 = vdotq_laneq_s32(isum0_3, w0_7, x0_14, 3);
        const int8x16_t x0_15 = vld1q_s8(x + 240);
        isum0_4 = vdotq_laneq_s32(isum0_4, w0_7, x0_15, 0);
        isum0_5 = vdotq_laneq_s32(isum0_5, w0_7, x0_15, 1);
        isum0_6 = vdotq_laneq_s32(isum0_6, w0_7, x0_15, 2);
        isum0_7 = vdotq_laneq_s32(isum0_7, w0_7, x0_15, 3);
        const float32x4_t w_scale0 = ml_load_f16_neon(wd);
        const float32x2_t x_scale0 = vld1_f32(xd);
        const float32x2_t x_scale2 = vld1_f32(xd + 2);
        const float32x2_t x_scale4 = vld1_f32(xd + 4);
        const float32x2_t x_scale6 = vld1_f32(xd + 6);
        sum0_0 = vfmaq_f32(sum0_0, vsubq_f32(vreinterpretq_f32_s32(isum0_0), bias),
                           vmulq_lane_f32(w_scale0, x_scale0, 0));
        sum0_1 = vfmaq_f32(sum0_1, vsubq_f32(vreinterpretq_f32_s32(isum0_1), bias),
                           vmulq_lane_f32(w_scale0, x_scale0, 1));
        sum0_2 = vfmaq_f32(sum0_2, vsubq_f32(vreinterpretq_f32_s32(isum0_2), bias),
                           vmulq_lane_f32(w_scale0, x_scale2, 0));
        sum0_3 = vfmaq_f32(sum0_3, vsubq_f32(vreinterpretq_f32_s32(isum0_3), bias),
                           vmulq_lane_f32(w_scale0, x_scale2, 1));
        sum0_4 = vfmaq_f32(sum0_4, vsubq_f32(vreinterpretq_f32_s32(isum0_4), bias),
                           vmulq_lane_f32(w_scale0, x_scale4, 0));
        sum0_5 = vfmaq_f32(sum0_5, vsubq_f32(vreinterpretq_f32_s32(isum0_5), bias),
                           vmulq_lane_f32(w_scale0, x_scale4, 1));
        sum0_6 = vfmaq_f32(sum0_6, vsubq_f32(vreinterpretq_f32_s32(isum0_6), bias),
                           vmulq_lane_f32(w_scale0, x_scale6, 0));
        sum0_7 = vfmaq_f32(sum0_7, vsubq_f32(vreinterpretq_f32_s32(isum0_7), bias),
                           vmulq_lane_f32(w_scale0, x_scale6, 1));
        w += 128;
        wd += 4;
        x += 256;
        xd += 8;
    }
    if (rows >= 4) {
        vst1q_f32(y, sum0_0);
        vst1q_f32((y + y_stride), sum0_1);
        vst1q_f32((y + 2 * y_stride), sum0_2);
        vst1q_f32((y + 3 * y_stride), sum0_3);
        vst1q_f32((y + 4 * y_stride), sum0_4);
        vst1q_f32((y + 5 * y_stride), sum0_5);
        vst1q_f32((y + 6 * y_stride), sum0_6);
        vst1q_f32((y + 7 * y_stride), sum0_7);
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
    vst1q_f32(out, sum0_4);
    memcpy(y + 4 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum0_5);
    memcpy(y + 5 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum0_6);
    memcpy(y + 6 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum0_7);
    memcpy(y + 7 * y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 4 rows against 4 tokens; sums stay in registers over all blocks. */
static void tile_4(float *y, size_t y_stride, int rows, const uint8_t *w, const uint16_t *wd, const int8_t *x,
                   const float *xd, size_t blocks)
{

    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    float32x4_t sum0_1 = vdupq_n_f32(0.0f);
    float32x4_t sum0_2 = vdupq_n_f32(0.0f);
    float32x4_t sum0_3 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        const float32x4_t bias = vdupq_n_f32(0x1.8p23f);
        int32x4_t isum0_0 = vreinterpretq_s32_f32(bias);
        int32x4_t isum0_1 = vreinterpretq_s32_f32(bias);
        int32x4_t isum0_2 = vreinterpretq_s32_f32(bias);
        int32x4_t isum0_3 = vreinterpretq_s32_f32(bias);

        const int8x16_t w0_0 = vld1q_s8((const int8_t *)(w));
        const int8x16_t x0_0 = vld1q_s8(x);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_0, x0_0, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_0, x0_0, 1);
        isum0_2 = vdotq_laneq_s32(isum0_2, w0_0, x0_0, 2);
        isum0_3 = vdotq_laneq_s32(isum0_3, w0_0, x0_0, 3);
        const int8x16_t w0_1 = vld1q_s8((const int8_t *)(w + 16));
        const int8x16_t x0_1 = vld1q_s8(x + 16);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_1, x0_1, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_1, x0_1, 1);
        isum0_2 = vdotq_laneq_s32(isum0_2, w0_1, x0_1, 2);
        isum0_3 = vdotq_laneq_s32(isum0_3, w0_1, x0_1, 3);
        const int8x16_t w0_2 = vld1q_s8((const int8_t *)(w + 32));
        const int8x16_t x0_2 = vld1q_s8(x + 32);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_2, x0_2, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_2, x0_2, 1);
        isum0_2 = vdotq_laneq_s32(isum0_2, w0_2, x0_2, 2);
        isum0_3 = vdotq_laneq_s32(isum0_3, w0_2, x0_2, 3);
        const int8x16_t w0_3 = vld1q_s8((const int8_t *)(w + 48));
        const int8x16_t x0_3 = vld1q_s8(x + 48);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_3, x0_3, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_3, x0_3, 1);
        isum0_2 = vdotq_laneq_s32(isum0_2, w0_3, x0_3, 2);
        isum0_3 = vdotq_laneq_s32(isum0_3, w0_3, x0_3, 3);
        const int8x16_t w0_4 = vld1q_s8((const int8_t *)(w + 64));
        const int8x16_t x0_4 = vld1q_s8(x + 64);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_4, x0_4, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_4, x0_4, 1);
        isum0_2 = vdotq_laneq_s32(isum0_2, w0_4, x0_4, 2);
        isum0_3 = vdotq_laneq_s32(isum0_3, w0_4, x0_4, 3);
        const int8x16_t w0_5 = vld1q_s8((const int8_t *)(w + 80));
        const int8x16_t x0_5 = vld1q_s8(x + 80);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_5, x0_5, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_5, x0_5, 1);
        isum0_2 = vdotq_laneq_s32(isum0_2, w0_5, x0_5, 2);
        isum0_3 = vdotq_laneq_s32(isum0_3, w0_5, x0_5, 3);
        const int8x16_t w0_6 = vld1q_s8((const int8_t *)(w + 96));
        const int8x16_t x0_6 = vld1q_s8(x + 96);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_6, x0_6, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_6, x0_6, 1);
        isum0_2 = vdotq_laneq_s32(isum0_2, w0_6, x0_6, 2);
        isum0_3 = vdotq_laneq_s32(isum0_3, w0_6, x0_6, 3);
        const int8x16_t w0_7 = vld1q_s8((const int8_t *)(w + 112));
        const int8x16_t x0_7 = vld1q_s8(x + 112);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_7, x0_7, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_7, x0_7, 1);
        isum0_2 = vdotq_laneq_s32(isum0_2, w0_7, x0_7, 2);
        isum0_3 = vdotq_laneq_s32(isum0_3, w0_7, x0_7, 3);
        const float32x4_t w_scale0 = ml_load_f16_neon(wd);
        const float32x2_t x_scale0 = vld1_f32(xd);
        const float32x2_t x_scale2 = vld1_f32(xd + 2);
        sum0_0 = vfmaq_f32(sum0_0, vsubq_f32(vreinterpretq_f32_s32(isum0_0), bias),
                           vmulq_lane_f32(w_scale0, x_scale0, 0));
        sum0_1 = vfmaq_f32(sum0_1, vsubq_f32(vreinterpretq_f32_s32(isum0_1), bias),
                           vmulq_lane_f32(w_scale0, x_scale0, 1));
        sum0_2 = vfmaq_f32(sum0_2, vsubq_f32(vreinterpretq_f32_s32(isum0_2), bias),
                           vmulq_lane_f32(w_scale0, x_scale2, 0));
        sum0_3 = vfmaq_f32(sum0_3, vsubq_f32(vreinterpretq_f32_s32(isum0_3), bias),
                           vmulq_lane_f32(w_scale0, x_scale2, 1));
        w += 128;
        wd += 4;
        x += 128;
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
static void tile_2(float *y, size_t y_stride, int rows, const uint8_t *w, const uint16_t *wd, const int8_t *x,
                   const float *xd, size_t blocks)
{

    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    float32x4_t sum0_1 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        const float32x4_t bias = vdupq_n_f32(0x1.8p23f);
        int32x4_t isum0_0 = vreinterpretq_s32_f32(bias);
        int32x4_t isum0_1 = vreinterpretq_s32_f32(bias);

        const int8x16_t w0_0 = vld1q_s8((const int8_t *)(w));
        const int8x16_t x0_0 = vld1q_s8(x);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_0, x0_0, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_0, x0_0, 1);
        const int8x16_t w0_1 = vld1q_s8((const int8_t *)(w + 16));
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_1, x0_0, 2);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_1, x0_0, 3);
        const int8x16_t w0_2 = vld1q_s8((const int8_t *)(w + 32));
        const int8x16_t x0_1 = vld1q_s8(x + 16);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_2, x0_1, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_2, x0_1, 1);
        const int8x16_t w0_3 = vld1q_s8((const int8_t *)(w + 48));
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_3, x0_1, 2);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_3, x0_1, 3);
        const int8x16_t w0_4 = vld1q_s8((const int8_t *)(w + 64));
        const int8x16_t x0_2 = vld1q_s8(x + 32);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_4, x0_2, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_4, x0_2, 1);
        const int8x16_t w0_5 = vld1q_s8((const int8_t *)(w + 80));
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_5, x0_2, 2);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_5, x0_2, 3);
        const int8x16_t w0_6 = vld1q_s8((const int8_t *)(w + 96));
        const int8x16_t x0_3 = vld1q_s8(x + 48);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_6, x0_3, 0);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_6, x0_3, 1);
        const int8x16_t w0_7 = vld1q_s8((const int8_t *)(w + 112));
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_7, x0_3, 2);
        isum0_1 = vdotq_laneq_s32(isum0_1, w0_7, x0_3, 3);
        const float32x4_t w_scale0 = ml_load_f16_neon(wd);
        const float32x2_t x_scale0 = vld1_f32(xd);
        sum0_0 = vfmaq_f32(sum0_0, vsubq_f32(vreinterpretq_f32_s32(isum0_0), bias),
                           vmulq_lane_f32(w_scale0, x_scale0, 0));
        sum0_1 = vfmaq_f32(sum0_1, vsubq_f32(vreinterpretq_f32_s32(isum0_1), bias),
                           vmulq_lane_f32(w_scale0, x_scale0, 1));
        w += 128;
        wd += 4;
        x += 64;
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
static void tile_1(float *y, int rows, const uint8_t *w, const uint16_t *wd, const int8_t *x, const float *xd,
                   size_t blocks)
{

    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        const float32x4_t bias = vdupq_n_f32(0x1.8p23f);
        int32x4_t isum0_0 = vreinterpretq_s32_f32(bias);

        const int8x16_t w0_0 = vld1q_s8((const int8_t *)(w));
        const int8x16_t x0_0 = vld1q_s8(x);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_0, x0_0, 0);
        const int8x16_t w0_1 = vld1q_s8((const int8_t *)(w + 16));
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_1, x0_0, 1);
        const int8x16_t w0_2 = vld1q_s8((const int8_t *)(w + 32));
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_2, x0_0, 2);
        const int8x16_t w0_3 = vld1q_s8((const int8_t *)(w + 48));
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_3, x0_0, 3);
        const int8x16_t w0_4 = vld1q_s8((const int8_t *)(w + 64));
        const int8x16_t x0_1 = vld1q_s8(x + 16);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_4, x0_1, 0);
        const int8x16_t w0_5 = vld1q_s8((const int8_t *)(w + 80));
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_5, x0_1, 1);
        const int8x16_t w0_6 = vld1q_s8((const int8_t *)(w + 96));
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_6, x0_1, 2);
        const int8x16_t w0_7 = vld1q_s8((const int8_t *)(w + 112));
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_7, x0_1, 3);
        const float32x4_t w_scale0 = ml_load_f16_neon(wd);
        const float x_scale0 = xd[0];
        sum0_0 = vfmaq_f32(sum0_0, vsubq_f32(vreinterpretq_f32_s32(isum0_0), bias),
                           vmulq_n_f32(w_scale0, x_scale0));
        w += 128;
        wd += 4;
        x += 32;
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
static void row_group(float *y, size_t y_stride, int rows, const uint8_t *w, const uint16_t *wd,
                      const int8_t *xt, const float *xd, const int32_t *xs, size_t blocks, size_t t,
                      size_t tokens)
{
    for (; t + 8 <= tokens; t += 8)
        tile_8(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 32, xd + t * blocks, blocks);
    for (; t + 4 <= tokens; t += 4)
        tile_4(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 32, xd + t * blocks, blocks);
    for (; t + 2 <= tokens; t += 2)
        tile_2(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 32, xd + t * blocks, blocks);
    for (; t + 1 <= tokens; t += 1)
        tile_1(y + t * y_stride, rows, w, wd, xt + t * blocks * 32, xd + t * blocks, blocks);
    (void)xs; /* sums of signed products need no correction */
}

void ml_k_matmul_q8_pk_f16_neon_dotprod(float *y, size_t y_stride, const uint8_t *wq, const uint16_t *wd,
                                        const int8_t *xt, const float *xd, const int32_t *xs, int cols,
                                        int tokens, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 4)
        row_group(y + r, y_stride, r1 - r, wq + (size_t)r * blocks * 32, wd + (size_t)r * blocks, xt, xd, xs,
                  blocks, 0, (size_t)tokens);
}
