/*
 * ml_k_dot_q8_neon_dotprod
 * Scores s[query][position] = q[query] . k[position] over one page of q8 keys.
 *
 * Written by krafla-gen from templates/dot_q8.c.j2 and isa_specs/neon_dotprod.py (facets: f32, pack); do not
 * edit.
 *
 * sdot takes signed bytes. Q4 bytes are stored XOR 0x88, so that a nibble reads as the signed value q - 8:
 * shifted left by 4 (low) or masked (high) it is 16 (q - 8) as a signed byte, and the conversion to float
 * divides the block's sum by 16 exactly. Nothing has to be corrected.
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
        int32x4_t isum1_0 = vdupq_n_s32(0);
        int32x4_t isum2_0 = vdupq_n_s32(0);
        int32x4_t isum3_0 = vdupq_n_s32(0);
        for (int step = 0; step < n / 4; step++) {
            {
                const int8x16_t w0 = vld1q_s8((const int8_t *)(k + step * 16));
                {
                    const int8x16_t x0_0 = vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32(x + step * 4 + 0)));
                    isum0_0 = vdotq_s32(isum0_0, w0, x0_0);
                }
                {
                    const int8x16_t x0_0 =
                        vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32(x + x_stride + step * 4 + 0)));
                    isum1_0 = vdotq_s32(isum1_0, w0, x0_0);
                }
                {
                    const int8x16_t x0_0 =
                        vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32(x + 2 * x_stride + step * 4 + 0)));
                    isum2_0 = vdotq_s32(isum2_0, w0, x0_0);
                }
                {
                    const int8x16_t x0_0 =
                        vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32(x + 3 * x_stride + step * 4 + 0)));
                    isum3_0 = vdotq_s32(isum3_0, w0, x0_0);
                }
            }
        }
        const float32x4_t k_scale0 = vld1q_f32(dk + t);
        vst1q_f32(s + t, vmulq_f32(vcvtq_f32_s32(isum0_0), vmulq_f32(vdupq_n_f32(dq[0]), k_scale0)));
        vst1q_f32((s + s_stride) + t,
                  vmulq_f32(vcvtq_f32_s32(isum1_0), vmulq_f32(vdupq_n_f32(dq[1]), k_scale0)));
        vst1q_f32((s + 2 * s_stride) + t,
                  vmulq_f32(vcvtq_f32_s32(isum2_0), vmulq_f32(vdupq_n_f32(dq[2]), k_scale0)));
        vst1q_f32((s + 3 * s_stride) + t,
                  vmulq_f32(vcvtq_f32_s32(isum3_0), vmulq_f32(vdupq_n_f32(dq[3]), k_scale0)));
        k += n * 4;
    }
}

/* 2 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_2(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{

    (void)xs; /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 8) {
        int32x4_t isum0_0 = vdupq_n_s32(0);
        int32x4_t isum0_1 = vdupq_n_s32(0);
        int32x4_t isum1_0 = vdupq_n_s32(0);
        int32x4_t isum1_1 = vdupq_n_s32(0);
        for (int step = 0; step < n / 4; step++) {
            {
                const int8x16_t w0 = vld1q_s8((const int8_t *)(k + step * 16));
                {
                    const int8x16_t x0_0 = vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32(x + step * 4 + 0)));
                    isum0_0 = vdotq_s32(isum0_0, w0, x0_0);
                }
                {
                    const int8x16_t x0_0 =
                        vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32(x + x_stride + step * 4 + 0)));
                    isum1_0 = vdotq_s32(isum1_0, w0, x0_0);
                }
            }
            {
                const int8x16_t w0 = vld1q_s8((const int8_t *)(k + n * 4 + step * 16));
                {
                    const int8x16_t x0_0 = vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32(x + step * 4 + 0)));
                    isum0_1 = vdotq_s32(isum0_1, w0, x0_0);
                }
                {
                    const int8x16_t x0_0 =
                        vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32(x + x_stride + step * 4 + 0)));
                    isum1_1 = vdotq_s32(isum1_1, w0, x0_0);
                }
            }
        }
        const float32x4_t k_scale0 = vld1q_f32(dk + t);
        vst1q_f32(s + t, vmulq_f32(vcvtq_f32_s32(isum0_0), vmulq_f32(vdupq_n_f32(dq[0]), k_scale0)));
        vst1q_f32((s + s_stride) + t,
                  vmulq_f32(vcvtq_f32_s32(isum1_0), vmulq_f32(vdupq_n_f32(dq[1]), k_scale0)));
        const float32x4_t k_scale1 = vld1q_f32(dk + (t + 4));
        vst1q_f32(s + (t + 4), vmulq_f32(vcvtq_f32_s32(isum0_1), vmulq_f32(vdupq_n_f32(dq[0]), k_scale1)));
        vst1q_f32((s + s_stride) + (t + 4),
                  vmulq_f32(vcvtq_f32_s32(isum1_1), vmulq_f32(vdupq_n_f32(dq[1]), k_scale1)));
        k += n * 8;
    }
}

/* 1 query against the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_1(float *s, const int8_t *x, const float *dq, const int32_t *xs, const uint8_t *k,
                      const float *dk, int n)
{

    (void)xs; /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 16) {
        int32x4_t isum0_0 = vdupq_n_s32(0);
        int32x4_t isum0_1 = vdupq_n_s32(0);
        int32x4_t isum0_2 = vdupq_n_s32(0);
        int32x4_t isum0_3 = vdupq_n_s32(0);
        for (int step = 0; step < n / 4; step++) {
            {
                const int8x16_t w0 = vld1q_s8((const int8_t *)(k + step * 16));
                {
                    const int8x16_t x0_0 = vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32(x + step * 4 + 0)));
                    isum0_0 = vdotq_s32(isum0_0, w0, x0_0);
                }
            }
            {
                const int8x16_t w0 = vld1q_s8((const int8_t *)(k + n * 4 + step * 16));
                {
                    const int8x16_t x0_0 = vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32(x + step * 4 + 0)));
                    isum0_1 = vdotq_s32(isum0_1, w0, x0_0);
                }
            }
            {
                const int8x16_t w0 = vld1q_s8((const int8_t *)(k + n * 8 + step * 16));
                {
                    const int8x16_t x0_0 = vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32(x + step * 4 + 0)));
                    isum0_2 = vdotq_s32(isum0_2, w0, x0_0);
                }
            }
            {
                const int8x16_t w0 = vld1q_s8((const int8_t *)(k + n * 12 + step * 16));
                {
                    const int8x16_t x0_0 = vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32(x + step * 4 + 0)));
                    isum0_3 = vdotq_s32(isum0_3, w0, x0_0);
                }
            }
        }
        const float32x4_t k_scale0 = vld1q_f32(dk + t);
        vst1q_f32(s + t, vmulq_f32(vcvtq_f32_s32(isum0_0), vmulq_f32(vdupq_n_f32(dq[0]), k_scale0)));
        const float32x4_t k_scale1 = vld1q_f32(dk + (t + 4));
        vst1q_f32(s + (t + 4), vmulq_f32(vcvtq_f32_s32(isum0_1), vmulq_f32(vdupq_n_f32(dq[0]), k_scale1)));
        const float32x4_t k_scale2 = vld1q_f32(dk + (t + 8));
        vst1q_f32(s + (t + 8), vmulq_f32(vcvtq_f32_s32(isum0_2), vmulq_f32(vdupq_n_f32(dq[0]), k_scale2)));
        const float32x4_t k_scale3 = vld1q_f32(dk + (t + 12));
        vst1q_f32(s + (t + 12), vmulq_f32(vcvtq_f32_s32(isum0_3), vmulq_f32(vdupq_n_f32(dq[0]), k_scale3)));
        k += n * 16;
    }
}

void ml_k_dot_q8_neon_dotprod(float *s, size_t s_stride, const int8_t *xt, const float *dq, const int32_t *xs,
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
