/*
 * ml_k_matmul_q8_pk_sse2
 * y[token][r0..r1) = W x[token] for packed Q8_0 weights with f32 scales.
 *
 * Written by krafla-gen from templates/matmul_pk.c.j2 and isa_specs/sse2.py (facets: pack, tile); do not
 * edit.
 *
 * There is no 8-bit multiply. A 16-bit lane of a weight step holds two bytes of one row; they are split
 * into the even byte (w & 0xff) and the odd byte (w >> 8, logical), and pair sums of 16-bit products give
 * one partial sum per row. That needs unsigned weights: Q8 is stored with +128, and -128 * sum(x) is
 * added. Activations are expanded once per call into matching broadcast pairs, so the inner loop has no
 * shuffles, which matters on CPUs with one shuffle port.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* One group of 4 rows against 4 tokens; sums stay in registers over all blocks. */
static void tile_4(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const __m128i even_mask = _mm_set1_epi16(0x00ff);
    __m128 sum0 = _mm_set1_ps(0.0f);
    __m128 sum1 = _mm_set1_ps(0.0f);
    __m128 sum2 = _mm_set1_ps(0.0f);
    __m128 sum3 = _mm_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 4) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        __m128i isum0 = _mm_set1_epi32(xs[0]);
        __m128i isum1 = _mm_set1_epi32(xs[1]);
        __m128i isum2 = _mm_set1_epi32(xs[2]);
        __m128i isum3 = _mm_set1_epi32(xs[3]);
