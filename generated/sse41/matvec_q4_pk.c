/*
 * ml_k_matvec_q4_pk_sse41
 * y[r0..r1) = W x for packed Q4_0 weights with f32 scales.
 *
 * Written by krafla-gen from templates/matvec_pk.c.j2 and isa_specs/sse41.py (facets: pack); do not edit.
 *
 * pmaddubsw wants one unsigned operand: |w| times x with w's sign (psignb) is w times x, and 127 * 127 * 2
 * stays below 32767. Q4 nibbles are unsigned already; the eight pair sums of a block (at most 30480) are
 * added in int16 before a single pmaddwd, and -8 * sum(x) makes the sum exact.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* One group of 4 rows against 1 token; sums stay in registers over all blocks. */
static void tile_1(float *y, int rows, const uint8_t *w, const float *wd, const int8_t *x, const float *xd,
                   const int32_t *xs, size_t blocks)
{
    const __m128i ones = _mm_set1_epi16(1);
    const __m128i low_nibbles = _mm_set1_epi8(0x0f);
    __m128 sum0 = _mm_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        /* Hardware prefetchers stop at page boundaries. */
        for (int line = 0; line < 64; line += 64)
            ml_prefetch(w + ML_PREFETCH_DISTANCE + line);
#endif
        __m128i isum0 = _mm_setzero_si128();
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const __m128i packed = _mm_loadu_si128((const void *)(w + step * 16));
            const __m128i w0 = _mm_and_si128(packed, low_nibbles); /* elements 0 to 15 of the block */
            const __m128i w1 = _mm_and_si128(_mm_srli_epi16(packed, 4), low_nibbles); /* 16 to 31 */
            isum0 = _mm_add_epi16(isum0, _mm_maddubs_epi16(w0, _mm_set1_epi32(ml_load_i32(x + step * 4))));
            isum0 =
                _mm_add_epi16(isum0, _mm_maddubs_epi16(w1, _mm_set1_epi32(ml_load_i32(x + (step + 4) * 4))));
        }
        const __m128 w_scale = _mm_loadu_ps(wd);
        sum0 = _mm_add_ps(
            _mm_mul_ps(_mm_cvtepi32_ps(_mm_add_epi32(_mm_madd_epi16(isum0, ones), _mm_set1_epi32(xs[1]))),
                       _mm_mul_ps(w_scale, _mm_set1_ps(xd[0]))),
            sum0);
        w += 64;
        wd += 4;
        x += 32;
        xd += 1;
        xs += 2;
    }
    if (rows >= 4) {
        _mm_storeu_ps(y, sum0);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    _mm_storeu_ps(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
}

void ml_k_matvec_q4_pk_sse41(float *y, const uint8_t *wq, const float *wd, const int8_t *xt, const float *xd,
                             const int32_t *xs, int cols, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 4) {
        const size_t offset = (size_t)r * blocks; /* blocks before this group */
        tile_1(y + r, r1 - r, wq + offset * 16, wd + offset, xt, xd, xs, blocks);
    }
}
