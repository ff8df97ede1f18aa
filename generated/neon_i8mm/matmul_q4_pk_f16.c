/*
 * ml_k_matmul_q4_pk_f16_neon_i8mm
 * y[token][r0..r1) = W x[token] for packed Q4_0 weights with f16 scales.
 *
 * Written by krafla-gen from templates/matmul_pk.c.j2 and isa_specs/neon_i8mm.py (facets: pack, tile); do not
 * edit.
 *
 * sdot takes signed bytes, and one of four tokens' or steps' activations as a lane. Q4 bytes are stored
 * XOR 0x88, so that a nibble reads as the signed value q - 8: shifted left by 4 (low) or masked (high) it
 * is 16 (q - 8) as a signed byte. Sums start from the bits of 1.5 * 2^23 (Q4: 2^19): as floats they are
 * then that bias plus the sum (over 16), and subtracting it is exact and takes less than a conversion.
 * Nothing has to be corrected.
 *
 * smmla multiplies two rows of eight bytes by two tokens' eight bytes. Zipping the 32-bit lanes of two
 * consecutive sdot steps gives exactly its operands, so the packed layout is unchanged. Sums stay two rows
 * by two tokens in floats, too, until the last block. The bias is loaded, not copied: the vector units
 * have no time left. Q4 bytes are stored XOR 0x88, so that a nibble reads as the signed value q - 8:
 * shifted left by 4 (low) or masked (high) it is 16 (q - 8) as a signed byte. Sums start from the bits of
 * 1.5 * 2^23 (Q4: 2^19): as floats they are then that bias plus the sum (over 16), and subtracting it is
 * exact and takes less than a conversion. Nothing has to be corrected.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* One group of 4 rows against 12 tokens; sums stay in registers over all blocks. */