#pragma GCC unroll 8
        for (int step = 0; step < 8; step++) {

            const __m128i packed = _mm_loadu_si128((const void *)(w + step * 16));
            const __m128i even0 = _mm_and_si128(packed, even_mask);
            const __m128i odd0 = _mm_srli_epi16(packed, 8);
            isum0 = _mm_add_epi32(
                isum0,
                _mm_add_epi32(_mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + step * 128))),
                              _mm_madd_epi16(odd0, _mm_loadu_si128((const void *)(x + step * 128 + 16)))));
            isum1 = _mm_add_epi32(
                isum1,
                _mm_add_epi32(_mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + step * 128 + 32))),
                              _mm_madd_epi16(odd0, _mm_loadu_si128((const void *)(x + step * 128 + 48)))));
            isum2 = _mm_add_epi32(
                isum2,
                _mm_add_epi32(_mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + step * 128 + 64))),
                              _mm_madd_epi16(odd0, _mm_loadu_si128((const void *)(x + step * 128 + 80)))));
            isum3 = _mm_add_epi32(
                isum3,
                _mm_add_epi32(_mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + step * 128 + 96))),
                              _mm_madd_epi16(odd0, _mm_loadu_si128((const void *)(x + step * 128 + 112)))));
        }
        const __m128 w_scale = _mm_loadu_ps(wd);
        sum0 = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum0), _mm_mul_ps(w_scale, _mm_set1_ps(xd[0]))), sum0);
        sum1 = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum1), _mm_mul_ps(w_scale, _mm_set1_ps(xd[1]))), sum1);
        sum2 = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum2), _mm_mul_ps(w_scale, _mm_set1_ps(xd[2]))), sum2);
        sum3 = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum3), _mm_mul_ps(w_scale, _mm_set1_ps(xd[3]))), sum3);
        w += 128;
        wd += 4;
        x += 1024;
        xd += 4;
        xs += 8;
    }
    if (rows >= 4) {
        _mm_storeu_ps(y, sum0);
        _mm_storeu_ps((y + y_stride), sum1);
        _mm_storeu_ps((y + 2 * y_stride), sum2);
        _mm_storeu_ps((y + 3 * y_stride), sum3);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    _mm_storeu_ps(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
    _mm_storeu_ps(out, sum1);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
    _mm_storeu_ps(out, sum2);
    memcpy(y + 2 * y_stride, out, (size_t)rows * sizeof(float));
    _mm_storeu_ps(out, sum3);
    memcpy(y + 3 * y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 4 rows against 2 tokens; sums stay in registers over all blocks. */
static void tile_2(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const __m128i even_mask = _mm_set1_epi16(0x00ff);
    __m128 sum0 = _mm_set1_ps(0.0f);
    __m128 sum1 = _mm_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 2) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        __m128i isum0 = _mm_set1_epi32(xs[0]);
        __m128i isum1 = _mm_set1_epi32(xs[1]);
#pragma GCC unroll 8
        for (int step = 0; step < 8; step++) {

            const __m128i packed = _mm_loadu_si128((const void *)(w + step * 16));
            const __m128i even0 = _mm_and_si128(packed, even_mask);
            const __m128i odd0 = _mm_srli_epi16(packed, 8);
            isum0 = _mm_add_epi32(
                isum0,
                _mm_add_epi32(_mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + step * 64))),
                              _mm_madd_epi16(odd0, _mm_loadu_si128((const void *)(x + step * 64 + 16)))));
            isum1 = _mm_add_epi32(
                isum1,
                _mm_add_epi32(_mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + step * 64 + 32))),
                              _mm_madd_epi16(odd0, _mm_loadu_si128((const void *)(x + step * 64 + 48)))));
        }
        const __m128 w_scale = _mm_loadu_ps(wd);
        sum0 = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum0), _mm_mul_ps(w_scale, _mm_set1_ps(xd[0]))), sum0);
        sum1 = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum1), _mm_mul_ps(w_scale, _mm_set1_ps(xd[1]))), sum1);
        w += 128;
        wd += 4;
        x += 512;
        xd += 2;
        xs += 4;
    }
    if (rows >= 4) {
        _mm_storeu_ps(y, sum0);
        _mm_storeu_ps((y + y_stride), sum1);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[4];
    _mm_storeu_ps(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
    _mm_storeu_ps(out, sum1);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 4 rows against 1 token; sums stay in registers over all blocks. */
static void tile_1(float *y, int rows, const uint8_t *w, const float *wd, const int8_t *x, const float *xd,
                   const int32_t *xs, size_t blocks)
{
    const __m128i even_mask = _mm_set1_epi16(0x00ff);
    __m128 sum0 = _mm_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        __m128i isum0 = _mm_set1_epi32(xs[0]);
#pragma GCC unroll 8
        for (int step = 0; step < 8; step++) {

            const __m128i packed = _mm_loadu_si128((const void *)(w + step * 16));
            const __m128i even0 = _mm_and_si128(packed, even_mask);
            const __m128i odd0 = _mm_srli_epi16(packed, 8);
            isum0 = _mm_add_epi32(
                isum0,
                _mm_add_epi32(_mm_madd_epi16(even0, _mm_loadu_si128((const void *)(x + step * 32))),
                              _mm_madd_epi16(odd0, _mm_loadu_si128((const void *)(x + step * 32 + 16)))));
        }
        const __m128 w_scale = _mm_loadu_ps(wd);
        sum0 = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum0), _mm_mul_ps(w_scale, _mm_set1_ps(xd[0]))), sum0);
        w += 128;
        wd += 4;
        x += 256;
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

/* One row group against the tokens from `t` on; its weights stay in cache across the token tiles. */
static void row_group(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd,
                      const int8_t *xt, const float *xd, const int32_t *xs, size_t blocks, size_t t,
                      size_t tokens)
{
    for (; t + 4 <= tokens; t += 4)
        tile_4(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 256, xd + t * blocks,
               xs + t * blocks * 2, blocks);
    for (; t + 2 <= tokens; t += 2)
        tile_2(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 256, xd + t * blocks,
               xs + t * blocks * 2, blocks);
    for (; t + 1 <= tokens; t += 1)
        tile_1(y + t * y_stride, rows, w, wd, xt + t * blocks * 256, xd + t * blocks, xs + t * blocks * 2,
               blocks);
}

void ml_k_matmul_q8_pk_sse2(float *y, size_t y_stride, const uint8_t *wq, const float *wd, const int8_t *xt,
                            const float *xd, const int32_t *xs, int cols, int tokens, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 4)
        row_group(y + r, y_stride, r1 - r, wq + (size_t)r * blocks * 32, wd + (size_t)r * blocks, xt, xd, xs,
                  blocks, 0, (size_t)tokens);
}
