/*
 * ml_k_matvec_q8_pk_neon
 * y[r0..r1) = W x for packed Q8_0 weights with f32 scales.
 *
 * Written by krafla-gen from templates/matvec_pk.c.j2 and isa_specs/neon.py (facets: pack); do not edit.
 *
 * No dot product: vmull_s8 and vmlal_s8 add two steps' products of two rows in 16 bits (at most 2 * 128 *
 * 127), vpadalq_s16 adds pairs of those to 32 bits. Q4 products (nibbles of 0 to 15, eight of them a lane)
 * stay in 16 bits over the whole block; each of a row's four lanes starts with a quarter of -8 * sum(x).
 * tile_q8 writes every four activations four times, to meet four rows in the same halves of registers.
 */
#include "ml_config.h"
#include "core/arm_common.h"

#if defined(__aarch64__)
/* 4 groups of 4 rows against 1 token; sums stay in registers over all blocks. */
static void tile_4x1(float *y, const uint8_t *w, const float *wd, const int8_t *x, const float *xd,
                     size_t blocks)
{

    const uint8_t *w1 = w + blocks * 128;
    const float *wd1 = wd + blocks * 4;
    const uint8_t *w2 = w1 + blocks * 128;
    const float *wd2 = wd1 + blocks * 4;
    const uint8_t *w3 = w2 + blocks * 128;
    const float *wd3 = wd2 + blocks * 4;
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
        int32x4_t isum0_0_0 = vdupq_n_s32(0);
        int32x4_t isum0_0_1 = vdupq_n_s32(0);
        int32x4_t isum1_0_0 = vdupq_n_s32(0);
        int32x4_t isum1_0_1 = vdupq_n_s32(0);
        int32x4_t isum2_0_0 = vdupq_n_s32(0);
        int32x4_t isum2_0_1 = vdupq_n_s32(0);
        int32x4_t isum3_0_0 = vdupq_n_s32(0);
        int32x4_t isum3_0_1 = vdupq_n_s32(0);

        const int8x16_t w0_0 = vld1q_s8((const int8_t *)(w));
        const int8x16_t w0_1 = vld1q_s8((const int8_t *)(w + 16));
        const int8x16_t w1_0 = vld1q_s8((const int8_t *)(w1));
        const int8x16_t w1_1 = vld1q_s8((const int8_t *)(w1 + 16));
        const int8x16_t w2_0 = vld1q_s8((const int8_t *)(w2));
        const int8x16_t w2_1 = vld1q_s8((const int8_t *)(w2 + 16));
        const int8x16_t w3_0 = vld1q_s8((const int8_t *)(w3));
        const int8x16_t w3_1 = vld1q_s8((const int8_t *)(w3 + 16));
        const int8x16_t x0_0 = vld1q_s8(x);
        const int8x16_t x0_1 = vld1q_s8(x + 16);
        isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_0), vget_low_s8(x0_0)),
                                                    vget_low_s8(w0_1), vget_low_s8(x0_1)));
        isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_0), vget_high_s8(x0_0)),
                                                    vget_high_s8(w0_1), vget_high_s8(x0_1)));
        isum1_0_0 = vpadalq_s16(isum1_0_0, vmlal_s8(vmull_s8(vget_low_s8(w1_0), vget_low_s8(x0_0)),
                                                    vget_low_s8(w1_1), vget_low_s8(x0_1)));
        isum1_0_1 = vpadalq_s16(isum1_0_1, vmlal_s8(vmull_s8(vget_high_s8(w1_0), vget_high_s8(x0_0)),
                                                    vget_high_s8(w1_1), vget_high_s8(x0_1)));
        isum2_0_0 = vpadalq_s16(isum2_0_0, vmlal_s8(vmull_s8(vget_low_s8(w2_0), vget_low_s8(x0_0)),
                                                    vget_low_s8(w2_1), vget_low_s8(x0_1)));
        isum2_0_1 = vpadalq_s16(isum2_0_1, vmlal_s8(vmull_s8(vget_high_s8(w2_0), vget_high_s8(x0_0)),
                                                    vget_high_s8(w2_1), vget_high_s8(x0_1)));
        isum3_0_0 = vpadalq_s16(isum3_0_0, vmlal_s8(vmull_s8(vget_low_s8(w3_0), vget_low_s8(x0_0)),
                                                    vget_low_s8(w3_1), vget_low_s8(x0_1)));
        isum3_0_1 = vpadalq_s16(isum3_0_1, vmlal_s8(vmull_s8(vget_high_s8(w3_0), vget_high_s8(x0_0)),
                                                    vget_high_s8(w3_1), vget_high_s8(x0_1)));
        const int8x16_t w0_2 = vld1q_s8((const int8_t *)(w + 32));
        const int8x16_t w0_3 = vld1q_s8((const int8_t *)(w + 48));
        const int8x16_t w1_2 = vld1q_s8((const int8_t *)(w1 + 32));
        const int8x16_t w1_3 = vld1q_s8((const int8_t *)(w1 + 48));
        const int8x16_t w2_2 = vld1q_s8((const int8_t *)(w2 + 32));
        const int8x16_t w2_3 = vld1q_s8((const int8_t *)(w2 + 48));
        const int8x16_t w3_2 = vld1q_s8((const int8_t *)(w3 + 32));
        const int8x16_t w3_3 = vld1q_s8((const int8_t *)(w3 + 48));
        const int8x16_t x0_2 = vld1q_s8(x + 32);
        const int8x16_t x0_3 = vld1q_s8(x + 48);
        isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_2), vget_low_s8(x0_2)),
                                                    vget_low_s8(w0_3), vget_low_s8(x0_3)));
        isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_2), vget_high_s8(x0_2)),
                                                    vget_high_s8(w0_3), vget_high_s8(x0_3)));
        isum1_0_0 = vpadalq_s16(isum1_0_0, vmlal_s8(vmull_s8(vget_low_s8(w1_2), vget_low_s8(x0_2)),
                                                    vget_low_s8(w1_3), vget_low_s8(x0_3)));
        isum1_0_1 = vpadalq_s16(isum1_0_1, vmlal_s8(vmull_s8(vget_high_s8(w1_2), vget_high_s8(x0_2)),
                                                    vget_high_s8(w1_3), vget_high_s8(x0_3)));
        isum2_0_0 = vpadalq_s16(isum2_0_0, vmlal_s8(vmull_s8(vget_low_s8(w2_2), vget_low_s8(x0_2)),
                                                    vget_low_s8(w2_3), vget_low_s8(x0_3)));
        isum2_0_1 = vpadalq_s16(isum2_0_1, vmlal_s8(vmull_s8(vget_high_s8(w2_2), vget_high_s8(x0_2)),
                                                    vget_high_s8(w2_3), vget_high_s8(x0_3)));
        isum3_0_0 = vpadalq_s16(isum3_0_0, vmlal_s8(vmull_s8(vget_low_s8(w3_2), vget_low_s8(x0_2)),
                                                    vget_low_s8(w3_3), vget_low_s8(x0_3)));
        isum3_0_1 = vpadalq_s16(isum3_0_1, vmlal_s8(vmull_s8(vget_high_s8(w3_2), vget_high_s8(x0_2)),
                                                    vget_high_s8(w3_3), vget_high_s8(x0_3)));
        const int8x16_t w0_4 = vld1q_s8((const int8_t *)(w + 64));
        const int8x16_t w0_5 = vld1q_s8((const int8_t *)(w + 80));
        const int8x16_t w1_4 = vld1q_s8((const int8_t *)(w1 + 64));
        const int8x16_t w1_5 = vld1q_s8((const int8_t *)(w1 + 80));
        const int8x16_t w2_4 = vld1q_s8((const int8_t *)(w2 + 64));
        const int8x16_t w2_5 = vld1q_s8((const int8_t *)(w2 + 80));
        const int8x16_t w3_4 = vld1q_s8((const int8_t *)(w3 + 64));
        const int8x16_t w3_5 = vld1q_s8((const int8_t *)(w3 + 80));
        const int8x16_t x0_4 = vld1q_s8(x + 64);
        const int8x16_t x0_5 = vld1q_s8(x + 80);
        isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_4), vget_low_s8(x0_4)),
                                                    vget_low_s8(w0_5), vget_low_s8(x0_5)));
        isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_4), vget_high_s8(x0_4)),
                                                    vget_high_s8(w0_5), vget_high_s8(x0_5)));
        isum1_0_0 = vpadalq_s16(isum1_0_0, vmlal_s8(vmull_s8(vget_low_s8(w1_4), vget_low_s8(x0_4)),
                                                    vget_low_s8(w1_5), vget_low_s8(x0_5)));
        isum1_0_1 = vpadalq_s16(isum1_0_1, vmlal_s8(vmull_s8(vget_high_s8(w1_4), vget_high_s8(x0_4)),
                                                    vget_high_s8(w1_5), vget_high_s8(x0_5)));
        isum2_0_0 = vpadalq_s16(isum2_0_0, vmlal_s8(vmull_s8(vget_low_s8(w2_4), vget_low_s8(x0_4)),
                                                    vget_low_s8(w2_5), vget_low_s8(x0_5)));
        isum2_0_1 = vpadalq_s16(isum2_0_1, vmlal_s8(vmull_s8(vget_high_s8(w2_4), vget_high_s8(x0_4)),
                                                    vget_high_s8(w2_5), vget_high_s8(x0_5)));
        isum3_0_0 = vpadalq_s16(isum3_0_0, vmlal_s8(vmull_s8(vget_low_s8(w3_4), vget_low_s8(x0_4)),
                                                    vget_low_s8(w3_5), vget_low_s8(x0_5)));
        isum3_0_1 = vpadalq_s16(isum3_0_1, vmlal_s8(vmull_s8(vget_high_s8(w3_4), vget_high_s8(x0_4)),
                                                    vget_high_s8(w3_5), vget_high_s8(x0_5)));
        const int8x16_t w0_6 = vld1q_s8((const int8_t *)(w + 96));
        const int8x16_t w0_7 = vld1q_s8((const int8_t *)(w + 112));
        const int8x16_t w1_6 = vld1q_s8((const int8_t *)(w1 + 96));
        const int8x16_t w1_7 = vld1q_s8((const int8_t *)(w1 + 112));
        const int8x16_t w2_6 = vld1q_s8((const int8_t *)(w2 + 96));
        const int8x16_t w2_7 = vld1q_s8((const int8_t *)(w2 + 112));
        const int8x16_t w3_6 = vld1q_s8((const int8_t *)(w3 + 96));
        const int8x16_t w3_7 = vld1q_s8((const int8_t *)(w3 + 112));
        const int8x16_t x0_6 = vld1q_s8(x + 96);
        const int8x16_t x0_7 = vld1q_s8(x + 112);
        isum0_0_0 = vpadalq_s16(isum0_0_0, vmlal_s8(vmull_s8(vget_low_s8(w0_6), vget_low_s8(x0_6)),
                                                    vget_low_s8(w0_7), vget_low_s8(x0_7)));
        isum0_0_1 = vpadalq_s16(isum0_0_1, vmlal_s8(vmull_s8(vget_high_s8(w0_6), vget_high_s8(x0_6)),
                                                    vget_high_s8(w0_7), vget_high_s8(x0_7)));
        isum1_0_0 = vpadalq_s16(isum1_0_0, vmlal_s8(vmull_s8(vget_low_s8(w1_6), vget_low_s8(x0_6)),
                                                    vget_low_s8(w1_7), vget_low_s8(x0_7)));
        isum1_0_1 = vpadalq_s16(isum1_0_1, vmlal_s8(vmull_s8(vget_high_s8(w1_6), vget_high_s8(x0_6)),
                                                    vget_high_s8(w1_7), vget_high_s8(x0_7)));
        isum2_0_0 = vpadalq_s16(isum2_0_0, vmlal_s8(vmull_s8(vget_low_s8(w2_6), vget_low_s8(x0_6)),
                                                    vget_low_s8(w2_7), vget_low_s8(x0_7)));
        isum2_0_1 = vpadalq_s16(isum2_0_1, vmlal_s8(vmull_s8(vget_high_s8(w2_6), vget_high_s8(x0_6)),
                                                    vget_high_s8(w2_7), vget_high_s8(x0_7)));
        isum3_0_0 = vpadalq_s16(isum3_0_0, vmlal_s8(vmull_s8(vget_low_s8(w3_6), vget_low_s8(x0_6)),
                                                    vget_low_s8(w3_7), vget_low_s8(x0_7)));
        isum3_0_1 = vpadalq_s16(isum3_0_1, vmlal_s8(vmull_s8(vget_high_s8(w3_6), vget_high_s8(x0_6)),
                                                    vget_high_s8(w3_7), vget_high_s8(x0_7)));
        const float32x4_t w_scale0 = vld1q_f32(wd);
        const float32x4_t w_scale1 = vld1q_f32(wd1);
        const float32x4_t w_scale2 = vld1q_f32(wd2);
        const float32x4_t w_scale3 = vld1q_f32(wd3);
        const float x_scale0 = xd[0];
        sum0_0 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum0_0_0, isum0_0_1)),
                              vmulq_n_f32(w_scale0, x_scale0), sum0_0);
        sum1_0 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum1_0_0, isum1_0_1)),
                              vmulq_n_f32(w_scale1, x_scale0), sum1_0);
        sum2_0 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum2_0_0, isum2_0_1)),
                              vmulq_n_f32(w_scale2, x_scale0), sum2_0);
        sum3_0 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum3_0_0, isum3_0_1)),
                              vmulq_n_f32(w_scale3, x_scale0), sum3_0);
        w += 128;
        wd += 4;
        w1 += 128;
        wd1 += 4;
        w2 += 128;
        wd2 += 4;
        w3 += 128;
        wd3 += 4;
        x += 128;
        xd += 1;
    }
    vst1q_f32(y, sum0_0);
    vst1q_f32(y + 4, sum1_0);
    vst1q_f32(y + 8, sum2_0);
    vst1q_f32(y + 12, sum3_0);
}

#endif

/* One group of 4 rows against 1 token; sums stay in registers over all blocks. */
static void tile_1(float *y, int rows, const uint8_t *w, const float *wd, const int8_t *x, const float *xd,
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

void ml_k_matvec_q8_pk_neon(float *y, const uint8_t *wq, const float *wd, const int8_t *xt, const float *xd,
                            const int32_t *xs, int cols, int r0, int r1)
{
    (void)xs; /* not needed on this machine */
    const size_t blocks = (size_t)cols / ML_BLOCK;
    int r = r0;
#if defined(__aarch64__)
    for (; r + 16 <= r1; r += 16) {
        const size_t offset = (size_t)r * blocks; /* blocks before this group */
        tile_4x1(y + r, wq + offset * 32, wd + offset, xt, xd, blocks);
    }
#endif
    for (; r < r1; r += 4) {
        const size_t offset = (size_t)r * blocks; /* blocks before this group */
        tile_1(y + r, r1 - r, wq + offset * 32, wd + offset, xt, xd, blocks);
    }
}
