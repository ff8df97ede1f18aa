/*
 * ml_k_matvec_q8_pk_f16_neon_dotprod
 * y[r0..r1) = W x for packed Q8_0 weights with f16 scales.
 *
 * Written by krafla-gen from templates/matvec_pk.c.j2 and isa_specs/neon_dotprod.py (facets: pack); do not
 * edit.
 *
 * sdot takes signed bytes, and one of four tokens' or steps' activations as a lane. Q4 bytes are stored
 * XOR 0x88, so that a nibble reads as the signed value q - 8: shifted left by 4 (low) or masked (high) it
 * is 16 (q - 8) as a signed byte. Sums start from the bits of 1.5 * 2^23 (Q4: 2^19): as floats they are
 * then that bias plus the sum (over 16), and subtracting it is exact and takes less than a conversion.
 * Nothing has to be corrected.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* 4 groups of 4 rows against 1 token; sums stay in registers over all blocks. */
static void tile_4x1(float *y, const uint8_t *w, const uint16_t *wd, const int8_t *x, const float *xd,
                     size_t blocks)
{

    const uint8_t *w1 = w + blocks * 128;
    const uint16_t *wd1 = wd + blocks * 4;
    const uint8_t *w2 = w1 + blocks * 128;
    const uint16_t *wd2 = wd1 + blocks * 4;
    const uint8_t *w3 = w2 + blocks * 128;
    const uint16_t *wd3 = wd2 + blocks * 4;
    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    float32x4_t sum1_0 = vdupq_n_f32(0.0f);
    float32x4_t sum2_0 = vdupq_n_f32(0.0f);
    float32x4_t sum3_0 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        /* Hardware prefetchers stop at page boundaries. */
        for (int line = 0; line < 128; line += 64) {
            ml_prefetch(w + ML_PREFETCH_DISTANCE + line);
            ml_prefetch(w1 + ML_PREFETCH_DISTANCE + line);
            ml_prefetch(w2 + ML_PREFETCH_DISTANCE + line);
            ml_prefetch(w3 + ML_PREFETCH_DISTANCE + line);
        }
#endif
        const float32x4_t bias = vdupq_n_f32(0x1.8p23f);
        int32x4_t isum0_0 = vreinterpretq_s32_f32(bias);
        int32x4_t isum1_0 = vreinterpretq_s32_f32(bias);
        int32x4_t isum2_0 = vreinterpretq_s32_f32(bias);
        int32x4_t isum3_0 = vreinterpretq_s32_f32(bias);

        const int8x16_t w0_0 = vld1q_s8((const int8_t *)(w));
        const int8x16_t w1_0 = vld1q_s8((const int8_t *)(w1));
        const int8x16_t w2_0 = vld1q_s8((const int8_t *)(w2));
        const int8x16_t w3_0 = vld1q_s8((const int8_t *)(w3));
        const int8x16_t x0_0 = vld1q_s8(x);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_0, x0_0, 0);
        isum1_0 = vdotq_laneq_s32(isum1_0, w1_0, x0_0, 0);
        isum2_0 = vdotq_laneq_s32(isum2_0, w2_0, x0_0, 0);
        isum3_0 = vdotq_laneq_s32(isum3_0, w3_0, x0_0, 0);
        const int8x16_t w0_1 = vld1q_s8((const int8_t *)(w + 16));
        const int8x16_t w1_1 = vld1q_s8((const int8_t *)(w1 + 16));
        const int8x16_t w2_1 = vld1q_s8((const int8_t *)(w2 + 16));
        const int8x16_t w3_1 = vld1q_s8((const int8_t *)(w3 + 16));
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_1, x0_0, 1);
        isum1_0 = vdotq_laneq_s32(isum1_0, w1_1, x0_0, 1);
        isum2_0 = vdotq_laneq_s32(isum2_0, w2_1, x0_0, 1);
        isum3_0 = vdotq_laneq_s32(isum3_0, w3_1, x0_0, 1);
        const int8x16_t w0_2 = vld1q_s8((const int8_t *)(w + 32));
        const int8x16_t w1_2 = vld1q_s8((const int8_t *)(w1 + 32));
        const int8x16_t w2_2 = vld1q_s8((const int8_t *)(w2 + 32));
        const int8x16_t w3_2 = vld1q_s8((const int8_t *)(w3 + 32));
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_2, x0_0, 2);
        isum1_0 = vdotq_laneq_s32(isum1_0, w1_2, x0_0, 2);
        isum2_0 = vdotq_laneq_s32(isum2_0, w2_2, x0_0, 2);
        isum3_0 = vdotq_laneq_s32(isum3_0, w3_2, x0_0, 2);
        const int8x16_t w0_3 = vld1q_s8((const int8_t *)(w + 48));
        const int8x16_t w1_3 = vld1q_s8((const int8_t *)(w1 + 48));
        const int8x16_t w2_3 = vld1q_s8((const int8_t *)(w2 + 48));
        const int8x16_t w3_3 = vld1q_s8((const int8_t *)(w3 + 48));
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_3, x0_0, 3);
        isum1_0 = vdotq_laneq_s32(isum1_0, w1_3, x0_0, 3);
        isum2_0 = vdotq_laneq_s32(isum2_0, w2_3, x0_0, 3);
        isum3_0 = vdotq_laneq_s32(isum3_0, w3_3, x0_0, 3);
        const int8x16_t w0_4 = vld1q_s8((const int8_t *)(w + 64));
        const int8x16_t w1_4 = vld1q_s8((const int8_t *)(w1 + 64));
        const int8x16_t w2_4 = vld1q_s8((const int8_t *)(w2 + 64));
        const int8x16_t w3_4 = vld1q_s8((const int8_t *)(w3 + 64));
        const int8x16_t x0_1 = vld1q_s8(x + 16);
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_4, x0_1, 0);
        isum1_0 = vdotq_laneq_s32(isum1_0, w1_4, x0_1, 0);
        isum2_0 = vdotq_laneq_s32(isum2_0, w2_4, x0_1, 0);
        isum3_0 = vdotq_laneq_s32(isum3_0, w3_4, x0_1, 0);
        const int8x16_t w0_5 = vld1q_s8((const int8_t *)(w + 80));
        const int8x16_t w1_5 = vld1q_s8((const int8_t *)(w1 + 80));
        const int8x16_t w2_5 = vld1q_s8((const int8_t *)(w2 + 80));
        const int8x16_t w3_5 = vld1q_s8((const int8_t *)(w3 + 80));
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_5, x0_1, 1);
        isum1_0 = vdotq_laneq_s32(isum1_0, w1_5, x0_1, 1);
        isum2_0 = vdotq_laneq_s32(isum2_0, w2_5, x0_1, 1);
        isum3_0 = vdotq_laneq_s32(isum3_0, w3_5, x0_1, 1);
        const int8x16_t w0_6 = vld1q_s8((const int8_t *)(w + 96));
        const int8x16_t w1_6 = vld1q_s8((const int8_t *)(w1 + 96));
        const int8x16_t w2_6 = vld1q_s8((const int8_t *)(w2 + 96));
        const int8x16_t w3_6 = vld1q_s8((const int8_t *)(w3 + 96));
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_6, x0_1, 2);
        isum1_0 = vdotq_laneq_s32(isum1_0, w1_6, x0_1, 2);
        isum2_0 = vdotq_laneq_s32(isum2_0, w2_6, x0_1, 2);
        isum3_0 = vdotq_laneq_s32(isum3_0, w3_6, x0_1, 2);
        const int8x16_t w0_7 = vld1q_s8((const int8_t *)(w + 112));
        const int8x16_t w1_7 = vld1q_s8((const int8_t *)(w1 + 112));
        const int8x16_t w2_7 = vld1q_s8((const int8_t *)(w2 + 112));
        const int8x16_t w3_7 = vld1q_s8((const int8_t *)(w3 + 112));
        isum0_0 = vdotq_laneq_s32(isum0_0, w0_7, x0_1, 3);
        isum1_0 = vdotq_laneq_s32(isum1_0, w1_7, x0_1, 3);
        isum2_0 = vdotq_laneq_s32(isum2_0, w2_7, x0_1, 3);
        isum3_0 = vdotq_laneq_s32(isum3_0, w3_7, x0_1, 3);
        const float32x4_t w_scale0 = ml_load_f16_neon(wd);
        const float32x4_t w_scale1 = ml_load_f16_neon(wd1);
        const float32x4_t w_scale2 = ml_load_f16_neon(wd2);
        const float32x4_t w_scale3 = ml_load_f16_neon(wd3);
        const float x_scale0 = xd[0];
        sum0_0 = vfmaq_f32(sum0_0, vsubq_f32(vreinterpretq_f32_s32(isum0_0), bias),
                           vmulq_n_f32(w_scale0, x_scale0));
        sum1_0 = vfmaq_f32(sum1_0, vsubq_f32(vreinterpretq_f32_s32(isum1_0), bias),
                           vmulq_n_f32(w_scale1, x_scale0));
        sum2_0 = vfmaq_f32(sum2_0, vsubq_f32(vreinterpretq_f32_s32(isum2_0), bias),
                           vmulq_n_f32(w_scale2, x_scale0));
        sum3_0 = vfmaq_f32(sum3_0, vsubq_f32(vreinterpretq_f32_s32(isum3_0), bias),
                           vmulq_n_f32(w_scale3, x_scale0));
        w += 128;
        wd += 4;
        w1 += 128;
        wd1 += 4;
        w2 += 128;
        wd2 += 4;
        w3 += 128;
        wd3 += 4;
        x += 32;
        xd += 1;
    }
    vst1q_f32(y, sum0_0);
    vst1q_f32(y + 4, sum1_0);
    vst1q_f32(y + 8, sum2_0);
    vst1q_f32(y + 12, sum3_0);
}

