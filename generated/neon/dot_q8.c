/*
 * ml_k_dot_q8_neon
 * Scores s[query][position] = q[query] . k[position] over one page of q8 keys.
 *
 * Written by krafla-gen from templates/dot_q8.c.j2 and isa_specs/neon.py (facets: f32, pack); do not edit.
 *
 * No dot product: vmull_s8 gives 16-bit products of two rows at a time, vpadalq_s16 adds pairs of them to
 * 32 bits. Q4 products (at most 8 * 127, eight of them a lane) are added in 16 bits over the whole block.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* 4 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_4(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{

    (void)xs; /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 4) {
        int32x4x2_t isum0_0 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum1_0 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum2_0 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum3_0 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        for (int step = 0; step < n / 4; step++) {
            {
                const int8x16_t w0 = vld1q_s8((const int8_t *)(k + step * 16));
                {
                    const int8x8_t x0_0 = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + step * 4 + 0)));
                    isum0_0.val[0] = vpadalq_s16(isum0_0.val[0], vmull_s8(vget_low_s8(w0), x0_0));
                    isum0_0.val[1] = vpadalq_s16(isum0_0.val[1], vmull_s8(vget_high_s8(w0), x0_0));
                }
                {
                    const int8x8_t x0_0 =
                        vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + x_stride + step * 4 + 0)));
                    isum1_0.val[0] = vpadalq_s16(isum1_0.val[0], vmull_s8(vget_low_s8(w0), x0_0));
                    isum1_0.val[1] = vpadalq_s16(isum1_0.val[1], vmull_s8(vget_high_s8(w0), x0_0));
                }
                {
                    const int8x8_t x0_0 =
                        vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + 2 * x_stride + step * 4 + 0)));
                    isum2_0.val[0] = vpadalq_s16(isum2_0.val[0], vmull_s8(vget_low_s8(w0), x0_0));
                    isum2_0.val[1] = vpadalq_s16(isum2_0.val[1], vmull_s8(vget_high_s8(w0), x0_0));
                }
                {
                    const int8x8_t x0_0 =
                        vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + 3 * x_stride + step * 4 + 0)));
                    isum3_0.val[0] = vpadalq_s16(isum3_0.val[0], vmull_s8(vget_low_s8(w0), x0_0));
                    isum3_0.val[1] = vpadalq_s16(isum3_0.val[1], vmull_s8(vget_high_s8(w0), x0_0));
                }
            }
        }
        const float32x4_t k_scale0 = vld1q_f32(dk + t);
        vst1q_f32(s + t, vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum0_0.val[0], isum0_0.val[1])),
                                   vmulq_f32(vdupq_n_f32(dq[0]), k_scale0)));
        vst1q_f32((s + s_stride) + t, vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum1_0.val[0], isum1_0.val[1])),
                                                vmulq_f32(vdupq_n_f32(dq[1]), k_scale0)));
        vst1q_f32((s + 2 * s_stride) + t,
                  vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum2_0.val[0], isum2_0.val[1])),
                            vmulq_f32(vdupq_n_f32(dq[2]), k_scale0)));
        vst1q_f32((s + 3 * s_stride) + t,
                  vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum3_0.val[0], isum3_0.val[1])),
                            vmulq_f32(vdupq_n_f32(dq[3]), k_scale0)));
        k += n * 4;
    }
}

/* 2 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_2(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{

    (void)xs; /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 8) {
        int32x4x2_t isum0_0 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum0_1 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum1_0 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum1_1 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        for (int step = 0; step < n / 4; step++) {
            {
                const int8x16_t w0 = vld1q_s8((const int8_t *)(k + step * 16));
                {
                    const int8x8_t x0_0 = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + step * 4 + 0)));
                    isum0_0.val[0] = vpadalq_s16(isum0_0.val[0], vmull_s8(vget_low_s8(w0), x0_0));
                    isum0_0.val[1] = vpadalq_s16(isum0_0.val[1], vmull_s8(vget_high_s8(w0), x0_0));
                }
                {
                    const int8x8_t x0_0 =
                        vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + x_stride + step * 4 + 0)));
                    isum1_0.val[0] = vpadalq_s16(isum1_0.val[0], vmull_s8(vget_low_s8(w0), x0_0));
                    isum1_0.val[1] = vpadalq_s16(isum1_0.val[1], vmull_s8(vget_high_s8(w0), x0_0));
                }
            }
            {
                const int8x16_t w0 = vld1q_s8((const int8_t *)(k + n * 4 + step * 16));
                {
                    const int8x8_t x0_0 = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + step * 4 + 0)));
                    isum0_1.val[0] = vpadalq_s16(isum0_1.val[0], vmull_s8(vget_low_s8(w0), x0_0));
                    isum0_1.val[1] = vpadalq_s16(isum0_1.val[1], vmull_s8(vget_high_s8(w0), x0_0));
                }
                {
                    const int8x8_t x0_0 =
                        vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + x_stride + step * 4 + 0)));
                    isum1_1.val[0] = vpadalq_s16(isum1_1.val[0], vmull_s8(vget_low_s8(w0), x0_0));
                    isum1_1.val[1] = vpadalq_s16(isum1_1.val[1], vmull_s8(vget_high_s8(w0), x0_0));
                }
            }
        }
        const float32x4_t k_scale0 = vld1q_f32(dk + t);
        vst1q_f32(s + t, vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum0_0.val[0], isum0_0.val[1])),
                                   vmulq_f32(vdupq_n_f32(dq[0]), k_scale0)));
        vst1q_f32((s + s_stride) + t, vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum1_0.val[0], isum1_0.val[1])),
                                                vmulq_f32(vdupq_n_f32(dq[1]), k_scale0)));
        const float32x4_t k_scale1 = vld1q_f32(dk + (t + 4));
        vst1q_f32(s + (t + 4), vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum0_1.val[0], isum0_1.val[1])),
                                         vmulq_f32(vdupq_n_f32(dq[0]), k_scale1)));
        vst1q_f32((s + s_stride) + (t + 4),
                  vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum1_1.val[0], isum1_1.val[1])),
                            vmulq_f32(vdupq_n_f32(dq[1]), k_scale1)));
        k += n * 8;
    }
}

/* 1 query against the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_1(float *s, const int8_t *x, const float *dq, const int32_t *xs, const uint8_t *k,
                      const float *dk, int n)
{

    (void)xs; /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 16) {
        int32x4x2_t isum0_0 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum0_1 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum0_2 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum0_3 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        for (int step = 0; step < n / 4; step++) {
            {
                const int8x16_t w0 = vld1q_s8((const int8_t *)(k + step * 16));
                {
                    const int8x8_t x0_0 = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + step * 4 + 0)));
                    isum0_0.val[0] = vpadalq_s16(isum0_0.val[0], vmull_s8(vget_low_s8(w0), x0_0));
                    isum0_0.val[1] = vpadalq_s16(isum0_0.val[1], vmull_s8(vget_high_s8(w0), x0_0));
                }
            }
            {
                const int8x16_t w0 = vld1q_s8((const int8_t *)(k + n * 4 + step * 16));
                {
                    const int8x8_t x0_0 = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + step * 4 + 0)));
                    isum0_1.val[0] = vpadalq_s16(isum0_1.val[0], vmull_s8(vget_low_s8(w0), x0_0));
                    isum0_1.val[1] = vpadalq_s16(isum0_1.val[1], vmull_s8(vget_high_s8(w0), x0_0));
                }
            }
            {
                const int8x16_t w0 = vld1q_s8((const int8_t *)(k + n * 8 + step * 16));
                {
                    const int8x8_t x0_0 = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + step * 4 + 0)));
                    isum0_2.val[0] = vpadalq_s16(isum0_2.val[0], vmull_s8(vget_low_s8(w0), x0_0));
                    isum0_2.val[1] = vpadalq_s16(isum0_2.val[1], vmull_s8(vget_high_s8(w0), x0_0));
                }
            }
            {
                const int8x16_t w0 = vld1q_s8((const int8_t *)(k + n * 12 + step * 16));
                {
                    const int8x8_t x0_0 = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + step * 4 + 0)));
                    isum0_3.val[0] = vpadalq_s16(isum0_3.val[0], vmull_s8(vget_low_s8(w0), x0_0));
                    isum0_3.val[1] = vpadalq_s16(isum0_3.val[1], vmull_s8(vget_high_s8(w0), x0_0));
                }
            }
        }
        const float32x4_t k_scale0 = vld1q_f32(dk + t);
        vst1q_f32(s + t, vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum0_0.val[0], isum0_0.val[1])),
                                   vmulq_f32(vdupq_n_f32(dq[0]), k_scale0)));
        const float32x4_t k_scale1 = vld1q_f32(dk + (t + 4));
        vst1q_f32(s + (t + 4), vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum0_1.val[0], isum0_1.val[1])),
                                         vmulq_f32(vdupq_n_f32(dq[0]), k_scale1)));
        const float32x4_t k_scale2 = vld1q_f32(dk + (t + 8));
        vst1q_f32(s + (t + 8), vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum0_2.val[0], isum0_2.val[1])),
                                         vmulq_f32(vdupq_n_f32(dq[0]), k_scale2)));
        const float32x4_t k_scale3 = vld1q_f32(dk + (t + 12));
        vst1q_f32(s + (t + 12), vmulq_f32(vcvtq_f32_s32(ml_rows_neon(isum0_3.val[0], isum0_3.val[1])),
                                          vmulq_f32(vdupq_n_f32(dq[0]), k_scale3)));
        k += n * 16;
    }
}

void ml_k_dot_q8_neon(float *s, size_t s_stride, const int8_t *xt, const float *dq, const int32_t *xs,
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
