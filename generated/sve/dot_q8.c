/*
 * ml_k_dot_q8_sve
 * Scores s[query][position] = q[query] . k[position] over one page of q8 keys.
 *
 * Written by krafla-gen from templates/dot_q8.c.j2 and isa_specs/sve.py (facets: f32, pack); do not edit.
 *
 * sdot takes signed bytes, and one of four tokens' or steps' activations as a lane. Q4 bytes are stored
 * XOR 0x88, so that a nibble reads as the signed value q - 8: shifted left by 4 (low) or masked (high) it
 * is 16 (q - 8) as a signed byte. Sums start from the bits of 1.5 * 2^23 (Q4: 2^19): as floats they are
 * then that bias plus the sum (over 16), and subtracting it is exact and takes less than a conversion.
 * Nothing has to be corrected.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* 4 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_4(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{

    (void)xs; /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 4) {
        int32x4_t isum0_0 = vdupq_n_s32(0);
        int32x4_t isum0_1 = vdupq_n_s32(0);
        int32x4_t isum0_2 = vdupq_n_s32(0);
        int32x4_t isum0_3 = vdupq_n_s32(0);
        for (int b = 0; b < n / ML_BLOCK; b++) {
            const int8x16_t w0_0 = vld1q_s8((const int8_t *)(k + b * 128));
            const int8x16_t x0_0 = vld1q_s8(x + b * 32);
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_0, x0_0, 0);
            const int8x16_t x1_0 = vld1q_s8(x + x_stride + b * 32);
            isum0_1 = vdotq_laneq_s32(isum0_1, w0_0, x1_0, 0);
            const int8x16_t x2_0 = vld1q_s8(x + 2 * x_stride + b * 32);
            isum0_2 = vdotq_laneq_s32(isum0_2, w0_0, x2_0, 0);
            const int8x16_t x3_0 = vld1q_s8(x + 3 * x_stride + b * 32);
            isum0_3 = vdotq_laneq_s32(isum0_3, w0_0, x3_0, 0);
            const int8x16_t w0_1 = vld1q_s8((const int8_t *)(k + b * 128 + 16));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_1, x0_0, 1);
            isum0_1 = vdotq_laneq_s32(isum0_1, w0_1, x1_0, 1);
            isum0_2 = vdotq_laneq_s32(isum0_2, w0_1, x2_0, 1);
            isum0_3 = vdotq_laneq_s32(isum0_3, w0_1, x3_0, 1);
            const int8x16_t w0_2 = vld1q_s8((const int8_t *)(k + b * 128 + 32));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_2, x0_0, 2);
            isum0_1 = vdotq_laneq_s32(isum0_1, w0_2, x1_0, 2);
            isum0_2 = vdotq_laneq_s32(isum0_2, w0_2, x2_0, 2);
            isum0_3 = vdotq_laneq_s32(isum0_3, w0_2, x3_0, 2);
            const int8x16_t w0_3 = vld1q_s8((const int8_t *)(k + b * 128 + 48));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_3, x0_0, 3);
            isum0_1 = vdotq_laneq_s32(isum0_1, w0_3, x1_0, 3);
            isum0_2 = vdotq_laneq_s32(isum0_2, w0_3, x2_0, 3);
            isum0_3 = vdotq_laneq_s32(isum0_3, w0_3, x3_0, 3);
            const int8x16_t w0_4 = vld1q_s8((const int8_t *)(k + b * 128 + 64));
            const int8x16_t x0_1 = vld1q_s8(x + b * 32 + 16);
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_4, x0_1, 0);
            const int8x16_t x1_1 = vld1q_s8(x + x_stride + b * 32 + 16);
            isum0_1 = vdotq_laneq_s32(isum0_1, w0_4, x1_1, 0);
            const int8x16_t x2_1 = vld1q_s8(x + 2 * x_stride + b * 32 + 16);
            isum0_2 = vdotq_laneq_s32(isum0_2, w0_4, x2_1, 0);
            const int8x16_t x3_1 = vld1q_s8(x + 3 * x_stride + b * 32 + 16);
            isum0_3 = vdotq_laneq_s32(isum0_3, w0_4, x3_1, 0);
            const int8x16_t w0_5 = vld1q_s8((const int8_t *)(k + b * 128 + 80));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_5, x0_1, 1);
            isum0_1 = vdotq_laneq_s32(isum0_1, w0_5, x1_1, 1);
            isum0_2 = vdotq_laneq_s32(isum0_2, w0_5, x2_1, 1);
            isum0_3 = vdotq_laneq_s32(isum0_3, w0_5, x3_1, 1);
            const int8x16_t w0_6 = vld1q_s8((const int8_t *)(k + b * 128 + 96));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_6, x0_1, 2);
            isum0_1 = vdotq_laneq_s32(isum0_1, w0_6, x1_1, 2);
            isum0_2 = vdotq_laneq_s32(isum0_2, w0_6, x2_1, 2);
            isum0_3 = vdotq_laneq_s32(isum0_3, w0_6, x3_1, 2);
            const int8x16_t w0_7 = vld1q_s8((const int8_t *)(k + b * 128 + 112));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_7, x0_1, 3);
            isum0_1 = vdotq_laneq_s32(isum0_1, w0_7, x1_1, 3);
            isum0_2 = vdotq_laneq_s32(isum0_2, w0_7, x2_1, 3);
            isum0_3 = vdotq_laneq_s32(isum0_3, w0_7, x3_1, 3);
        }
        const float32x4_t k_scale = vld1q_f32(dk + t);
        vst1q_f32(s + t, vmulq_f32(vcvtq_f32_s32(isum0_0), vmulq_f32(vdupq_n_f32(dq[0]), k_scale)));
        vst1q_f32((s + s_stride) + t,
                  vmulq_f32(vcvtq_f32_s32(isum0_1), vmulq_f32(vdupq_n_f32(dq[1]), k_scale)));
        vst1q_f32((s + 2 * s_stride) + t,
                  vmulq_f32(vcvtq_f32_s32(isum0_2), vmulq_f32(vdupq_n_f32(dq[2]), k_scale)));
        vst1q_f32((s + 3 * s_stride) + t,
                  vmulq_f32(vcvtq_f32_s32(isum0_3), vmulq_f32(vdupq_n_f32(dq[3]), k_scale)));
        k += n * 4;
    }
}

/* 2 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_2(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{

    (void)xs; /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 4) {
        int32x4_t isum0_0 = vdupq_n_s32(0);
        int32x4_t isum0_1 = vdupq_n_s32(0);
        for (int b = 0; b < n / ML_BLOCK; b++) {
            const int8x16_t w0_0 = vld1q_s8((const int8_t *)(k + b * 128));
            const int8x16_t x0_0 = vld1q_s8(x + b * 32);
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_0, x0_0, 0);
            const int8x16_t x1_0 = vld1q_s8(x + x_stride + b * 32);
            isum0_1 = vdotq_laneq_s32(isum0_1, w0_0, x1_0, 0);
            const int8x16_t w0_1 = vld1q_s8((const int8_t *)(k + b * 128 + 16));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_1, x0_0, 1);
            isum0_1 = vdotq_laneq_s32(isum0_1, w0_1, x1_0, 1);
            const int8x16_t w0_2 = vld1q_s8((const int8_t *)(k + b * 128 + 32));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_2, x0_0, 2);
            isum0_1 = vdotq_laneq_s32(isum0_1, w0_2, x1_0, 2);
            const int8x16_t w0_3 = vld1q_s8((const int8_t *)(k + b * 128 + 48));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_3, x0_0, 3);
            isum0_1 = vdotq_laneq_s32(isum0_1, w0_3, x1_0, 3);
            const int8x16_t w0_4 = vld1q_s8((const int8_t *)(k + b * 128 + 64));
            const int8x16_t x0_1 = vld1q_s8(x + b * 32 + 16);
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_4, x0_1, 0);
            const int8x16_t x1_1 = vld1q_s8(x + x_stride + b * 32 + 16);
            isum0_1 = vdotq_laneq_s32(isum0_1, w0_4, x1_1, 0);
            const int8x16_t w0_5 = vld1q_s8((const int8_t *)(k + b * 128 + 80));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_5, x0_1, 1);
            isum0_1 = vdotq_laneq_s32(isum0_1, w0_5, x1_1, 1);
            const int8x16_t w0_6 = vld1q_s8((const int8_t *)(k + b * 128 + 96));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_6, x0_1, 2);
            isum0_1 = vdotq_laneq_s32(isum0_1, w0_6, x1_1, 2);
            const int8x16_t w0_7 = vld1q_s8((const int8_t *)(k + b * 128 + 112));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_7, x0_1, 3);
            isum0_1 = vdotq_laneq_s32(isum0_1, w0_7, x1_1, 3);
        }
        const float32x4_t k_scale = vld1q_f32(dk + t);
        vst1q_f32(s + t, vmulq_f32(vcvtq_f32_s32(isum0_0), vmulq_f32(vdupq_n_f32(dq[0]), k_scale)));
        vst1q_f32((s + s_stride) + t,
                  vmulq_f32(vcvtq_f32_s32(isum0_1), vmulq_f32(vdupq_n_f32(dq[1]), k_scale)));
        k += n * 4;
    }
}

/* 1 query against the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_1(float *s, const int8_t *x, const float *dq, const int32_t *xs, const uint8_t *k,
                      const float *dk, int n)
{

    (void)xs; /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 4) {
        int32x4_t isum0_0 = vdupq_n_s32(0);
        for (int b = 0; b < n / ML_BLOCK; b++) {
            const int8x16_t w0_0 = vld1q_s8((const int8_t *)(k + b * 128));
            const int8x16_t x0_0 = vld1q_s8(x + b * 32);
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_0, x0_0, 0);
            const int8x16_t w0_1 = vld1q_s8((const int8_t *)(k + b * 128 + 16));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_1, x0_0, 1);
            const int8x16_t w0_2 = vld1q_s8((const int8_t *)(k + b * 128 + 32));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_2, x0_0, 2);
            const int8x16_t w0_3 = vld1q_s8((const int8_t *)(k + b * 128 + 48));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_3, x0_0, 3);
            const int8x16_t w0_4 = vld1q_s8((const int8_t *)(k + b * 128 + 64));
            const int8x16_t x0_1 = vld1q_s8(x + b * 32 + 16);
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_4, x0_1, 0);
            const int8x16_t w0_5 = vld1q_s8((const int8_t *)(k + b * 128 + 80));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_5, x0_1, 1);
            const int8x16_t w0_6 = vld1q_s8((const int8_t *)(k + b * 128 + 96));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_6, x0_1, 2);
            const int8x16_t w0_7 = vld1q_s8((const int8_t *)(k + b * 128 + 112));
            isum0_0 = vdotq_laneq_s32(isum0_0, w0_7, x0_1, 3);
        }
        const float32x4_t k_scale = vld1q_f32(dk + t);
        vst1q_f32(s + t, vmulq_f32(vcvtq_f32_s32(isum0_0), vmulq_f32(vdupq_n_f32(dq[0]), k_scale)));
        k += n * 4;
    }
}

void ml_k_dot_q8_sve(float *s, size_t s_stride, const int8_t *xt, const float *dq, const int32_t *xs,
                     int queries, const uint8_t *k, const float *dk, int n)
{
    const size_t x_stride = (size_t)n / ML_BLOCK * 32;
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
