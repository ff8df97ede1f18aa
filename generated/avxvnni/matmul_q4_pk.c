/*
 * ml_k_matmul_q4_pk_avxvnni
 * y[token][r0..r1) = W x[token] for packed Q4_0 weights with f32 scales.
 *
 * Written by krafla-gen from templates/matmul_pk.c.j2 and isa_specs/avxvnni.py (facets: pack, tile); do not
 * edit.
 *
 * vpdpbusd wants unsigned weights: Q8 weights are stored with +128 and Q4 nibbles raw (weight + 8). Each
 * block starts from -128 * sum(x) or -8 * sum(x), so its int32 sum is exact.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* 2 groups of 8 rows against 3 tokens of a tile of 6; sums stay in registers over all blocks. */
static void tile_2x3(float *y, size_t y_stride, const uint8_t *w, const float *wd, const int8_t *x,
                     const float *xd, const int32_t *xs, size_t blocks)
{
    const __m256i low_nibbles = _mm256_set1_epi8(0x0f);
    const uint8_t *w_1 = w + blocks * 128;
    const float *wd_1 = wd + blocks * 8;
    __m256 sum0 = _mm256_set1_ps(0.0f);
    __m256 sum1 = _mm256_set1_ps(0.0f);
    __m256 sum2 = _mm256_set1_ps(0.0f);
    __m256 sum3 = _mm256_set1_ps(0.0f);
    __m256 sum4 = _mm256_set1_ps(0.0f);
    __m256 sum5 = _mm256_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 3) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        __m256i isum0 = _mm256_set1_epi32(xs[6]);
        __m256i isum1 = _mm256_set1_epi32(xs[7]);
        __m256i isum2 = _mm256_set1_epi32(xs[8]);
        __m256i isum3 = _mm256_set1_epi32(xs[6]);
        __m256i isum4 = _mm256_set1_epi32(xs[7]);
        __m256i isum5 = _mm256_set1_epi32(xs[8]);
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {
            {
                const __m256i packed = _mm256_loadu_si256((const void *)(w + step * 32));
                const __m256i w0 = _mm256_and_si256(packed, low_nibbles); /* elements 0 to 15 of the block */
                const __m256i w1 = _mm256_and_si256(_mm256_srli_epi16(packed, 4), low_nibbles); /* 16 to 31 */
                isum0 = _mm256_dpbusd_avx_epi32(isum0, w0, _mm256_set1_epi32(ml_load_i32(x + step * 24)));
                isum1 = _mm256_dpbusd_avx_epi32(isum1, w0, _mm256_set1_epi32(ml_load_i32(x + step * 24 + 4)));
                isum2 = _mm256_dpbusd_avx_epi32(isum2, w0, _mm256_set1_epi32(ml_load_i32(x + step * 24 + 8)));
                isum0 =
                    _mm256_dpbusd_avx_epi32(isum0, w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 24)));
                isum1 = _mm256_dpbusd_avx_epi32(isum1, w1,
                                                _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 24 + 4)));
                isum2 = _mm256_dpbusd_avx_epi32(isum2, w1,
                                                _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 24 + 8)));
            }
            {
                const __m256i packed = _mm256_loadu_si256((const void *)(w_1 + step * 32));
                const __m256i w0 = _mm256_and_si256(packed, low_nibbles); /* elements 0 to 15 of the block */
                const __m256i w1 = _mm256_and_si256(_mm256_srli_epi16(packed, 4), low_nibbles); /* 16 to 31 */
                isum3 = _mm256_dpbusd_avx_epi32(isum3, w0, _mm256_set1_epi32(ml_load_i32(x + step * 24)));
                isum4 = _mm256_dpbusd_avx_epi32(isum4, w0, _mm256_set1_epi32(ml_load_i32(x + step * 24 + 4)));
                isum5 = _mm256_dpbusd_avx_epi32(isum5, w0, _mm256_set1_epi32(ml_load_i32(x + step * 24 + 8)));
                isum3 =
                    _mm256_dpbusd_avx_epi32(isum3, w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 24)));
                isum4 = _mm256_dpbusd_avx_epi32(isum4, w1,
                                                _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 24 + 4)));
                isum5 = _mm256_dpbusd_avx_epi32(isum5, w1,
                                                _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 24 + 8)));
            }
        }
        const __m256 w_scale = _mm256_loadu_ps(wd);
        sum0 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum0), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[0])), sum0);
        sum1 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum1), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[1])), sum1);
        sum2 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum2), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[2])), sum2);
        w += 128;
        wd += 8;
        const __m256 w_scale_1 = _mm256_loadu_ps(wd_1);
        sum3 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum3), _mm256_mul_ps(w_scale_1, _mm256_set1_ps(xd[0])), sum3);
        sum4 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum4), _mm256_mul_ps(w_scale_1, _mm256_set1_ps(xd[1])), sum4);
        sum5 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum5), _mm256_mul_ps(w_scale_1, _mm256_set1_ps(xd[2])), sum5);
        w_1 += 128;
        wd_1 += 8;
        x += 192;
        xd += 6;
        xs += 12;
    }
    _mm256_storeu_ps(y, sum0);
    _mm256_storeu_ps((y + y_stride), sum1);
    _mm256_storeu_ps((y + 2 * y_stride), sum2);
    _mm256_storeu_ps(y + 8, sum3);
    _mm256_storeu_ps((y + y_stride) + 8, sum4);
    _mm256_storeu_ps((y + 2 * y_stride) + 8, sum5);
}

