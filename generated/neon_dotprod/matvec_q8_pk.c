/*
 * ml_k_matvec_q8_pk_neon_dotprod
 * y[r0..r1) = W x for packed Q8_0 weights with f32 scales.
 *
 * Written by krafla-gen from templates/matvec_pk.c.j2 and isa_specs/neon_dotprod.py (facets: pack); do not
 * edit.
 *
 * sdot takes signed bytes. Q4 bytes are stored XOR 0x88, so that a nibble reads as the signed value q - 8:
 * shifted left by 4 (low) or masked (high) it is 16 (q - 8) as a signed byte, and the conversion to float
 * divides the block's sum by 16 exactly. Nothing has to be corrected.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* One group of 4 rows against 1 token; sums stay in registers over all blocks. */
static void tile_1(float *y, int rows, const uint8_t *w, const float *wd, const int8_t *x, const float *xd,
                   const int32_t *xs, size_t blocks)
{

    (void)xs; /* sums of signed products need no correction */
    float32x4_t sum0 = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        /* Hardware prefetchers stop at page boundaries. */
        for (int line = 0; line < 128; line += 64)
            ml_prefetch(w + ML_PREFETCH_DISTANCE + line);
#endif
        int32x4_t isum0 = vdupq_n_s32(0);
#pragma GCC unroll 8
        for (int step = 0; step < 8; step++) {
            const int8x16_t w0 = vld1q_s8((const int8_t *)(w + step * 16));
            const int8x16_t x0_0 = vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32(x + step * 4 + 0)));
            isum0 = vdotq_s32(isum0, w0, x0_0);
        }
        const float32x4_t w_scale = vld1q_f32(wd);
        sum0 = vfmaq_f32(sum0, vcvtq_f32_s32(isum0), vmulq_f32(w_scale, vdupq_n_f32(xd[0])));
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

void ml_k_matvec_q8_pk_neon_dotprod(float *y, const uint8_t *wq, const float *wd, const int8_t *xt,
                                    const float *xd, const int32_t *xs, int cols, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 4) {
        const size_t offset = (size_t)r * blocks; /* blocks before this group */
        tile_1(y + r, r1 - r, wq + offset * 32, wd + offset, xt, xd, xs, blocks);
    }
}
