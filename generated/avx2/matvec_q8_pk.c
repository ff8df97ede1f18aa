/*
 * ml_k_matvec_q8_pk_avx2
 * y[r0..r1) = W x for packed Q8_0 weights with f32 scales.
 *
 * Written by krafla-gen from templates/matvec_pk.c.j2 and isa_specs/avx2.py (facets: pack); do not edit.
 *
 * pmaddubsw wants one unsigned operand: |w| times x with w's sign (psignb) is w times x, and 127 * 127 * 2
 * stays below 32767. Q4 nibbles are unsigned already; the eight pair sums of a block (at most 30480) are
 * added in int16 before a single pmaddwd, and -8 * sum(x) makes the sum exact.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* One group of 8 rows against 1 token; sums stay in registers over all blocks. */
static void tile_1(float *y, int rows, const uint8_t *w, const float *wd, const int8_t *x, const float *xd,
                   const int32_t *xs, size_t blocks)
{
    const __m256i ones = _mm256_set1_epi16(1);
    (void)xs; /* sums of signed products need no correction */
    __m256 sum0 = _mm256_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        /* Hardware prefetchers stop at page boundaries. */
        for (int line = 0; line < 256; line += 64)
            ml_prefetch(w + ML_PREFETCH_DISTANCE + line);
#endif
        __m256i isum0 = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (int step = 0; step < 8; step++) {

            const __m256i w0 = _mm256_loadu_si256((const void *)(w + step * 32));
            const __m256i magnitude = _mm256_abs_epi8(w0);
            isum0 = _mm256_add_epi32(
                isum0, _mm256_madd_epi16(
                           _mm256_maddubs_epi16(
                               magnitude, _mm256_sign_epi8(_mm256_set1_epi32(ml_load_i32(x + step * 4)), w0)),
                           ones));
        }
        const __m256 w_scale = _mm256_loadu_ps(wd);
        sum0 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum0), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[0])), sum0);
        w += 256;
        wd += 8;
        x += 32;
        xd += 1;
    }
    if (rows >= 8) {
        _mm256_storeu_ps(y, sum0);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[8];
    _mm256_storeu_ps(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
}

void ml_k_matvec_q8_pk_avx2(float *y, const uint8_t *wq, const float *wd, const int8_t *xt, const float *xd,
                            const int32_t *xs, int cols, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 8) {
        const size_t offset = (size_t)r * blocks; /* blocks before this group */
        tile_1(y + r, r1 - r, wq + offset * 32, wd + offset, xt, xd, xs, blocks);
    }
}