/* One group of 8 rows against 6 tokens; sums stay in registers over all blocks. */
static void tile_6(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const __m256i low_nibbles = _mm256_set1_epi8(0x0f);
    __m256 sum0 = _mm256_set1_ps(0.0f);
    __m256 sum1 = _mm256_set1_ps(0.0f);
    __m256 sum2 = _mm256_set1_ps(0.0f);
    __m256 sum3 = _mm256_set1_ps(0.0f);
    __m256 sum4 = _mm256_set1_ps(0.0f);
    __m256 sum5 = _mm256_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 6) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        __m256i isum0 = _mm256_set1_epi32(xs[6]);
        __m256i isum1 = _mm256_set1_epi32(xs[7]);
        __m256i isum2 = _mm256_set1_epi32(xs[8]);
        __m256i isum3 = _mm256_set1_epi32(xs[9]);
        __m256i isum4 = _mm256_set1_epi32(xs[10]);
        __m256i isum5 = _mm256_set1_epi32(xs[11]);
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const __m256i packed = _mm256_loadu_si256((const void *)(w + step * 32));
            const __m256i w0 = _mm256_and_si256(packed, low_nibbles); /* elements 0 to 15 of the block */
            const __m256i w1 = _mm256_and_si256(_mm256_srli_epi16(packed, 4), low_nibbles); /* 16 to 31 */
            isum0 = _mm256_dpbusd_avx_epi32(isum0, w0, _mm256_set1_epi32(ml_load_i32(x + step * 24)));
            isum1 = _mm256_dpbusd_avx_epi32(isum1, w0, _mm256_set1_epi32(ml_load_i32(x + step * 24 + 4)));
            isum2 = _mm256_dpbusd_avx_epi32(isum2, w0, _mm256_set1_epi32(ml_load_i32(x + step * 24 + 8)));
            isum3 = _mm256_dpbusd_avx_epi32(isum3, w0, _mm256_set1_epi32(ml_load_i32(x + step * 24 + 12)));
            isum4 = _mm256_dpbusd_avx_epi32(isum4, w0, _mm256_set1_epi32(ml_load_i32(x + step * 24 + 16)));
            isum5 = _mm256_dpbusd_avx_epi32(isum5, w0, _mm256_set1_epi32(ml_load_i32(x + step * 24 + 20)));
            isum0 = _mm256_dpbusd_avx_epi32(isum0, w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 24)));
            isum1 =
                _mm256_dpbusd_avx_epi32(isum1, w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 24 + 4)));
            isum2 =
                _mm256_dpbusd_avx_epi32(isum2, w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 24 + 8)));
            isum3 =
                _mm256_dpbusd_avx_epi32(isum3, w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 24 + 12)));
            isum4 =
                _mm256_dpbusd_avx_epi32(isum4, w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 24 + 16)));
            isum5 =
                _mm256_dpbusd_avx_epi32(isum5, w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 24 + 20)));
        }
        const __m256 w_scale = _mm256_loadu_ps(wd);
        sum0 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum0), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[0])), sum0);
        sum1 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum1), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[1])), sum1);
        sum2 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum2), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[2])), sum2);
        sum3 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum3), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[3])), sum3);
        sum4 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum4), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[4])), sum4);
        sum5 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum5), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[5])), sum5);
        w += 128;
        wd += 8;
        x += 192;
        xd += 6;
        xs += 12;
    }
    if (rows >= 8) {
        _mm256_storeu_ps(y, sum0);
        _mm256_storeu_ps((y + y_stride), sum1);
        _mm256_storeu_ps((y + 2 * y_stride), sum2);
        _mm256_storeu_ps((y + 3 * y_stride), sum3);
        _mm256_storeu_ps((y + 4 * y_stride), sum4);
        _mm256_storeu_ps((y + 5 * y_stride), sum5);
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
}

