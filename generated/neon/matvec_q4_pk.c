/*
 * ml_k_matvec_q4_pk_neon
 * y[r0..r1) = W x for packed Q4_0 weights with f32 scales.
 *
 * Written by krafla-gen from templates/matvec_pk.c.j2 and isa_specs/neon.py (facets: pack); do not edit.
 *
 * No dot product: vmull_s8 gives 16-bit products of two rows at a time, vpadalq_s16 adds pairs of them to
 * 32 bits. Q4 products (at most 8 * 127, eight of them a lane) are added in 16 bits over the whole block.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* One group of 4 rows against 1 token; sums stay in registers over all blocks. */
static void tile_1(float *y, int rows, const uint8_t *w, const float *wd, const int8_t *x, const float *xd,
                   const int32_t *xs, size_t blocks)
{
    const int8x16_t eight = vdupq_n_s8(8);
    (void)xs; /* sums of signed products need no correction */
    float32x4_t sum0 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        /* Hardware prefetchers stop at page boundaries. */
        for (int line = 0; line < 64; line += 64)
            ml_prefetch(w + ML_PREFETCH_DISTANCE + line);
#endif
        int16x8x2_t isum0 = {{vdupq_n_s16(0), vdupq_n_s16(0)}};
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {
            const uint8x16_t packed = vld1q_u8(w + step * 16);
            const int8x16_t w0 = vsubq_s8(vreinterpretq_s8_u8(vandq_u8(packed, vdupq_n_u8(0x0f))),
                                          eight); /* elements 0 to 15 of the block */
            const int8x16_t w1 = vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(packed, 4)), eight); /* 16 to 31 */
            const int8x8_t x0_0 = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + step * 4 + 0)));
            isum0.val[0] = vmlal_s8(isum0.val[0], vget_low_s8(w0), x0_0);
            isum0.val[1] = vmlal_s8(isum0.val[1], vget_high_s8(w0), x0_0);
            const int8x8_t x1_0 = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(x + (step + 4) * 4 + 0)));
            isum0.val[0] = vmlal_s8(isum0.val[0], vget_low_s8(w1), x1_0);
            isum0.val[1] = vmlal_s8(isum0.val[1], vget_high_s8(w1), x1_0);
        }
        const float32x4_t w_scale = vld1q_f32(wd);
        sum0 = ml_madd_neon(vcvtq_f32_s32(ml_rows_neon(vpaddlq_s16(isum0.val[0]), vpaddlq_s16(isum0.val[1]))),
                            vmulq_f32(w_scale, vdupq_n_f32(xd[0])), sum0);
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

void ml_k_matvec_q4_pk_neon(float *y, const uint8_t *wq, const float *wd, const int8_t *xt, const float *xd,
                            const int32_t *xs, int cols, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 4) {
        const size_t offset = (size_t)r * blocks; /* blocks before this group */
        tile_1(y + r, r1 - r, wq + offset * 16, wd + offset, xt, xd, xs, blocks);
    }
}