/* One group of 4 rows against 1 token; sums stay in registers over all blocks. */
static void tile_1(float *y, int rows, const uint8_t *w, const uint16_t *wd, const int8_t *x, const float *xd,
                   size_t blocks)
{

    float32x4_t sum0_0 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        /* Hardware prefetchers stop at page boundaries. */
        for (int line = 0; line < 128; line += 64) {
            ml_prefetch(w + ML_PREFETCH_DISTANCE + line);
        }
#endif
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

void ml_k_matvec_q8_pk_f16_neon_dotprod(float *y, const uint8_t *wq, const uint16_t *wd, const int8_t *xt,
                                        const float *xd, const int32_t *xs, int cols, int r0, int r1)
{
    (void)xs; /* not needed on this machine */
    const size_t blocks = (size_t)cols / ML_BLOCK;
    int r = r0;

    for (; r + 16 <= r1; r += 16) {
        const size_t offset = (size_t)r * blocks; /* blocks before this group */
        tile_4x1(y + r, wq + offset * 32, wd + offset, xt, xd, blocks);
    }

    for (; r < r1; r += 4) {
        const size_t offset = (size_t)r * blocks; /* blocks before this group */
        tile_1(y + r, r1 - r, wq + offset * 32, wd + offset, xt, xd, blocks);
    }
}
