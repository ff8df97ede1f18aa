/*
 * ml_k_matvec_q4_pk_f16_avx512vnni
 * y[r0..r1) = W x for packed Q4_0 weights with f16 scales.
 *
 * Written by krafla-gen from templates/matvec_pk.c.j2 and isa_specs/avx512vnni.py (facets: pack); do not
 * edit.
 *
 * vpdpbusd wants unsigned weights: Q8 weights are stored with +128 and Q4 nibbles raw (weight + 8). Each
 * block starts from -128 * sum(x) or -8 * sum(x), so its int32 sum is exact.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* One group of 16 rows against 1 token; sums stay in registers over all blocks. */
static void tile_1(float *y, int rows, const uint8_t *w, const uint16_t *wd, const int8_t *x, const float *xd,
                   const int32_t *xs, size_t blocks)
{
    const __m512i low_nibbles = _mm512_set1_epi8(0x0f);
    __m512 sum0 = _mm512_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        /* Hardware prefetchers stop at page boundaries. */
        for (int line = 0; line < 256; line += 64)
            ml_prefetch(w + ML_PREFETCH_DISTANCE + line);
#endif
        __m512i isum0 = _mm512_set1_epi32(xs[1]);
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const __m512i packed = _mm512_loadu_si512((const void *)(w + step * 64));
            const __m512i w0 = _mm512_and_si512(packed, low_nibbles); /* elements 0 to 15 of the block */
            const __m512i w1 = _mm512_and_si512(_mm512_srli_epi16(packed, 4), low_nibbles); /* 16 to 31 */
            isum0 = _mm512_dpbusd_epi32(isum0, w0, _mm512_set1_epi32(ml_load_i32(x + step * 4)));
            isum0 = _mm512_dpbusd_epi32(isum0, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 4)));
        }
        const __m512 w_scale = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(wd)));
        sum0 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum0), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[0])), sum0);
        w += 256;
        wd += 16;
        x += 32;
        xd += 1;
        xs += 2;
    }
    if (rows >= 16) {
        _mm512_storeu_ps(y, sum0);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[16];
    _mm512_storeu_ps(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
}

void ml_k_matvec_q4_pk_f16_avx512vnni(float *y, const uint8_t *wq, const uint16_t *wd, const int8_t *xt,
                                      const float *xd, const int32_t *xs, int cols, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 16) {
        const size_t offset = (size_t)r * blocks; /* blocks before this group */
        tile_1(y + r, r1 - r, wq + offset * 16, wd + offset, xt, xd, xs, blocks);
    }
}
