/*
 * ml_k_matmul_q4_pk_avx2
 * y[token][r0..r1) = W x[token] for packed Q4_0 weights with f32 scales.
 *
 * Written by krafla-gen from templates/matmul_pk.c.j2 and isa_specs/avx2.py (facets: pack, tile); do not
 * edit.
 *
 * pmaddubsw wants one unsigned operand: |w| times x with w's sign (psignb) is w times x, and 127 * 127 * 2
 * stays below 32767. Q4 nibbles are unsigned already; the eight pair sums of a block (at most 30480) are
 * added in int16 before a single pmaddwd, and -8 * sum(x) makes the sum exact.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* One group of 8 rows against 8 tokens; sums stay in registers over all blocks. */
static void tile_8(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i low_nibbles = _mm256_set1_epi8(0x0f);
    __m256 sum0 = _mm256_set1_ps(0.0f);
    __m256 sum1 = _mm256_set1_ps(0.0f);
    __m256 sum2 = _mm256_set1_ps(0.0f);
    __m256 sum3 = _mm256_set1_ps(0.0f);
    __m256 sum4 = _mm256_set1_ps(0.0f);
    __m256 sum5 = _mm256_set1_ps(0.0f);
    __m256 sum6 = _mm256_set1_ps(0.0f);
    __m256 sum7 = _mm256_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 8) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        __m256i isum0 = _mm256_setzero_si256();
        __m256i isum1 = _mm256_setzero_si256();
        __m256i isum2 = _mm256_setzero_si256();
        __m256i isum3 = _mm256_setzero_si256();
        __m256i isum4 = _mm256_setzero_si256();
        __m256i isum5 = _mm256_setzero_si256();
        __m256i isum6 = _mm256_setzero_si256();
        __m256i isum7 = _mm256_setzero_si256();
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const __m256i packed = _mm256_loadu_si256((const void *)(w + step * 32));
            const __m256i w0 = _mm256_and_si256(packed, low_nibbles); /* elements 0 to 15 of the block */
            const __m256i w1 = _mm256_and_si256(_mm256_srli_epi16(packed, 4), low_nibbles); /* 16 to 31 */
            isum0 = _mm256_add_epi16(isum0,
                                     _mm256_maddubs_epi16(w0, _mm256_set1_epi32(ml_load_i32(x + step * 32))));
            isum1 = _mm256_add_epi16(
                isum1, _mm256_maddubs_epi16(w0, _mm256_set1_epi32(ml_load_i32(x + step * 32 + 4))));
            isum2 = _mm256_add_epi16(
                isum2, _mm256_maddubs_epi16(w0, _mm256_set1_epi32(ml_load_i32(x + step * 32 + 8))));
            isum3 = _mm256_add_epi16(
                isum3, _mm256_maddubs_epi16(w0, _mm256_set1_epi32(ml_load_i32(x + step * 32 + 12))));
            isum4 = _mm256_add_epi16(
                isum4, _mm256_maddubs_epi16(w0, _mm256_set1_epi32(ml_load_i32(x + step * 32 + 16))));
            isum5 = _mm256_add_epi16(
                isum5, _mm256_maddubs_epi16(w0, _mm256_set1_epi32(ml_load_i32(x + step * 32 + 20))));
            isum6 = _mm256_add_epi16(
                isum6, _mm256_maddubs_epi16(w0, _mm256_set1_epi32(ml_load_i32(x + step * 32 + 24))));
            isum7 = _mm256_add_epi16(
                isum7, _mm256_maddubs_epi16(w0, _mm256_set1_epi32(ml_load_i32(x + step * 32 + 28))));
            isum0 = _mm256_add_epi16(
                isum0, _mm256_maddubs_epi16(w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 32))));
            isum1 = _mm256_add_epi16(
                isum1, _mm256_maddubs_epi16(w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 32 + 4))));
            isum2 = _mm256_add_epi16(
                isum2, _mm256_maddubs_epi16(w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 32 + 8))));
            isum3 = _mm256_add_epi16(
                isum3, _mm256_maddubs_epi16(w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 32 + 12))));
            isum4 = _mm256_add_epi16(
                isum4, _mm256_maddubs_epi16(w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 32 + 16))));
            isum5 = _mm256_add_epi16(
                isum5, _mm256_maddubs_epi16(w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 32 + 20))));
            isum6 = _mm256_add_epi16(
                isum6, _mm256_maddubs_epi16(w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 32 + 24))));
            isum7 = _mm256_add_epi16(
                isum7, _mm256_maddubs_epi16(w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 32 + 28))));
        }
        const __m256 w_scale = _mm256_loadu_ps(wd);
        sum0 = _mm256_fmadd_ps(
            _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(isum0, ones), _mm256_set1_epi32(xs[8]))),
            _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[0])), sum0);
        sum1 = _mm256_fmadd_ps(
            _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(isum1, ones), _mm256_set1_epi32(xs[9]))),
            _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[1])), sum1);
        sum2 = _mm256_fmadd_ps(
            _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(isum2, ones), _mm256_set1_epi32(xs[10]))),
            _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[2])), sum2);
        sum3 = _mm256_fmadd_ps(
            _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(isum3, ones), _mm256_set1_epi32(xs[11]))),
            _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[3])), sum3);
        sum4 = _mm256_fmadd_ps(
            _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(isum4, ones), _mm256_set1_epi32(xs[12]))),
            _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[4])), sum4);
        sum5 = _mm256_fmadd_ps(
            _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(isum5, ones), _mm256_set1_epi32(xs[13]))),
            _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[5])), sum5);
        sum6 = _mm256_fmadd_ps(
            _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(isum6, ones), _mm256_set1_epi32(xs[14]))),
            _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[6])), sum6);
        sum7 = _mm256_fmadd_ps(
            _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(isum7, ones), _mm256_set1_epi32(xs[15]))),
            _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[7])), sum7);
        w += 128;
        wd += 8;
        x += 256;
        xd += 8;
        xs += 16;
    }
    if (rows >= 8) {
        _mm256_storeu_ps(y, sum0);
        _mm256_storeu_ps((y + y_stride), sum1);
        _mm256_storeu_ps((y + 2 * y_stride), sum2);
        _mm256_storeu_ps((y + 3 * y_stride), sum3);
        _mm256_storeu_ps((y + 4 * y_stride), sum4);
        _mm256_storeu_ps((y + 5 * y_stride), sum5);
        _mm256_storeu_ps((y + 6 * y_stride), sum6);
        _mm256_storeu_ps((y + 7 * y_stride), sum7);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[8];
    _mm256_storeu_ps(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
    _mm256_storeu_ps(out, sum1);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
    _mm256_storeu_ps(out, sum2);
    memcpy(y + 2 * y_stride, out, (size_t)rows * sizeof(float));
    _mm256_storeu_ps(out, sum3);
    memcpy(y + 3 * y_stride, out, (size_t)rows * sizeof(float));
    _mm256_storeu_ps(out, sum4);
    memcpy(y + 4 * y_stride, out, (size_t)rows * sizeof(float));
    _mm256_storeu_ps(out, sum5);
    memcpy(y + 5 * y_stride, out, (size_t)rows * sizeof(float));
    _mm256_storeu_ps(out, sum6);
    memcpy(y + 6 * y_stride, out, (size_t)rows * sizeof(float));
    _mm256_storeu_ps(out, sum7);
    memcpy(y + 7 * y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 8 rows against 4 tokens; sums stay in registers over all blocks. */
static void tile_4(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i low_nibbles = _mm256_set1_epi8(0x0f);
    __m256 sum0 = _mm256_set1_ps(0.0f);
    __m256 sum1 = _mm256_set1_ps(0.0f);
    __m256 sum2 = _mm256_set1_ps(0.0f);
    __m256 sum3 = _mm256_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 4) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        __m256i isum0 = _mm256_setzero_si256();
        __m256i isum1 = _mm256_setzero_si256();
        __m256i isum2 = _mm256_setzero_si256();
        __m256i isum3 = _mm256_setzero_si256();
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const __m256i packed = _mm256_loadu_si256((const void *)(w + step * 32));
            const __m256i w0 = _mm256_and_si256(packed, low_nibbles); /* elements 0 to 15 of the block */
            const __m256i w1 = _mm256_and_si256(_mm256_srli_epi16(packed, 4), low_nibbles); /* 16 to 31 */
            isum0 = _mm256_add_epi16(isum0,
                                     _mm256_maddubs_epi16(w0, _mm256_set1_epi32(ml_load_i32(x + step * 16))));
            isum1 = _mm256_add_epi16(
                isum1, _mm256_maddubs_epi16(w0, _mm256_set1_epi32(ml_load_i32(x + step * 16 + 4))));
            isum2 = _mm256_add_epi16(
                isum2, _mm256_maddubs_epi16(w0, _mm256_set1_epi32(ml_load_i32(x + step * 16 + 8))));
            isum3 = _mm256_add_epi16(
                isum3, _mm256_maddubs_epi16(w0, _mm256_set1_epi32(ml_load_i32(x + step * 16 + 12))));
            isum0 = _mm256_add_epi16(
                isum0, _mm256_maddubs_epi16(w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 16))));
            isum1 = _mm256_add_epi16(
                isum1, _mm256_maddubs_epi16(w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 16 + 4))));
            isum2 = _mm256_add_epi16(
                isum2, _mm256_maddubs_epi16(w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 16 + 8))));
            isum3 = _mm256_add_epi16(
                isum3, _mm256_maddubs_epi16(w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 16 + 12))));
        }
        const __m256 w_scale = _mm256_loadu_ps(wd);
        sum0 = _mm256_fmadd_ps(
            _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(isum0, ones), _mm256_set1_epi32(xs[4]))),
            _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[0])), sum0);
        sum1 = _mm256_fmadd_ps(
            _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(isum1, ones), _mm256_set1_epi32(xs[5]))),
            _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[1])), sum1);
        sum2 = _mm256_fmadd_ps(
            _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(isum2, ones), _mm256_set1_epi32(xs[6]))),
            _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[2])), sum2);
        sum3 = _mm256_fmadd_ps(
            _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(isum3, ones), _mm256_set1_epi32(xs[7]))),
            _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[3])), sum3);
        w += 128;
        wd += 8;
        x += 128;
        xd += 4;
        xs += 8;
    }
    if (rows >= 8) {
        _mm256_storeu_ps(y, sum0);
        _mm256_storeu_ps((y + y_stride), sum1);
        _mm256_storeu_ps((y + 2 * y_stride), sum2);
        _mm256_storeu_ps((y + 3 * y_stride), sum3);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[8];
    _mm256_storeu_ps(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
    _mm256_storeu_ps(out, sum1);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
    _mm256_storeu_ps(out, sum2);
    memcpy(y + 2 * y_stride, out, (size_t)rows * sizeof(float));
    _mm256_storeu_ps(out, sum3);
    memcpy(y + 3 * y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 8 rows against 2 tokens; sums stay in registers over all blocks. */
static void tile_2(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i low_nibbles = _mm256_set1_epi8(0x0f);
    __m256 sum0 = _mm256_set1_ps(0.0f);
    __m256 sum1 = _mm256_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 2) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        __m256i isum0 = _mm256_setzero_si256();
        __m256i isum1 = _mm256_setzero_si256();
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const __m256i packed = _mm256_loadu_si256((const void *)(w + step * 32));
            const __m256i w0 = _mm256_and_si256(packed, low_nibbles); /* elements 0 to 15 of the block */
            const __m256i w1 = _mm256_and_si256(_mm256_srli_epi16(packed, 4), low_nibbles); /* 16 to 31 */
            isum0 = _mm256_add_epi16(isum0,
                                     _mm256_maddubs_epi16(w0, _mm256_set1_epi32(ml_load_i32(x + step * 8))));
            isum1 = _mm256_add_epi16(
                isum1, _mm256_maddubs_epi16(w0, _mm256_set1_epi32(ml_load_i32(x + step * 8 + 4))));
            isum0 = _mm256_add_epi16(
                isum0, _mm256_maddubs_epi16(w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 8))));
            isum1 = _mm256_add_epi16(
                isum1, _mm256_maddubs_epi16(w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 8 + 4))));
        }
        const __m256 w_scale = _mm256_loadu_ps(wd);
        sum0 = _mm256_fmadd_ps(
            _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(isum0, ones), _mm256_set1_epi32(xs[2]))),
            _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[0])), sum0);
        sum1 = _mm256_fmadd_ps(
            _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(isum1, ones), _mm256_set1_epi32(xs[3]))),
            _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[1])), sum1);
        w += 128;
        wd += 8;
        x += 64;
        xd += 2;
        xs += 4;
    }
    if (rows >= 8) {
        _mm256_storeu_ps(y, sum0);
        _mm256_storeu_ps((y + y_stride), sum1);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[8];
    _mm256_storeu_ps(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
    _mm256_storeu_ps(out, sum1);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 8 rows against 1 token; sums stay in registers over all blocks. */
static void tile_1(float *y, int rows, const uint8_t *w, const float *wd, const int8_t *x, const float *xd,
                   const int32_t *xs, size_t blocks)
{
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i low_nibbles = _mm256_set1_epi8(0x0f);
    __m256 sum0 = _mm256_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        __m256i isum0 = _mm256_setzero_si256();
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const __m256i packed = _mm256_loadu_si256((const void *)(w + step * 32));
            const __m256i w0 = _mm256_and_si256(packed, low_nibbles); /* elements 0 to 15 of the block */
            const __m256i w1 = _mm256_and_si256(_mm256_srli_epi16(packed, 4), low_nibbles); /* 16 to 31 */
            isum0 = _mm256_add_epi16(isum0,
                                     _mm256_maddubs_epi16(w0, _mm256_set1_epi32(ml_load_i32(x + step * 4))));
            isum0 = _mm256_add_epi16(
                isum0, _mm256_maddubs_epi16(w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 4))));
        }
        const __m256 w_scale = _mm256_loadu_ps(wd);
        sum0 = _mm256_fmadd_ps(
            _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(isum0, ones), _mm256_set1_epi32(xs[1]))),
            _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[0])), sum0);
        w += 128;
        wd += 8;
        x += 32;
        xd += 1;
        xs += 2;
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

/* One row group against the tokens from `t` on; its weights stay in cache across the token tiles. */
static void row_group(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd,
                      const int8_t *xt, const float *xd, const int32_t *xs, size_t blocks, size_t t,
                      size_t tokens)
{
    for (; t + 8 <= tokens; t += 8)
        tile_8(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 32, xd + t * blocks,
               xs + t * blocks * 2, blocks);
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

void ml_k_matmul_q4_pk_avx2(float *y, size_t y_stride, const uint8_t *wq, const float *wd, const int8_t *xt,
                            const float *xd, const int32_t *xs, int cols, int tokens, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 8)
        row_group(y + r, y_stride, r1 - r, wq + (size_t)r * blocks * 16, wd + (size_t)r * blocks, xt, xd, xs,
                  blocks, 0, (size_t)tokens);
}
