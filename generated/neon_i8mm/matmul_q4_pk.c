/*
 * ml_k_matmul_q4_pk_neon_i8mm
 * y[token][r0..r1) = W x[token] for packed Q4_0 weights with f32 scales.
 *
 * Written by krafla-gen from templates/matmul_pk.c.j2 and isa_specs/neon_i8mm.py (facets: pack, tile); do not
 * edit.
 *
 * sdot takes signed bytes. Q4 bytes are stored XOR 0x88, so that a nibble reads as the signed value q - 8:
 * shifted left by 4 (low) or masked (high) it is 16 (q - 8) as a signed byte, and the conversion to float
 * divides the block's sum by 16 exactly. Nothing has to be corrected.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* One group of 4 rows against 8 tokens; sums stay in registers over all blocks. */
static void tile_8(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const int8x16_t high_nibbles = vdupq_n_s8((int8_t)0xf0);
    (void)xs; /* sums of signed products need no correction */
    float32x4_t sum0 = vdupq_n_f32(0.0f);
    float32x4_t sum1 = vdupq_n_f32(0.0f);
    float32x4_t sum2 = vdupq_n_f32(0.0f);
    float32x4_t sum3 = vdupq_n_f32(0.0f);
    float32x4_t sum4 = vdupq_n_f32(0.0f);
    float32x4_t sum5 = vdupq_n_f32(0.0f);
    float32x4_t sum6 = vdupq_n_f32(0.0f);
    float32x4_t sum7 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        int32x4x2_t isum0 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum2 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum4 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum6 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
#pragma GCC unroll 4
        for (int step = 0; step < 4; step += 2) {
            const int8x16_t packed0 = vld1q_s8((const int8_t *)(w + step * 16));
            const int8x16_t packed1 = vld1q_s8((const int8_t *)(w + step * 16) + 16);
            const int8x16x2_t w0 = ml_zip_steps_neon(
                vshlq_n_s8(packed0, 4), vshlq_n_s8(packed1, 4)); /* elements 0 to 15 of the block */
            const int8x16x2_t w1 = ml_zip_steps_neon(vandq_s8(packed0, high_nibbles),
                                                     vandq_s8(packed1, high_nibbles)); /* 16 to 31 */
            const int8x16_t x0_0 = vld1q_s8(x + step * 32 + 0);
            const int8x16_t x0_2 = vld1q_s8(x + step * 32 + 16);
            const int8x16_t x0_4 = vld1q_s8(x + step * 32 + 32);
            const int8x16_t x0_6 = vld1q_s8(x + step * 32 + 48);
            isum0.val[0] = vmmlaq_s32(isum0.val[0], w0.val[0], x0_0);
            isum0.val[1] = vmmlaq_s32(isum0.val[1], w0.val[1], x0_0);
            isum2.val[0] = vmmlaq_s32(isum2.val[0], w0.val[0], x0_2);
            isum2.val[1] = vmmlaq_s32(isum2.val[1], w0.val[1], x0_2);
            isum4.val[0] = vmmlaq_s32(isum4.val[0], w0.val[0], x0_4);
            isum4.val[1] = vmmlaq_s32(isum4.val[1], w0.val[1], x0_4);
            isum6.val[0] = vmmlaq_s32(isum6.val[0], w0.val[0], x0_6);
            isum6.val[1] = vmmlaq_s32(isum6.val[1], w0.val[1], x0_6);
            const int8x16_t x1_0 = vld1q_s8(x + (step + 4) * 32 + 0);
            const int8x16_t x1_2 = vld1q_s8(x + (step + 4) * 32 + 16);
            const int8x16_t x1_4 = vld1q_s8(x + (step + 4) * 32 + 32);
            const int8x16_t x1_6 = vld1q_s8(x + (step + 4) * 32 + 48);
            isum0.val[0] = vmmlaq_s32(isum0.val[0], w1.val[0], x1_0);
            isum0.val[1] = vmmlaq_s32(isum0.val[1], w1.val[1], x1_0);
            isum2.val[0] = vmmlaq_s32(isum2.val[0], w1.val[0], x1_2);
            isum2.val[1] = vmmlaq_s32(isum2.val[1], w1.val[1], x1_2);
            isum4.val[0] = vmmlaq_s32(isum4.val[0], w1.val[0], x1_4);
            isum4.val[1] = vmmlaq_s32(isum4.val[1], w1.val[1], x1_4);
            isum6.val[0] = vmmlaq_s32(isum6.val[0], w1.val[0], x1_6);
            isum6.val[1] = vmmlaq_s32(isum6.val[1], w1.val[1], x1_6);
        }
        const float32x4_t w_scale = vld1q_f32(wd);
        sum0 = vfmaq_f32(sum0, vcvtq_n_f32_s32(vuzp1q_s32(isum0.val[0], isum0.val[1]), 4),
                         vmulq_f32(w_scale, vdupq_n_f32(xd[0])));
        sum1 = vfmaq_f32(sum1, vcvtq_n_f32_s32(vuzp2q_s32(isum0.val[0], isum0.val[1]), 4),
                         vmulq_f32(w_scale, vdupq_n_f32(xd[1])));
        sum2 = vfmaq_f32(sum2, vcvtq_n_f32_s32(vuzp1q_s32(isum2.val[0], isum2.val[1]), 4),
                         vmulq_f32(w_scale, vdupq_n_f32(xd[2])));
        sum3 = vfmaq_f32(sum3, vcvtq_n_f32_s32(vuzp2q_s32(isum2.val[0], isum2.val[1]), 4),
                         vmulq_f32(w_scale, vdupq_n_f32(xd[3])));
        sum4 = vfmaq_f32(sum4, vcvtq_n_f32_s32(vuzp1q_s32(isum4.val[0], isum4.val[1]), 4),
                         vmulq_f32(w_scale, vdupq_n_f32(xd[4])));
        sum5 = vfmaq_f32(sum5, vcvtq_n_f32_s32(vuzp2q_s32(isum4.val[0], isum4.val[1]), 4),
                         vmulq_f32(w_scale, vdupq_n_f32(xd[5])));
        sum6 = vfmaq_f32(sum6, vcvtq_n_f32_s32(vuzp1q_s32(isum6.val[0], isum6.val[1]), 4),
                         vmulq_f32(w_scale, vdupq_n_f32(xd[6])));
        sum7 = vfmaq_f32(sum7, vcvtq_n_f32_s32(vuzp2q_s32(isum6.val[0], isum6.val[1]), 4),
                         vmulq_f32(w_scale, vdupq_n_f32(xd[7])));
        w += 64;
        wd += 4;
        x += 256;
        xd += 8;
    }
    if (rows >= 4) {
        vst1q_f32(y, sum0);
        vst1q_f32((y + y_stride), sum1);
        vst1q_f32((y + 2 * y_stride), sum2);
        vst1q_f32((y + 3 * y_stride), sum3);
        vst1q_f32((y + 4 * y_stride), sum4);
        vst1q_f32((y + 5 * y_stride), sum5);
        vst1q_f32((y + 6 * y_stride), sum6);
        vst1q_f32((y + 7 * y_stride), sum7);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    vst1q_f32(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum1);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum2);
    memcpy(y + 2 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum3);
    memcpy(y + 3 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum4);
    memcpy(y + 4 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum5);
    memcpy(y + 5 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum6);
    memcpy(y + 6 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum7);
    memcpy(y + 7 * y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 4 rows against 4 tokens; sums stay in registers over all blocks. */
static void tile_4(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const int8x16_t high_nibbles = vdupq_n_s8((int8_t)0xf0);
    (void)xs; /* sums of signed products need no correction */
    float32x4_t sum0 = vdupq_n_f32(0.0f);
    float32x4_t sum1 = vdupq_n_f32(0.0f);
    float32x4_t sum2 = vdupq_n_f32(0.0f);
    float32x4_t sum3 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        int32x4x2_t isum0 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum2 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
#pragma GCC unroll 4
        for (int step = 0; step < 4; step += 2) {
            const int8x16_t packed0 = vld1q_s8((const int8_t *)(w + step * 16));
            const int8x16_t packed1 = vld1q_s8((const int8_t *)(w + step * 16) + 16);
            const int8x16x2_t w0 = ml_zip_steps_neon(
                vshlq_n_s8(packed0, 4), vshlq_n_s8(packed1, 4)); /* elements 0 to 15 of the block */
            const int8x16x2_t w1 = ml_zip_steps_neon(vandq_s8(packed0, high_nibbles),
                                                     vandq_s8(packed1, high_nibbles)); /* 16 to 31 */
            const int8x16_t x0_0 = vld1q_s8(x + step * 16 + 0);
            const int8x16_t x0_2 = vld1q_s8(x + step * 16 + 16);
            isum0.val[0] = vmmlaq_s32(isum0.val[0], w0.val[0], x0_0);
            isum0.val[1] = vmmlaq_s32(isum0.val[1], w0.val[1], x0_0);
            isum2.val[0] = vmmlaq_s32(isum2.val[0], w0.val[0], x0_2);
            isum2.val[1] = vmmlaq_s32(isum2.val[1], w0.val[1], x0_2);
            const int8x16_t x1_0 = vld1q_s8(x + (step + 4) * 16 + 0);
            const int8x16_t x1_2 = vld1q_s8(x + (step + 4) * 16 + 16);
            isum0.val[0] = vmmlaq_s32(isum0.val[0], w1.val[0], x1_0);
            isum0.val[1] = vmmlaq_s32(isum0.val[1], w1.val[1], x1_0);
            isum2.val[0] = vmmlaq_s32(isum2.val[0], w1.val[0], x1_2);
            isum2.val[1] = vmmlaq_s32(isum2.val[1], w1.val[1], x1_2);
        }
        const float32x4_t w_scale = vld1q_f32(wd);
        sum0 = vfmaq_f32(sum0, vcvtq_n_f32_s32(vuzp1q_s32(isum0.val[0], isum0.val[1]), 4),
                         vmulq_f32(w_scale, vdupq_n_f32(xd[0])));
        sum1 = vfmaq_f32(sum1, vcvtq_n_f32_s32(vuzp2q_s32(isum0.val[0], isum0.val[1]), 4),
                         vmulq_f32(w_scale, vdupq_n_f32(xd[1])));
        sum2 = vfmaq_f32(sum2, vcvtq_n_f32_s32(vuzp1q_s32(isum2.val[0], isum2.val[1]), 4),
                         vmulq_f32(w_scale, vdupq_n_f32(xd[2])));
        sum3 = vfmaq_f32(sum3, vcvtq_n_f32_s32(vuzp2q_s32(isum2.val[0], isum2.val[1]), 4),
                         vmulq_f32(w_scale, vdupq_n_f32(xd[3])));
        w += 64;
        wd += 4;
        x += 128;
        xd += 4;
    }
    if (rows >= 4) {
        vst1q_f32(y, sum0);
        vst1q_f32((y + y_stride), sum1);
        vst1q_f32((y + 2 * y_stride), sum2);
        vst1q_f32((y + 3 * y_stride), sum3);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    vst1q_f32(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum1);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum2);
    memcpy(y + 2 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum3);
    memcpy(y + 3 * y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 4 rows against 2 tokens; sums stay in registers over all blocks. */
static void tile_2(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const int8x16_t high_nibbles = vdupq_n_s8((int8_t)0xf0);
    (void)xs; /* sums of signed products need no correction */
    float32x4_t sum0 = vdupq_n_f32(0.0f);
    float32x4_t sum1 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        int32x4x2_t isum0 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
#pragma GCC unroll 4
        for (int step = 0; step < 4; step += 2) {
            const int8x16_t packed0 = vld1q_s8((const int8_t *)(w + step * 16));
            const int8x16_t packed1 = vld1q_s8((const int8_t *)(w + step * 16) + 16);
            const int8x16x2_t w0 = ml_zip_steps_neon(
                vshlq_n_s8(packed0, 4), vshlq_n_s8(packed1, 4)); /* elements 0 to 15 of the block */
            const int8x16x2_t w1 = ml_zip_steps_neon(vandq_s8(packed0, high_nibbles),
                                                     vandq_s8(packed1, high_nibbles)); /* 16 to 31 */
            const int8x16_t x0_0 = vld1q_s8(x + step * 8 + 0);
            isum0.val[0] = vmmlaq_s32(isum0.val[0], w0.val[0], x0_0);
            isum0.val[1] = vmmlaq_s32(isum0.val[1], w0.val[1], x0_0);
            const int8x16_t x1_0 = vld1q_s8(x + (step + 4) * 8 + 0);
            isum0.val[0] = vmmlaq_s32(isum0.val[0], w1.val[0], x1_0);
            isum0.val[1] = vmmlaq_s32(isum0.val[1], w1.val[1], x1_0);
        }
        const float32x4_t w_scale = vld1q_f32(wd);
        sum0 = vfmaq_f32(sum0, vcvtq_n_f32_s32(vuzp1q_s32(isum0.val[0], isum0.val[1]), 4),
                         vmulq_f32(w_scale, vdupq_n_f32(xd[0])));
        sum1 = vfmaq_f32(sum1, vcvtq_n_f32_s32(vuzp2q_s32(isum0.val[0], isum0.val[1]), 4),
                         vmulq_f32(w_scale, vdupq_n_f32(xd[1])));
        w += 64;
        wd += 4;
        x += 64;
        xd += 2;
    }
    if (rows >= 4) {
        vst1q_f32(y, sum0);
        vst1q_f32((y + y_stride), sum1);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    vst1q_f32(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, sum1);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 4 rows against 1 token; sums stay in registers over all blocks. */
static void tile_1(float *y, int rows, const uint8_t *w, const float *wd, const int8_t *x, const float *xd,
                   const int32_t *xs, size_t blocks)
{
    const int8x16_t high_nibbles = vdupq_n_s8((int8_t)0xf0);
    (void)xs; /* sums of signed products need no correction */
    float32x4_t sum0 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        int32x4_t isum0 = vdupq_n_s32(0);
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {
            const int8x16_t packed = vld1q_s8((const int8_t *)(w + step * 16));
            const int8x16_t w0 = vshlq_n_s8(packed, 4);          /* elements 0 to 15 of the block */
            const int8x16_t w1 = vandq_s8(packed, high_nibbles); /* 16 to 31 */
            const int8x16_t x0_0 = vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32(x + step * 4 + 0)));
            isum0 = vdotq_s32(isum0, w0, x0_0);
            const int8x16_t x1_0 = vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32(x + (step + 4) * 4 + 0)));
            isum0 = vdotq_s32(isum0, w1, x1_0);
        }
        const float32x4_t w_scale = vld1q_f32(wd);
        sum0 = vfmaq_f32(sum0, vcvtq_n_f32_s32(isum0, 4), vmulq_f32(w_scale, vdupq_n_f32(xd[0])));
        w += 64;
        wd += 4;
        x += 32;
        xd += 1;
    }
    if (rows >= 4) {
        vst1q_f32(y, sum0);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    vst1q_f32(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
}

void ml_k_matmul_q4_pk_neon_i8mm(float *y, size_t y_stride, const uint8_t *wq, const float *wd,
                                 const int8_t *xt, const float *xd, const int32_t *xs, int cols, int tokens,
                                 int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 4) {
        /* This group's weights stay in cache across the token tiles. */
        const size_t offset = (size_t)r * blocks;
        const uint8_t *w = wq + offset * 16;
        size_t t = 0;
        for (; t + 8 <= (size_t)tokens; t += 8)
            tile_8(y + t * y_stride + r, y_stride, r1 - r, w, wd + offset, xt + t * blocks * 32,
                   xd + t * blocks, xs + t * blocks * 2, blocks);
        for (; t + 4 <= (size_t)tokens; t += 4)
            tile_4(y + t * y_stride + r, y_stride, r1 - r, w, wd + offset, xt + t * blocks * 32,
                   xd + t * blocks, xs + t * blocks * 2, blocks);
        for (; t + 2 <= (size_t)tokens; t += 2)
            tile_2(y + t * y_stride + r, y_stride, r1 - r, w, wd + offset, xt + t * blocks * 32,
                   xd + t * blocks, xs + t * blocks * 2, blocks);
        for (; t + 1 <= (size_t)tokens; t += 1)
            tile_1(y + t * y_stride + r, r1 - r, w, wd + offset, xt + t * blocks * 32, xd + t * blocks,
                   xs + t * blocks * 2, blocks);
    }
}