static void tile_12(float *y, size_t y_stride, int rows, const uint8_t *w, const uint16_t *wd,
                    const int8_t *x, const float *xd, size_t blocks)
{
    const int8x16_t high_nibbles = vdupq_n_s8((int8_t)0xf0);
    float biases[4 * ML_TILE_TOKENS];
    for (int i = 0; i < 4 * ML_TILE_TOKENS; i++)
        biases[i] = 0x1.8p19f;
    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    float32x4_t sum0_1 = vdupq_n_f32(0.0f);
    float32x4_t sum0_2 = vdupq_n_f32(0.0f);
    float32x4_t sum0_3 = vdupq_n_f32(0.0f);
    float32x4_t sum0_4 = vdupq_n_f32(0.0f);
    float32x4_t sum0_5 = vdupq_n_f32(0.0f);
    float32x4_t sum0_6 = vdupq_n_f32(0.0f);
    float32x4_t sum0_7 = vdupq_n_f32(0.0f);
    float32x4_t sum0_8 = vdupq_n_f32(0.0f);
    float32x4_t sum0_9 = vdupq_n_f32(0.0f);
    float32x4_t sum0_10 = vdupq_n_f32(0.0f);
    float32x4_t sum0_11 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        const float32x4_t bias = vdupq_n_f32(0x1.8p19f);
        const float *loaded = ml_opaque_neon(biases);
        int32x4_t isum0_0 = vreinterpretq_s32_f32(vld1q_f32(loaded));
        int32x4_t isum0_1 = vreinterpretq_s32_f32(vld1q_f32(loaded + 4));
        int32x4_t isum0_2 = vreinterpretq_s32_f32(vld1q_f32(loaded + 8));
        int32x4_t isum0_3 = vreinterpretq_s32_f32(vld1q_f32(loaded + 12));
        int32x4_t isum0_4 = vreinterpretq_s32_f32(vld1q_f32(loaded + 16));
        int32x4_t isum0_5 = vreinterpretq_s32_f32(vld1q_f32(loaded + 20));
        int32x4_t isum0_6 = vreinterpretq_s32_f32(vld1q_f32(loaded + 24));
        int32x4_t isum0_7 = vreinterpretq_s32_f32(vld1q_f32(loaded + 28));
        int32x4_t isum0_8 = vreinterpretq_s32_f32(vld1q_f32(loaded + 32));
        int32x4_t isum0_9 = vreinterpretq_s32_f32(vld1q_f32(loaded + 36));
        int32x4_t isum0_10 = vreinterpretq_s32_f32(vld1q_f32(loaded + 40));
        int32x4_t isum0_11 = vreinterpretq_s32_f32(vld1q_f32(loaded + 44));

        const int8x16_t packed0_0 = vld1q_s8((const int8_t *)(w));
        const int8x16_t packed0_1 = vld1q_s8((const int8_t *)(w + 16));
        const int8x16x2_t w0_0 = ml_zip_steps_neon(vshlq_n_s8(packed0_0, 4), vshlq_n_s8(packed0_1, 4));
        const int8x16_t x0_0 = vld1q_s8(x);
        isum0_0 = vmmlaq_s32(isum0_0, w0_0.val[0], x0_0);
        isum0_1 = vmmlaq_s32(isum0_1, w0_0.val[1], x0_0);
        const int8x16_t x2_0 = vld1q_s8(x + 16);
        isum0_2 = vmmlaq_s32(isum0_2, w0_0.val[0], x2_0);
        isum0_3 = vmmlaq_s32(isum0_3, w0_0.val[1], x2_0);
        const int8x16_t x4_0 = vld1q_s8(x + 32);
        isum0_4 = vmmlaq_s32(isum0_4, w0_0.val[0], x4_0);
        isum0_5 = vmmlaq_s32(isum0_5, w0_0.val[1], x4_0);
        const int8x16_t x6_0 = vld1q_s8(x + 48);
        isum0_6 = vmmlaq_s32(isum0_6, w0_0.val[0], x6_0);
        isum0_7 = vmmlaq_s32(isum0_7, w0_0.val[1], x6_0);
        const int8x16_t x8_0 = vld1q_s8(x + 64);
        isum0_8 = vmmlaq_s32(isum0_8, w0_0.val[0], x8_0);
        isum0_9 = vmmlaq_s32(isum0_9, w0_0.val[1], x8_0);
        const int8x16_t x10_0 = vld1q_s8(x + 80);
        isum0_10 = vmmlaq_s32(isum0_10, w0_0.val[0], x10_0);
        isum0_11 = vmmlaq_s32(isum0_11, w0_0.val[1], x10_0);
        const int8x16x2_t w0_2 =
            ml_zip_steps_neon(vandq_s8(packed0_0, high_nibbles), vandq_s8(packed0_1, high_nibbles));
        const int8x16_t x0_2 = vld1q_s8(x + 192);
        isum0_0 = vmmlaq_s32(isum0_0, w0_2.val[0], x0_2);
        isum0_1 = vmmlaq_s32(isum0_1, w0_2.val[1], x0_2);
        const int8x16_t x2_2 = vld1q_s8(x + 208);
        isum0_2 = vmmlaq_s32(isum0_2, w0_2.val[0], x2_2);
        isum0_3 = vmmlaq_s32(isum0_3, w0_2.val[1], x2_2);
        const int8x16_t x4_2 = vld1q_s8(x + 224);
        isum0_4 = vmmlaq_s32(isum0_4, w0_2.val[0], x4_2);
        isum0_5 = vmmlaq_s32(isum0_5, w0_2.val[1], x4_2);
        const int8x16_t x6_2 = vld1q_s8(x + 240);
        isum0_6 = vmmlaq_s32(isum0_6, w0_2.val[0], x6_2);
        isum0_7 = vmmlaq_s32(isum0_7, w0_2.val[1], x6_2);
        const int8x16_t x8_2 = vld1q_s8(x + 256);
        isum0_8 = vmmlaq_s32(isum0_8, w0_2.val[0], x8_2);
        isum0_9 = vmmlaq_s32(isum0_9, w0_2.val[1], x8_2);
        const int8x16_t x10_2 = vld1q_s8(x + 272);
        isum0_10 = vmmlaq_s32(isum0_10, w0_2.val[0], x10_2);
        isum0_11 = vmmlaq_s32(isum0_11, w0_2.val[1], x10_2);
        const int8x16_t packed0_2 = vld1q_s8((const int8_t *)(w + 32));
        const int8x16_t packed0_3 = vld1q_s8((const int8_t *)(w + 48));
        const int8x16x2_t w0_1 = ml_zip_steps_neon(vshlq_n_s8(packed0_2, 4), vshlq_n_s8(packed0_3, 4));
        const int8x16_t x0_1 = vld1q_s8(x + 96);
        isum0_0 = vmmlaq_s32(isum0_0, w0_1.val[0], x0_1);
        isum0_1 = vmmlaq_s32(isum0_1, w0_1.val[1], x0_1);
        const int8x16_t x2_1 = vld1q_s8(x + 112);
        isum0_2 = vmmlaq_s32(isum0_2, w0_1.val[0], x2_1);
        isum0_3 = vmmlaq_s32(isum0_3, w0_1.val[1], x2_1);
        const int8x16_t x4_1 = vld1q_s8(x + 128);
        isum0_4 = vmmlaq_s32(isum0_4, w0_1.val[0], x4_1);
        isum0_5 = vmmlaq_s32(isum0_5, w0_1.val[1], x4_1);
        const int8x16_t x6_1 = vld1q_s8(x + 144);
        isum0_6 = vmmlaq_s32(isum0_6, w0_1.val[0], x6_1);
        isum0_7 = vmmlaq_s32(isum0_7, w0_1.val[1], x6_1);
        const int8x16_t x8_1 = vld1q_s8(x + 160);
        isum0_8 = vmmlaq_s32(isum0_8, w0_1.val[0], x8_1);
        isum0_9 = vmmlaq_s32(isum0_9, w0_1.val[1], x8_1);
        const int8x16_t x10_1 = vld1q_s8(x + 176);
        isum0_10 = vmmlaq_s32(isum0_10, w0_1.val[0], x10_1);
        isum0_11 = vmmlaq_s32(isum0_11, w0_1.val[1], x10_1);
        const int8x16x2_t w0_3 =
            ml_zip_steps_neon(vandq_s8(packed0_2, high_nibbles), vandq_s8(packed0_3, high_nibbles));
        const int8x16_t x0_3 = vld1q_s8(x + 288);
        isum0_0 = vmmlaq_s32(isum0_0, w0_3.val[0], x0_3);
        isum0_1 = vmmlaq_s32(isum0_1, w0_3.val[1], x0_3);
        const int8x16_t x2_3 = vld1q_s8(x + 304);
        isum0_2 = vmmlaq_s32(isum0_2, w0_3.val[0], x2_3);
        isum0_3 = vmmlaq_s32(isum0_3, w0_3.val[1], x2_3);
        const int8x16_t x4_3 = vld1q_s8(x + 320);
        isum0_4 = vmmlaq_s32(isum0_4, w0_3.val[0], x4_3);
        isum0_5 = vmmlaq_s32(isum0_5, w0_3.val[1], x4_3);
        const int8x16_t x6_3 = vld1q_s8(x + 336);
        isum0_6 = vmmlaq_s32(isum0_6, w0_3.val[0], x6_3);
        isum0_7 = vmmlaq_s32(isum0_7, w0_3.val[1], x6_3);
        const int8x16_t x8_3 = vld1q_s8(x + 352);
        isum0_8 = vmmlaq_s32(isum0_8, w0_3.val[0], x8_3);
        isum0_9 = vmmlaq_s32(isum0_9, w0_3.val[1], x8_3);
        const int8x16_t x10_3 = vld1q_s8(x + 368);
        isum0_10 = vmmlaq_s32(isum0_10, w0_3.val[0], x10_3);
        isum0_11 = vmmlaq_s32(isum0_11, w0_3.val[1], x10_3);
        const float32x4_t w_scale0 = ml_load_f16_neon(wd);
        const float32x4x2_t w_scales0 = vzipq_f32(w_scale0, w_scale0);
        const float32x4_t x_scales0 = ml_pair_neon(xd);
        const float32x4_t x_scales2 = ml_pair_neon(xd + 2);
        const float32x4_t x_scales4 = ml_pair_neon(xd + 4);
        const float32x4_t x_scales6 = ml_pair_neon(xd + 6);
        const float32x4_t x_scales8 = ml_pair_neon(xd + 8);
        const float32x4_t x_scales10 = ml_pair_neon(xd + 10);
        sum0_0 = vfmaq_f32(sum0_0, vsubq_f32(vreinterpretq_f32_s32(isum0_0), bias),
                           vmulq_f32(w_scales0.val[0], x_scales0));
        sum0_1 = vfmaq_f32(sum0_1, vsubq_f32(vreinterpretq_f32_s32(isum0_1), bias),
                           vmulq_f32(w_scales0.val[1], x_scales0));
        sum0_2 = vfmaq_f32(sum0_2, vsubq_f32(vreinterpretq_f32_s32(isum0_2), bias),
                           vmulq_f32(w_scales0.val[0], x_scales2));
        sum0_3 = vfmaq_f32(sum0_3, vsubq_f32(vreinterpretq_f32_s32(isum0_3), bias),
                           vmulq_f32(w_scales0.val[1], x_scales2));
        sum0_4 = vfmaq_f32(sum0_4, vsubq_f32(vreinterpretq_f32_s32(isum0_4), bias),
                           vmulq_f32(w_scales0.val[0], x_scales4));
        sum0_5 = vfmaq_f32(sum0_5, vsubq_f32(vreinterpretq_f32_s32(isum0_5), bias),
                           vmulq_f32(w_scales0.val[1], x_scales4));
        sum0_6 = vfmaq_f32(sum0_6, vsubq_f32(vreinterpretq_f32_s32(isum0_6), bias),
                           vmulq_f32(w_scales0.val[0], x_scales6));
        sum0_7 = vfmaq_f32(sum0_7, vsubq_f32(vreinterpretq_f32_s32(isum0_7), bias),
                           vmulq_f32(w_scales0.val[1], x_scales6));
        sum0_8 = vfmaq_f32(sum0_8, vsubq_f32(vreinterpretq_f32_s32(isum0_8), bias),
                           vmulq_f32(w_scales0.val[0], x_scales8));
        sum0_9 = vfmaq_f32(sum0_9, vsubq_f32(vreinterpretq_f32_s32(isum0_9), bias),
                           vmulq_f32(w_scales0.val[1], x_scales8));
        sum0_10 = vfmaq_f32(sum0_10, vsubq_f32(vreinterpretq_f32_s32(isum0_10), bias),
                            vmulq_f32(w_scales0.val[0], x_scales10));
        sum0_11 = vfmaq_f32(sum0_11, vsubq_f32(vreinterpretq_f32_s32(isum0_11), bias),
                            vmulq_f32(w_scales0.val[1], x_scales10));
        w += 64;
        wd += 4;
        x += 384;
        xd += 12;
    }
    if (rows >= 4) {
        vst1q_f32(y, vuzp1q_f32(sum0_0, sum0_1));
        vst1q_f32((y + y_stride), vuzp2q_f32(sum0_0, sum0_1));
        vst1q_f32((y + 2 * y_stride), vuzp1q_f32(sum0_2, sum0_3));
        vst1q_f32((y + 3 * y_stride), vuzp2q_f32(sum0_2, sum0_3));
        vst1q_f32((y + 4 * y_stride), vuzp1q_f32(sum0_4, sum0_5));
        vst1q_f32((y + 5 * y_stride), vuzp2q_f32(sum0_4, sum0_5));
        vst1q_f32((y + 6 * y_stride), vuzp1q_f32(sum0_6, sum0_7));
        vst1q_f32((y + 7 * y_stride), vuzp2q_f32(sum0_6, sum0_7));
        vst1q_f32((y + 8 * y_stride), vuzp1q_f32(sum0_8, sum0_9));
        vst1q_f32((y + 9 * y_stride), vuzp2q_f32(sum0_8, sum0_9));
        vst1q_f32((y + 10 * y_stride), vuzp1q_f32(sum0_10, sum0_11));
        vst1q_f32((y + 11 * y_stride), vuzp2q_f32(sum0_10, sum0_11));
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    vst1q_f32(out, vuzp1q_f32(sum0_0, sum0_1));
    memcpy(y, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp2q_f32(sum0_0, sum0_1));
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp1q_f32(sum0_2, sum0_3));
    memcpy(y + 2 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp2q_f32(sum0_2, sum0_3));
    memcpy(y + 3 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp1q_f32(sum0_4, sum0_5));
    memcpy(y + 4 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp2q_f32(sum0_4, sum0_5));
    memcpy(y + 5 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp1q_f32(sum0_6, sum0_7));
    memcpy(y + 6 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp2q_f32(sum0_6, sum0_7));
    memcpy(y + 7 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp1q_f32(sum0_8, sum0_9));
    memcpy(y + 8 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp2q_f32(sum0_8, sum0_9));
    memcpy(y + 9 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp1q_f32(sum0_10, sum0_11));
    memcpy(y + 10 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp2q_f32(sum0_10, sum0_11));
    memcpy(y + 11 * y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 4 rows against 8 tokens; sums stay in registers over all blocks. */
static void tile_8(float *y, size_t y_stride, int rows, const uint8_t *w, const uint16_t *wd, const int8_t *x,
                   const float *xd, size_t blocks)
{
    const int8x16_t high_nibbles = vdupq_n_s8((int8_t)0xf0);
    float biases[4 * ML_TILE_TOKENS];
    for (int i = 0; i < 4 * ML_TILE_TOKENS; i++)
        biases[i] = 0x1.8p19f;
    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    float32x4_t sum0_1 = vdupq_n_f32(0.0f);
    float32x4_t sum0_2 = vdupq_n_f32(0.0f);
    float32x4_t sum0_3 = vdupq_n_f32(0.0f);
    float32x4_t sum0_4 = vdupq_n_f32(0.0f);
    float32x4_t sum0_5 = vdupq_n_f32(0.0f);
    float32x4_t sum0_6 = vdupq_n_f32(0.0f);
    float32x4_t sum0_7 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        const float32x4_t bias = vdupq_n_f32(0x1.8p19f);
        const float *loaded = ml_opaque_neon(biases);
        int32x4_t isum0_0 = vreinterpretq_s32_f32(vld1q_f32(loaded));
        int32x4_t isum0_1 = vreinterpretq_s32_f32(vld1q_f32(loaded + 4));
        int32x4_t isum0_2 = vreinterpretq_s32_f32(vld1q_f32(loaded + 8));
        int32x4_t isum0_3 = vreinterpretq_s32_f32(vld1q_f32(loaded + 12));
        int32x4_t isum0_4 = vreinterpretq_s32_f32(vld1q_f32(loaded + 16));
        int32x4_t isum0_5 = vreinterpretq_s32_f32(vld1q_f32(loaded + 20));
        int32x4_t isum0_6 = vreinterpretq_s32_f32(vld1q_f32(loaded + 24));
        int32x4_t isum0_7 = vreinterpretq_s32_f32(vld1q_f32(loaded + 28));

        const int8x16_t packed0_0 = vld1q_s8((const int8_t *)(w));
        const int8x16_t packed0_1 = vld1q_s8((const int8_t *)(w + 16));
        const int8x16x2_t w0_0 = ml_zip_steps_neon(vshlq_n_s8(packed0_0, 4), vshlq_n_s8(packed0_1, 4));
        const int8x16_t x0_0 = vld1q_s8(x);
        isum0_0 = vmmlaq_s32(isum0_0, w0_0.val[0], x0_0);
        isum0_1 = vmmlaq_s32(isum0_1, w0_0.val[1], x0_0);
        const int8x16_t x2_0 = vld1q_s8(x + 16);
        isum0_2 = vmmlaq_s32(isum0_2, w0_0.val[0], x2_0);
        isum0_3 = vmmlaq_s32(isum0_3, w0_0.val[1], x2_0);
        const int8x16_t x4_0 = vld1q_s8(x + 32);
        isum0_4 = vmmlaq_s32(isum0_4, w0_0.val[0], x4_0);
        isum0_5 = vmmlaq_s32(isum0_5, w0_0.val[1], x4_0);
        const int8x16_t x6_0 = vld1q_s8(x + 48);
        isum0_6 = vmmlaq_s32(isum0_6, w0_0.val[0], x6_0);
        isum0_7 = vmmlaq_s32(isum0_7, w0_0.val[1], x6_0);
        const int8x16x2_t w0_2 =
            ml_zip_steps_neon(vandq_s8(packed0_0, high_nibbles), vandq_s8(packed0_1, high_nibbles));
        const int8x16_t x0_2 = vld1q_s8(x + 128);
        isum0_0 = vmmlaq_s32(isum0_0, w0_2.val[0], x0_2);
        isum0_1 = vmmlaq_s32(isum0_1, w0_2.val[1], x0_2);
        const int8x16_t x2_2 = vld1q_s8(x + 144);
        isum0_2 = vmmlaq_s32(isum0_2, w0_2.val[0], x2_2);
        isum0_3 = vmmlaq_s32(isum0_3, w0_2.val[1], x2_2);
        const int8x16_t x4_2 = vld1q_s8(x + 160);
        isum0_4 = vmmlaq_s32(isum0_4, w0_2.val[0], x4_2);
        isum0_5 = vmmlaq_s32(isum0_5, w0_2.val[1], x4_2);
        const int8x16_t x6_2 = vld1q_s8(x + 176);
        isum0_6 = vmmlaq_s32(isum0_6, w0_2.val[0], x6_2);
        isum0_7 = vmmlaq_s32(isum0_7, w0_2.val[1], x6_2);
        const int8x16_t packed0_2 = vld1q_s8((const int8_t *)(w + 32));
        const int8x16_t packed0_3 = vld1q_s8((const int8_t *)(w + 48));
        const int8x16x2_t w0_1 = ml_zip_steps_neon(vshlq_n_s8(packed0_2, 4), vshlq_n_s8(packed0_3, 4));
        const int8x16_t x0_1 = vld1q_s8(x + 64);
        isum0_0 = vmmlaq_s32(isum0_0, w0_1.val[0], x0_1);
        isum0_1 = vmmlaq_s32(isum0_1, w0_1.val[1], x0_1);
        const int8x16_t x2_1 = vld1q_s8(x + 80);
        isum0_2 = vmmlaq_s32(isum0_2, w0_1.val[0], x2_1);
        isum0_3 = vmmlaq_s32(isum0_3, w0_1.val[1], x2_1);
        const int8x16_t x4_1 = vld1q_s8(x + 96);
        isum0_4 = vmmlaq_s32(isum0_4, w0_1.val[0], x4_1);
        isum0_5 = vmmlaq_s32(isum0_5, w0_1.val[1], x4_1);
        const int8x16_t x6_1 = vld1q_s8(x + 112);
        isum0_6 = vmmlaq_s32(isum0_6, w0_1.val[0], x6_1);
        isum0_7 = vmmlaq_s32(isum0_7, w0_1.val[1], x6_1);
        const int8x16x2_t w0_3 =
            ml_zip_steps_neon(vandq_s8(packed0_2, high_nibbles), vandq_s8(packed0_3, high_nibbles));
        const int8x16_t x0_3 = vld1q_s8(x + 192);
        isum0_0 = vmmlaq_s32(isum0_0, w0_3.val[0], x0_3);
        isum0_1 = vmmlaq_s32(isum0_1, w0_3.val[1], x0_3);
        const int8x16_t x2_3 = vld1q_s8(x + 208);
        isum0_2 = vmmlaq_s32(isum0_2, w0_3.val[0], x2_3);
        isum0_3 = vmmlaq_s32(isum0_3, w0_3.val[1], x2_3);
        const int8x16_t x4_3 = vld1q_s8(x + 224);
        isum0_4 = vmmlaq_s32(isum0_4, w0_3.val[0], x4_3);
        isum0_5 = vmmlaq_s32(isum0_5, w0_3.val[1], x4_3);
        const int8x16_t x6_3 = vld1q_s8(x + 240);
        isum0_6 = vmmlaq_s32(isum0_6, w0_3.val[0], x6_3);
        isum0_7 = vmmlaq_s32(isum0_7, w0_3.val[1], x6_3);
        const float32x4_t w_scale0 = ml_load_f16_neon(wd);
        const float32x4x2_t w_scales0 = vzipq_f32(w_scale0, w_scale0);
        const float32x4_t x_scales0 = ml_pair_neon(xd);
        const float32x4_t x_scales2 = ml_pair_neon(xd + 2);
        const float32x4_t x_scales4 = ml_pair_neon(xd + 4);
        const float32x4_t x_scales6 = ml_pair_neon(xd + 6);
        sum0_0 = vfmaq_f32(sum0_0, vsubq_f32(vreinterpretq_f32_s32(isum0_0), bias),
                           vmulq_f32(w_scales0.val[0], x_scales0));
        sum0_1 = vfmaq_f32(sum0_1, vsubq_f32(vreinterpretq_f32_s32(isum0_1), bias),
                           vmulq_f32(w_scales0.val[1], x_scales0));
        sum0_2 = vfmaq_f32(sum0_2, vsubq_f32(vreinterpretq_f32_s32(isum0_2), bias),
                           vmulq_f32(w_scales0.val[0], x_scales2));
        sum0_3 = vfmaq_f32(sum0_3, vsubq_f32(vreinterpretq_f32_s32(isum0_3), bias),
                           vmulq_f32(w_scales0.val[1], x_scales2));
        sum0_4 = vfmaq_f32(sum0_4, vsubq_f32(vreinterpretq_f32_s32(isum0_4), bias),
                           vmulq_f32(w_scales0.val[0], x_scales4));
        sum0_5 = vfmaq_f32(sum0_5, vsubq_f32(vreinterpretq_f32_s32(isum0_5), bias),
                           vmulq_f32(w_scales0.val[1], x_scales4));
        sum0_6 = vfmaq_f32(sum0_6, vsubq_f32(vreinterpretq_f32_s32(isum0_6), bias),
                           vmulq_f32(w_scales0.val[0], x_scales6));
        sum0_7 = vfmaq_f32(sum0_7, vsubq_f32(vreinterpretq_f32_s32(isum0_7), bias),
                           vmulq_f32(w_scales0.val[1], x_scales6));
        w += 64;
        wd += 4;
        x += 256;
        xd += 8;
    }
    if (rows >= 4) {
        vst1q_f32(y, vuzp1q_f32(sum0_0, sum0_1));
        vst1q_f32((y + y_stride), vuzp2q_f32(sum0_0, sum0_1));
        vst1q_f32((y + 2 * y_stride), vuzp1q_f32(sum0_2, sum0_3));
        vst1q_f32((y + 3 * y_stride), vuzp2q_f32(sum0_2, sum0_3));
        vst1q_f32((y + 4 * y_stride), vuzp1q_f32(sum0_4, sum0_5));
        vst1q_f32((y + 5 * y_stride), vuzp2q_f32(sum0_4, sum0_5));
        vst1q_f32((y + 6 * y_stride), vuzp1q_f32(sum0_6, sum0_7));
        vst1q_f32((y + 7 * y_stride), vuzp2q_f32(sum0_6, sum0_7));
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    vst1q_f32(out, vuzp1q_f32(sum0_0, sum0_1));
    memcpy(y, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp2q_f32(sum0_0, sum0_1));
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp1q_f32(sum0_2, sum0_3));
    memcpy(y + 2 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp2q_f32(sum0_2, sum0_3));
    memcpy(y + 3 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp1q_f32(sum0_4, sum0_5));
    memcpy(y + 4 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp2q_f32(sum0_4, sum0_5));
    memcpy(y + 5 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp1q_f32(sum0_6, sum0_7));
    memcpy(y + 6 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp2q_f32(sum0_6, sum0_7));
    memcpy(y + 7 * y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 4 rows against 4 tokens; sums stay in registers over all blocks. */
static void tile_4(float *y, size_t y_stride, int rows, const uint8_t *w, const uint16_t *wd, const int8_t *x,
                   const float *xd, size_t blocks)
{
    const int8x16_t high_nibbles = vdupq_n_s8((int8_t)0xf0);
    float biases[4 * ML_TILE_TOKENS];
    for (int i = 0; i < 4 * ML_TILE_TOKENS; i++)
        biases[i] = 0x1.8p19f;
    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    float32x4_t sum0_1 = vdupq_n_f32(0.0f);
    float32x4_t sum0_2 = vdupq_n_f32(0.0f);
    float32x4_t sum0_3 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        const float32x4_t bias = vdupq_n_f32(0x1.8p19f);
        const float *loaded = ml_opaque_neon(biases);
        int32x4_t isum0_0 = vreinterpretq_s32_f32(vld1q_f32(loaded));
        int32x4_t isum0_1 = vreinterpretq_s32_f32(vld1q_f32(loaded + 4));
        int32x4_t isum0_2 = vreinterpretq_s32_f32(vld1q_f32(loaded + 8));
        int32x4_t isum0_3 = vreinterpretq_s32_f32(vld1q_f32(loaded + 12));

        const int8x16_t packed0_0 = vld1q_s8((const int8_t *)(w));
        const int8x16_t packed0_1 = vld1q_s8((const int8_t *)(w + 16));
        const int8x16x2_t w0_0 = ml_zip_steps_neon(vshlq_n_s8(packed0_0, 4), vshlq_n_s8(packed0_1, 4));
        const int8x16_t x0_0 = vld1q_s8(x);
        isum0_0 = vmmlaq_s32(isum0_0, w0_0.val[0], x0_0);
        isum0_1 = vmmlaq_s32(isum0_1, w0_0.val[1], x0_0);
        const int8x16_t x2_0 = vld1q_s8(x + 16);
        isum0_2 = vmmlaq_s32(isum0_2, w0_0.val[0], x2_0);
        isum0_3 = vmmlaq_s32(isum0_3, w0_0.val[1], x2_0);
        const int8x16x2_t w0_2 =
            ml_zip_steps_neon(vandq_s8(packed0_0, high_nibbles), vandq_s8(packed0_1, high_nibbles));
        const int8x16_t x0_2 = vld1q_s8(x + 64);
        isum0_0 = vmmlaq_s32(isum0_0, w0_2.val[0], x0_2);
        isum0_1 = vmmlaq_s32(isum0_1, w0_2.val[1], x0_2);
        const int8x16_t x2_2 = vld1q_s8(x + 80);
        isum0_2 = vmmlaq_s32(isum0_2, w0_2.val[0], x2_2);
        isum0_3 = vmmlaq_s32(isum0_3, w0_2.val[1], x2_2);
        const int8x16_t packed0_2 = vld1q_s8((const int8_t *)(w + 32));
        const int8x16_t packed0_3 = vld1q_s8((const int8_t *)(w + 48));
        const int8x16x2_t w0_1 = ml_zip_steps_neon(vshlq_n_s8(packed0_2, 4), vshlq_n_s8(packed0_3, 4));
        const int8x16_t x0_1 = vld1q_s8(x + 32);
        isum0_0 = vmmlaq_s32(isum0_0, w0_1.val[0], x0_1);
        isum0_1 = vmmlaq_s32(isum0_1, w0_1.val[1], x0_1);
        const int8x16_t x2_1 = vld1q_s8(x + 48);
        isum0_2 = vmmlaq_s32(isum0_2, w0_1.val[0], x2_1);
        isum0_3 = vmmlaq_s32(isum0_3, w0_1.val[1], x2_1);
        const int8x16x2_t w0_3 =
            ml_zip_steps_neon(vandq_s8(packed0_2, high_nibbles), vandq_s8(packed0_3, high_nibbles));
        const int8x16_t x0_3 = vld1q_s8(x + 96);
        isum0_0 = vmmlaq_s32(isum0_0, w0_3.val[0], x0_3);
        isum0_1 = vmmlaq_s32(isum0_1, w0_3.val[1], x0_3);
        const int8x16_t x2_3 = vld1q_s8(x + 112);
        isum0_2 = vmmlaq_s32(isum0_2, w0_3.val[0], x2_3);
        isum0_3 = vmmlaq_s32(isum0_3, w0_3.val[1], x2_3);
        const float32x4_t w_scale0 = ml_load_f16_neon(wd);
        const float32x4x2_t w_scales0 = vzipq_f32(w_scale0, w_scale0);
        const float32x4_t x_scales0 = ml_pair_neon(xd);
        const float32x4_t x_scales2 = ml_pair_neon(xd + 2);
        sum0_0 = vfmaq_f32(sum0_0, vsubq_f32(vreinterpretq_f32_s32(isum0_0), bias),
                           vmulq_f32(w_scales0.val[0], x_scales0));
        sum0_1 = vfmaq_f32(sum0_1, vsubq_f32(vreinterpretq_f32_s32(isum0_1), bias),
                           vmulq_f32(w_scales0.val[1], x_scales0));
        sum0_2 = vfmaq_f32(sum0_2, vsubq_f32(vreinterpretq_f32_s32(isum0_2), bias),
                           vmulq_f32(w_scales0.val[0], x_scales2));
        sum0_3 = vfmaq_f32(sum0_3, vsubq_f32(vreinterpretq_f32_s32(isum0_3), bias),
                           vmulq_f32(w_scales0.val[1], x_scales2));
        w += 64;
        wd += 4;
        x += 128;
        xd += 4;
    }
    if (rows >= 4) {
        vst1q_f32(y, vuzp1q_f32(sum0_0, sum0_1));
        vst1q_f32((y + y_stride), vuzp2q_f32(sum0_0, sum0_1));
        vst1q_f32((y + 2 * y_stride), vuzp1q_f32(sum0_2, sum0_3));
        vst1q_f32((y + 3 * y_stride), vuzp2q_f32(sum0_2, sum0_3));
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    vst1q_f32(out, vuzp1q_f32(sum0_0, sum0_1));
    memcpy(y, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp2q_f32(sum0_0, sum0_1));
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp1q_f32(sum0_2, sum0_3));
    memcpy(y + 2 * y_stride, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp2q_f32(sum0_2, sum0_3));
    memcpy(y + 3 * y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 4 rows against 2 tokens; sums stay in registers over all blocks. */
static void tile_2(float *y, size_t y_stride, int rows, const uint8_t *w, const uint16_t *wd, const int8_t *x,
                   const float *xd, size_t blocks)
{
    const int8x16_t high_nibbles = vdupq_n_s8((int8_t)0xf0);
    float biases[4 * ML_TILE_TOKENS];
    for (int i = 0; i < 4 * ML_TILE_TOKENS; i++)
        biases[i] = 0x1.8p19f;
    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    float32x4_t sum0_1 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        const float32x4_t bias = vdupq_n_f32(0x1.8p19f);
        const float *loaded = ml_opaque_neon(biases);
        int32x4_t isum0_0 = vreinterpretq_s32_f32(vld1q_f32(loaded));
        int32x4_t isum0_1 = vreinterpretq_s32_f32(vld1q_f32(loaded + 4));

        const int8x16_t packed0_0 = vld1q_s8((const int8_t *)(w));
        const int8x16_t packed0_1 = vld1q_s8((const int8_t *)(w + 16));
        const int8x16x2_t w0_0 = ml_zip_steps_neon(vshlq_n_s8(packed0_0, 4), vshlq_n_s8(packed0_1, 4));
        const int8x16_t x0_0 = vld1q_s8(x);
        isum0_0 = vmmlaq_s32(isum0_0, w0_0.val[0], x0_0);
        isum0_1 = vmmlaq_s32(isum0_1, w0_0.val[1], x0_0);
        const int8x16x2_t w0_2 =
            ml_zip_steps_neon(vandq_s8(packed0_0, high_nibbles), vandq_s8(packed0_1, high_nibbles));
        const int8x16_t x0_2 = vld1q_s8(x + 32);
        isum0_0 = vmmlaq_s32(isum0_0, w0_2.val[0], x0_2);
        isum0_1 = vmmlaq_s32(isum0_1, w0_2.val[1], x0_2);
        const int8x16_t packed0_2 = vld1q_s8((const int8_t *)(w + 32));
        const int8x16_t packed0_3 = vld1q_s8((const int8_t *)(w + 48));
        const int8x16x2_t w0_1 = ml_zip_steps_neon(vshlq_n_s8(packed0_2, 4), vshlq_n_s8(packed0_3, 4));
        const int8x16_t x0_1 = vld1q_s8(x + 16);
        isum0_0 = vmmlaq_s32(isum0_0, w0_1.val[0], x0_1);
        isum0_1 = vmmlaq_s32(isum0_1, w0_1.val[1], x0_1);
        const int8x16x2_t w0_3 =
            ml_zip_steps_neon(vandq_s8(packed0_2, high_nibbles), vandq_s8(packed0_3, high_nibbles));
        const int8x16_t x0_3 = vld1q_s8(x + 48);
        isum0_0 = vmmlaq_s32(isum0_0, w0_3.val[0], x0_3);
        isum0_1 = vmmlaq_s32(isum0_1, w0_3.val[1], x0_3);
        const float32x4_t w_scale0 = ml_load_f16_neon(wd);
        const float32x4x2_t w_scales0 = vzipq_f32(w_scale0, w_scale0);
        const float32x4_t x_scales0 = ml_pair_neon(xd);
        sum0_0 = vfmaq_f32(sum0_0, vsubq_f32(vreinterpretq_f32_s32(isum0_0), bias),
                           vmulq_f32(w_scales0.val[0], x_scales0));
        sum0_1 = vfmaq_f32(sum0_1, vsubq_f32(vreinterpretq_f32_s32(isum0_1), bias),
                           vmulq_f32(w_scales0.val[1], x_scales0));
        w += 64;
        wd += 4;
        x += 64;
        xd += 2;
    }
    if (rows >= 4) {
        vst1q_f32(y, vuzp1q_f32(sum0_0, sum0_1));
        vst1q_f32((y + y_stride), vuzp2q_f32(sum0_0, sum0_1));
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    vst1q_f32(out, vuzp1q_f32(sum0_0, sum0_1));
    memcpy(y, out, (size_t)rows * sizeof(float));
    vst1q_f32(out, vuzp2q_f32(sum0_0, sum0_1));
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 4 rows against 1 token; sums stay in registers over all blocks. */
static void tile_1(float *y, int rows, const uint8_t *w, const uint16_t *wd, const int8_t *x, const float *xd,
                   size_t blocks)
{
    const int8x16_t high_nibbles = vdupq_n_s8((int8_t)0xf0);
    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        const float32x4_t bias = vdupq_n_f32(0x1.8p19f);
        int32x4_t isum0_0 = vreinterpretq_s32_f32(bias);

        const int8x16_t packed0_0 = vld1q_s8((const int8_t *)(w));
        const int8x16_t w0_0 = vshlq_n_s8(packed0_0, 4);
        const int8x16_t x0_0 = vld1q_s8(x);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_0, x0_0, 0);
        const int8x16_t w0_4 = vandq_s8(packed0_0, high_nibbles);
        const int8x16_t x0_1 = vld1q_s8(x + 16);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_4, x0_1, 0);
        const int8x16_t packed0_1 = vld1q_s8((const int8_t *)(w + 16));
        const int8x16_t w0_1 = vshlq_n_s8(packed0_1, 4);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_1, x0_0, 1);
        const int8x16_t w0_5 = vandq_s8(packed0_1, high_nibbles);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_5, x0_1, 1);
        const int8x16_t packed0_2 = vld1q_s8((const int8_t *)(w + 32));
        const int8x16_t w0_2 = vshlq_n_s8(packed0_2, 4);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_2, x0_0, 2);
        const int8x16_t w0_6 = vandq_s8(packed0_2, high_nibbles);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_6, x0_1, 2);
        const int8x16_t packed0_3 = vld1q_s8((const int8_t *)(w + 48));
        const int8x16_t w0_3 = vshlq_n_s8(packed0_3, 4);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_3, x0_0, 3);
        const int8x16_t w0_7 = vandq_s8(packed0_3, high_nibbles);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_7, x0_1, 3);
        const float32x4_t w_scale0 = ml_load_f16_neon(wd);
        const float x_scale0 = xd[0];
        sum0_0 = vfmaq_f32(sum0_0, vsubq_f32(vreinterpretq_f32_s32(isum0_0), bias),
                           vmulq_n_f32(w_scale0, x_scale0));
        w += 64;
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
    for (; t + 12 <= tokens; t += 12)
        tile_12(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 32, xd + t * blocks, blocks);
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

void ml_k_matmul_q4_pk_f16_neon_i8mm(float *y, size_t y_stride, const uint8_t *wq, const uint16_t *wd,
                                     const int8_t *xt, const float *xd, const int32_t *xs, int cols,
                                     int tokens, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 4)
        row_group(y + r, y_stride, r1 - r, wq + (size_t)r * blocks * 16, wd + (size_t)r * blocks, xt, xd, xs,
                  blocks, 0, (size_t)tokens);
}