/* One group of 8 rows against 4 tokens; sums stay in registers over all blocks. */
static void tile_4(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
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

        __m256i isum0 = _mm256_set1_epi32(xs[4]);
        __m256i isum1 = _mm256_set1_epi32(xs[5]);
        __m256i isum2 = _mm256_set1_epi32(xs[6]);
        __m256i isum3 = _mm256_set1_epi32(xs[7]);
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const __m256i packed = _mm256_loadu_si256((const void *)(w + step * 32));
            const __m256i w0 = _mm256_and_si256(packed, low_nibbles); /* elements 0 to 15 of the block */
            const __m256i w1 = _mm256_and_si256(_mm256_srli_epi16(packed, 4), low_nibbles); /* 16 to 31 */
            isum0 = _mm256_dpbusd_avx_epi32(isum0, w0, _mm256_set1_epi32(ml_load_i32(x + step * 16)));
            isum1 = _mm256_dpbusd_avx_epi32(isum1, w0, _mm256_set1_epi32(ml_load_i32(x + step * 16 + 4)));
            isum2 = _mm256_dpbusd_avx_epi32(isum2, w0, _mm256_set1_epi32(ml_load_i32(x + step * 16 + 8)));
            isum3 = _mm256_dpbusd_avx_epi32(isum3, w0, _mm256_set1_epi32(ml_load_i32(x + step * 16 + 12)));
            isum0 = _mm256_dpbusd_avx_epi32(isum0, w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 16)));
            isum1 =
                _mm256_dpbusd_avx_epi32(isum1, w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 16 + 4)));
            isum2 =
                _mm256_dpbusd_avx_epi32(isum2, w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 16 + 8)));
            isum3 =
                _mm256_dpbusd_avx_epi32(isum3, w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 16 + 12)));
        }
        const __m256 w_scale = _mm256_loadu_ps(wd);
        sum0 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum0), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[0])), sum0);
        sum1 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum1), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[1])), sum1);
        sum2 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum2), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[2])), sum2);
        sum3 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum3), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[3])), sum3);
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
    const __m256i low_nibbles = _mm256_set1_epi8(0x0f);
    __m256 sum0 = _mm256_set1_ps(0.0f);
    __m256 sum1 = _mm256_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 2) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        __m256i isum0 = _mm256_set1_epi32(xs[2]);
        __m256i isum1 = _mm256_set1_epi32(xs[3]);
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const __m256i packed = _mm256_loadu_si256((const void *)(w + step * 32));
            const __m256i w0 = _mm256_and_si256(packed, low_nibbles); /* elements 0 to 15 of the block */
            const __m256i w1 = _mm256_and_si256(_mm256_srli_epi16(packed, 4), low_nibbles); /* 16 to 31 */
            isum0 = _mm256_dpbusd_avx_epi32(isum0, w0, _mm256_set1_epi32(ml_load_i32(x + step * 8)));
            isum1 = _mm256_dpbusd_avx_epi32(isum1, w0, _mm256_set1_epi32(ml_load_i32(x + step * 8 + 4)));
            isum0 = _mm256_dpbusd_avx_epi32(isum0, w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 8)));
            isum1 =
                _mm256_dpbusd_avx_epi32(isum1, w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 8 + 4)));
        }
        const __m256 w_scale = _mm256_loadu_ps(wd);
        sum0 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum0), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[0])), sum0);
        sum1 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum1), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[1])), sum1);
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
    const __m256i low_nibbles = _mm256_set1_epi8(0x0f);
    __m256 sum0 = _mm256_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
        __m256i isum0 = _mm256_set1_epi32(xs[1]);
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const __m256i packed = _mm256_loadu_si256((const void *)(w + step * 32));
            const __m256i w0 = _mm256_and_si256(packed, low_nibbles); /* elements 0 to 15 of the block */
            const __m256i w1 = _mm256_and_si256(_mm256_srli_epi16(packed, 4), low_nibbles); /* 16 to 31 */
            isum0 = _mm256_dpbusd_avx_epi32(isum0, w0, _mm256_set1_epi32(ml_load_i32(x + step * 4)));
            isum0 = _mm256_dpbusd_avx_epi32(isum0, w1, _mm256_set1_epi32(ml_load_i32(x + (step + 4) * 4)));
        }
        const __m256 w_scale = _mm256_loadu_ps(wd);
        sum0 =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(isum0), _mm256_mul_ps(w_scale, _mm256_set1_ps(xd[0])), sum0);
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
    for (; t + 6 <= tokens; t += 6)
        tile_6(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 32, xd + t * blocks,
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

void ml_k_matmul_q4_pk_avxvnni(float *y, size_t y_stride, const uint8_t *wq, const float *wd,
                               const int8_t *xt, const float *xd, const int32_t *xs, int cols, int tokens,
                               int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    int r = r0;
    for (; r + 16 <= r1; r += 16) {
        const size_t offset = (size_t)r * blocks;
        size_t t = 0;
        for (; t + 6 <= (size_t)tokens; t += 6) {
            for (size_t part = 0; part < 6; part += 3)
                tile_2x3(y + (t + part) * y_stride + r, y_stride, wq + offset * 16, wd + offset,
                         xt + t * blocks * 32 + part * 4, xd + t * blocks + part, xs + t * blocks * 2 + part,
                         blocks);
        }
        for (int group = r; group < r + 16; group += 8)
            row_group(y + group, y_stride, 8, wq + (size_t)group * blocks * 16, wd + (size_t)group * blocks,
                      xt, xd, xs, blocks, t, (size_t)tokens);
    }
    for (; r < r1; r += 8)
        row_group(y + r, y_stride, r1 - r, wq + (size_t)r * blocks * 16, wd + (size_t)r * blocks, xt, xd, xs,
                  blocks, 0, (size_t)tokens);
}
