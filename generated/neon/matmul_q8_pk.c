/*
 * ml_k_matmul_q8_pk_neon
 * y[token][r0..r1) = W x[token] for packed Q8_0 weights with f32 scales.
 *
 * Written by krafla-gen from templates/matmul_pk.c.j2 and isa_specs/neon.py (facets: pack, tile); do not
 * edit.
 *
 * No dot product: vmull_s8 gives 16-bit products of two rows at a time, vpadalq_s16 adds pairs of them to
 * 32 bits. Q4 products (at most 8 * 127, eight of them a lane) are added in 16 bits over the whole block.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* One group of 4 rows against 4 tokens; sums stay in registers over all blocks. */
static void tile_4(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{

    (void)xs; /* sums of signed products need no correction */
    float32x4_t sum0 = vdupq_n_f32(0.0f);
    float32x4_t sum1 = vdupq_n_f32(0.0f);
    float32x4_t sum2 = vdupq_n_f32(0.0f);
    float32x4_t sum3 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        int32x4x2_t isum0 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum1 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum2 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum3 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
#pragma GCC unroll 8
        for (int step = 0; step < 8; step++) {
            const int8x16_t w0 = vld1q_s8((const int8_t *)(w + step * 16));
            const int8x8_t x0_0 = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + step * 16 + 0)));
            const int8x8_t x0_1 = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + step * 16 + 4)));
            const int8x8_t x0_2 = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + step * 16 + 8)));
            const int8x8_t x0_3 = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + step * 16 + 12)));
            isum0.val[0] = vpadalq_s16(isum0.val[0], vmull_s8(vget_low_s8(w0), x0_0));
            isum0.val[1] = vpadalq_s16(isum0.val[1], vmull_s8(vget_high_s8(w0), x0_0));
            isum1.val[0] = vpadalq_s16(isum1.val[0], vmull_s8(vget_low_s8(w0), x0_1));
            isum1.val[1] = vpadalq_s16(isum1.val[1], vmull_s8(vget_high_s8(w0), x0_1));
            isum2.val[0] = vpadalq_s16(isum2.val[0], vmull_s8(vget_low_s8(w0), x0_2));
            isum2.val[1] = vpadalq_s16(isum2.val[1], vmull_s8(vget_high_s8(w0), x0_2));
            isum3.val[0] = vpadalq_s16(isum3.val[0], vmull_s8(vget_low_s8(w0), x0_3));
            isum3.val[1] = vpadalq_s16(isum3.val[1], vmull_s8(vget_high_s8(w0), x0_3));
        }
        const float32x4_t w_scale = vld1q_f32(wd);
        sum0 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum0.val[0], isum0.val[1])),
                            vmulq_f32(w_scale, vdupq_n_f32(xd[0])), sum0);
        sum1 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum1.val[0], isum1.val[1])),
                            vmulq_f32(w_scale, vdupq_n_f32(xd[1])), sum1);
        sum2 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum2.val[0], isum2.val[1])),
                            vmulq_f32(w_scale, vdupq_n_f32(xd[2])), sum2);
        sum3 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum3.val[0], isum3.val[1])),
                            vmulq_f32(w_scale, vdupq_n_f32(xd[3])), sum3);
        w += 128;
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

    (void)xs; /* sums of signed products need no correction */
    float32x4_t sum0 = vdupq_n_f32(0.0f);
    float32x4_t sum1 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        int32x4x2_t isum0 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
        int32x4x2_t isum1 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
#pragma GCC unroll 8
        for (int step = 0; step < 8; step++) {
            const int8x16_t w0 = vld1q_s8((const int8_t *)(w + step * 16));
            const int8x8_t x0_0 = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + step * 8 + 0)));
            const int8x8_t x0_1 = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + step * 8 + 4)));
            isum0.val[0] = vpadalq_s16(isum0.val[0], vmull_s8(vget_low_s8(w0), x0_0));
            isum0.val[1] = vpadalq_s16(isum0.val[1], vmull_s8(vget_high_s8(w0), x0_0));
            isum1.val[0] = vpadalq_s16(isum1.val[0], vmull_s8(vget_low_s8(w0), x0_1));
            isum1.val[1] = vpadalq_s16(isum1.val[1], vmull_s8(vget_high_s8(w0), x0_1));
        }
        const float32x4_t w_scale = vld1q_f32(wd);
        sum0 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum0.val[0], isum0.val[1])),
                            vmulq_f32(w_scale, vdupq_n_f32(xd[0])), sum0);
        sum1 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum1.val[0], isum1.val[1])),
                            vmulq_f32(w_scale, vdupq_n_f32(xd[1])), sum1);
        w += 128;
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

    (void)xs; /* sums of signed products need no correction */
    float32x4_t sum0 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        int32x4x2_t isum0 = {{vdupq_n_s32(0), vdupq_n_s32(0)}};
#pragma GCC unroll 8
        for (int step = 0; step < 8; step++) {
            const int8x16_t w0 = vld1q_s8((const int8_t *)(w + step * 16));
            const int8x8_t x0_0 = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + step * 4 + 0)));
            isum0.val[0] = vpadalq_s16(isum0.val[0], vmull_s8(vget_low_s8(w0), x0_0));
            isum0.val[1] = vpadalq_s16(isum0.val[1], vmull_s8(vget_high_s8(w0), x0_0));
        }
        const float32x4_t w_scale = vld1q_f32(wd);
        sum0 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(isum0.val[0], isum0.val[1])),
                            vmulq_f32(w_scale, vdupq_n_f32(xd[0])), sum0);
        w += 128;
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

void ml_k_matmul_q8_pk_neon(float *y, size_t y_stride, const uint8_t *wq, const float *wd, const int8_t *xt,
                            const float *xd, const int32_t *xs, int cols, int tokens, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 4) {
        /* This group's weights stay in cache across the token tiles. */
        const size_t offset = (size_t)r * blocks;
        const uint8_t *w = wq + offset * 32;
        size_t t = 0;
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
