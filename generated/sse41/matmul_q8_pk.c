/*
 * ml_k_matmul_q8_pk_sse41
 * y[token][r0..r1) = W x[token] for packed Q8_0 weights with f32 scales.
 *
 * Written by krafla-gen from templates/matmul_pk.c.j2 and isa_specs/sse41.py (facets: pack, tile); do not
 * edit.
 *
 * pmaddubsw wants one unsigned operand: |w| times x with w's sign (psignb) is w times x, and 127 * 127 * 2
 * stays below 32767. Q4 nibbles are unsigned already; the eight pair sums of a block (at most 30480) are
 * added in int16 before a single pmaddwd, and -8 * sum(x) makes the sum exact.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* 2 groups of 4 rows against 2 tokens of a tile of 4; sums stay in registers over all blocks. */
static void tile_2x2(float *y, size_t y_stride, const uint8_t *w, const float *wd, const int8_t *x,
                     const float *xd, const int32_t *xs, size_t blocks)
{
    const __m128i ones = _mm_set1_epi16(1);
    (void)xs; /* sums of signed products need no correction */
    const uint8_t *w_1 = w + blocks * 128;
    const float *wd_1 = wd + blocks * 4;
    __m128 sum0 = _mm_set1_ps(0.0f);
    __m128 sum1 = _mm_set1_ps(0.0f);
    __m128 sum2 = _mm_set1_ps(0.0f);
    __m128 sum3 = _mm_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 2) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        __m128i isum0 = _mm_setzero_si128();
        __m128i isum1 = _mm_setzero_si128();
        __m128i isum2 = _mm_setzero_si128();
        __m128i isum3 = _mm_setzero_si128();
#pragma GCC unroll 8
        for (int step = 0; step < 8; step++) {
            {
                const __m128i w0 = _mm_loadu_si128((const void *)(w + step * 16));
                const __m128i magnitude = _mm_abs_epi8(w0);
                isum0 = _mm_add_epi32(
                    isum0, _mm_madd_epi16(
                               _mm_maddubs_epi16(
                                   magnitude, _mm_sign_epi8(_mm_set1_epi32(ml_load_i32(x + step * 16)), w0)),
                               ones));
                isum1 = _mm_add_epi32(
                    isum1,
                    _mm_madd_epi16(
                        _mm_maddubs_epi16(magnitude,
                                          _mm_sign_epi8(_mm_set1_epi32(ml_load_i32(x + step * 16 + 4)), w0)),
                        ones));
            }
            {
                const __m128i w0 = _mm_loadu_si128((const void *)(w_1 + step * 16));
                const __m128i magnitude = _mm_abs_epi8(w0);
                isum2 = _mm_add_epi32(
                    isum2, _mm_madd_epi16(
                               _mm_maddubs_epi16(
                                   magnitude, _mm_sign_epi8(_mm_set1_epi32(ml_load_i32(x + step * 16)), w0)),
                               ones));
                isum3 = _mm_add_epi32(
                    isum3,
                    _mm_madd_epi16(
                        _mm_maddubs_epi16(magnitude,
                                          _mm_sign_epi8(_mm_set1_epi32(ml_load_i32(x + step * 16 + 4)), w0)),
                        ones));
            }
        }
        const __m128 w_scale = _mm_loadu_ps(wd);
        sum0 = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum0), _mm_mul_ps(w_scale, _mm_set1_ps(xd[0]))), sum0);
        sum1 = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum1), _mm_mul_ps(w_scale, _mm_set1_ps(xd[1]))), sum1);
        w += 128;
        wd += 4;
        const __m128 w_scale_1 = _mm_loadu_ps(wd_1);
        sum2 =
            _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum2), _mm_mul_ps(w_scale_1, _mm_set1_ps(xd[0]))), sum2);
        sum3 =
            _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum3), _mm_mul_ps(w_scale_1, _mm_set1_ps(xd[1]))), sum3);
        w_1 += 128;
        wd_1 += 4;
        x += 128;
        xd += 4;
    }
    _mm_storeu_ps(y, sum0);
    _mm_storeu_ps((y + y_stride), sum1);
    _mm_storeu_ps(y + 4, sum2);
    _mm_storeu_ps((y + y_stride) + 4, sum3);
}

/* One group of 4 rows against 4 tokens; sums stay in registers over all blocks. */
static void tile_4(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const __m128i ones = _mm_set1_epi16(1);
    (void)xs; /* sums of signed products need no correction */
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

        __m128i isum0 = _mm_setzero_si128();
        __m128i isum1 = _mm_setzero_si128();
        __m128i isum2 = _mm_setzero_si128();
        __m128i isum3 = _mm_setzero_si128();
#pragma GCC unroll 8
        for (int step = 0; step < 8; step++) {

            const __m128i w0 = _mm_loadu_si128((const void *)(w + step * 16));
            const __m128i magnitude = _mm_abs_epi8(w0);
            isum0 = _mm_add_epi32(
                isum0,
                _mm_madd_epi16(_mm_maddubs_epi16(
                                   magnitude, _mm_sign_epi8(_mm_set1_epi32(ml_load_i32(x + step * 16)), w0)),
                               ones));
            isum1 = _mm_add_epi32(
                isum1, _mm_madd_epi16(
                           _mm_maddubs_epi16(
                               magnitude, _mm_sign_epi8(_mm_set1_epi32(ml_load_i32(x + step * 16 + 4)), w0)),
                           ones));
            isum2 = _mm_add_epi32(
                isum2, _mm_madd_epi16(
                           _mm_maddubs_epi16(
                               magnitude, _mm_sign_epi8(_mm_set1_epi32(ml_load_i32(x + step * 16 + 8)), w0)),
                           ones));
            isum3 = _mm_add_epi32(
                isum3, _mm_madd_epi16(
                           _mm_maddubs_epi16(
                               magnitude, _mm_sign_epi8(_mm_set1_epi32(ml_load_i32(x + step * 16 + 12)), w0)),
                           ones));
        }
        const __m128 w_scale = _mm_loadu_ps(wd);
        sum0 = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum0), _mm_mul_ps(w_scale, _mm_set1_ps(xd[0]))), sum0);
        sum1 = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum1), _mm_mul_ps(w_scale, _mm_set1_ps(xd[1]))), sum1);
        sum2 = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum2), _mm_mul_ps(w_scale, _mm_set1_ps(xd[2]))), sum2);
        sum3 = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum3), _mm_mul_ps(w_scale, _mm_set1_ps(xd[3]))), sum3);
        w += 128;
        wd += 4;
        x += 128;
        xd += 4;
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
    const __m128i ones = _mm_set1_epi16(1);
    (void)xs; /* sums of signed products need no correction */
    __m128 sum0 = _mm_set1_ps(0.0f);
    __m128 sum1 = _mm_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 2) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        __m128i isum0 = _mm_setzero_si128();
        __m128i isum1 = _mm_setzero_si128();
#pragma GCC unroll 8
        for (int step = 0; step < 8; step++) {

            const __m128i w0 = _mm_loadu_si128((const void *)(w + step * 16));
            const __m128i magnitude = _mm_abs_epi8(w0);
            isum0 = _mm_add_epi32(
                isum0,
                _mm_madd_epi16(_mm_maddubs_epi16(
                                   magnitude, _mm_sign_epi8(_mm_set1_epi32(ml_load_i32(x + step * 8)), w0)),
                               ones));
            isum1 = _mm_add_epi32(
                isum1, _mm_madd_epi16(
                           _mm_maddubs_epi16(
                               magnitude, _mm_sign_epi8(_mm_set1_epi32(ml_load_i32(x + step * 8 + 4)), w0)),
                           ones));
        }
        const __m128 w_scale = _mm_loadu_ps(wd);
        sum0 = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum0), _mm_mul_ps(w_scale, _mm_set1_ps(xd[0]))), sum0);
        sum1 = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum1), _mm_mul_ps(w_scale, _mm_set1_ps(xd[1]))), sum1);
        w += 128;
        wd += 4;
        x += 64;
        xd += 2;
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
    const __m128i ones = _mm_set1_epi16(1);
    (void)xs; /* sums of signed products need no correction */
    __m128 sum0 = _mm_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        __m128i isum0 = _mm_setzero_si128();
#pragma GCC unroll 8
        for (int step = 0; step < 8; step++) {

            const __m128i w0 = _mm_loadu_si128((const void *)(w + step * 16));
            const __m128i magnitude = _mm_abs_epi8(w0);
            isum0 = _mm_add_epi32(
                isum0,
                _mm_madd_epi16(_mm_maddubs_epi16(
                                   magnitude, _mm_sign_epi8(_mm_set1_epi32(ml_load_i32(x + step * 4)), w0)),
                               ones));
        }
        const __m128 w_scale = _mm_loadu_ps(wd);
        sum0 = _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(isum0), _mm_mul_ps(w_scale, _mm_set1_ps(xd[0]))), sum0);
        w += 128;
        wd += 4;
        x += 32;
        xd += 1;
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
        tile_4(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 32, xd + t * blocks,
               xs + t * blocks * 2, blocks);
    for (; t + 2 <= tokens; t += 2)
        tile_2(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 32, xd + t * blocks,
               xs + t * blocks * 2, blocks);
    for (; t + 1 <= tokens; t += 1)
        tile_1(y + t * y_stride, rows, w, wd, xt + t * blocks * 32, xd + t * blocks, xs + t * blocks * 2,
               blocks);
}

void ml_k_matmul_q8_pk_sse41(float *y, size_t y_stride, const uint8_t *wq, const float *wd, const int8_t *xt,
                             const float *xd, const int32_t *xs, int cols, int tokens, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    int r = r0;
    for (; r + 8 <= r1; r += 8) {
        const size_t offset = (size_t)r * blocks;
        size_t t = 0;
        for (; t + 4 <= (size_t)tokens; t += 4) {
            for (size_t part = 0; part < 4; part += 2)
                tile_2x2(y + (t + part) * y_stride + r, y_stride, wq + offset * 32, wd + offset,
                         xt + t * blocks * 32 + part * 4, xd + t * blocks + part, xs + t * blocks * 2 + part,
                         blocks);
        }
        for (int group = r; group < r + 8; group += 4)
            row_group(y + group, y_stride, 4, wq + (size_t)group * blocks * 32, wd + (size_t)group * blocks,
                      xt, xd, xs, blocks, t, (size_t)tokens);
    }
    for (; r < r1; r += 4)
        row_group(y + r, y_stride, r1 - r, wq + (size_t)r * blocks * 32, wd + (size_t)r * blocks, xt, xd, xs,
                  blocks, 0, (size_t)tokens);
}
