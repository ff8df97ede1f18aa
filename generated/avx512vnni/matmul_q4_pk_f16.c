/*
 * ml_k_matmul_q4_pk_f16_avx512vnni
 * y[token][r0..r1) = W x[token] for packed Q4_0 weights with f16 scales.
 *
 * Written by krafla-gen from templates/matmul_pk.c.j2 and isa_specs/avx512vnni.py (facets: pack, tile); do
 * not edit.
 *
 * vpdpbusd wants unsigned weights: Q8 weights are stored with +128 and Q4 nibbles raw (weight + 8). Each
 * block starts from -128 * sum(x) or -8 * sum(x), so its int32 sum is exact.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* One group of 16 rows against 12 tokens; sums stay in registers over all blocks. */
static void tile_12(float *y, size_t y_stride, int rows, const uint8_t *w, const uint16_t *wd,
                    const int8_t *x, const float *xd, const int32_t *xs, size_t blocks)
{
    const __m512i low_nibbles = _mm512_set1_epi8(0x0f);
    __m512 sum0 = _mm512_set1_ps(0.0f);
    __m512 sum1 = _mm512_set1_ps(0.0f);
    __m512 sum2 = _mm512_set1_ps(0.0f);
    __m512 sum3 = _mm512_set1_ps(0.0f);
    __m512 sum4 = _mm512_set1_ps(0.0f);
    __m512 sum5 = _mm512_set1_ps(0.0f);
    __m512 sum6 = _mm512_set1_ps(0.0f);
    __m512 sum7 = _mm512_set1_ps(0.0f);
    __m512 sum8 = _mm512_set1_ps(0.0f);
    __m512 sum9 = _mm512_set1_ps(0.0f);
    __m512 sum10 = _mm512_set1_ps(0.0f);
    __m512 sum11 = _mm512_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 12) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        __m512i isum0 = _mm512_set1_epi32(xs[12]);
        __m512i isum1 = _mm512_set1_epi32(xs[13]);
        __m512i isum2 = _mm512_set1_epi32(xs[14]);
        __m512i isum3 = _mm512_set1_epi32(xs[15]);
        __m512i isum4 = _mm512_set1_epi32(xs[16]);
        __m512i isum5 = _mm512_set1_epi32(xs[17]);
        __m512i isum6 = _mm512_set1_epi32(xs[18]);
        __m512i isum7 = _mm512_set1_epi32(xs[19]);
        __m512i isum8 = _mm512_set1_epi32(xs[20]);
        __m512i isum9 = _mm512_set1_epi32(xs[21]);
        __m512i isum10 = _mm512_set1_epi32(xs[22]);
        __m512i isum11 = _mm512_set1_epi32(xs[23]);
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const __m512i packed = _mm512_loadu_si512((const void *)(w + step * 64));
            const __m512i w0 = _mm512_and_si512(packed, low_nibbles); /* elements 0 to 15 of the block */
            const __m512i w1 = _mm512_and_si512(_mm512_srli_epi16(packed, 4), low_nibbles); /* 16 to 31 */
            isum0 = _mm512_dpbusd_epi32(isum0, w0, _mm512_set1_epi32(ml_load_i32(x + step * 48)));
            isum1 = _mm512_dpbusd_epi32(isum1, w0, _mm512_set1_epi32(ml_load_i32(x + step * 48 + 4)));
            isum2 = _mm512_dpbusd_epi32(isum2, w0, _mm512_set1_epi32(ml_load_i32(x + step * 48 + 8)));
            isum3 = _mm512_dpbusd_epi32(isum3, w0, _mm512_set1_epi32(ml_load_i32(x + step * 48 + 12)));
            isum4 = _mm512_dpbusd_epi32(isum4, w0, _mm512_set1_epi32(ml_load_i32(x + step * 48 + 16)));
            isum5 = _mm512_dpbusd_epi32(isum5, w0, _mm512_set1_epi32(ml_load_i32(x + step * 48 + 20)));
            isum6 = _mm512_dpbusd_epi32(isum6, w0, _mm512_set1_epi32(ml_load_i32(x + step * 48 + 24)));
            isum7 = _mm512_dpbusd_epi32(isum7, w0, _mm512_set1_epi32(ml_load_i32(x + step * 48 + 28)));
            isum8 = _mm512_dpbusd_epi32(isum8, w0, _mm512_set1_epi32(ml_load_i32(x + step * 48 + 32)));
            isum9 = _mm512_dpbusd_epi32(isum9, w0, _mm512_set1_epi32(ml_load_i32(x + step * 48 + 36)));
            isum10 = _mm512_dpbusd_epi32(isum10, w0, _mm512_set1_epi32(ml_load_i32(x + step * 48 + 40)));
            isum11 = _mm512_dpbusd_epi32(isum11, w0, _mm512_set1_epi32(ml_load_i32(x + step * 48 + 44)));
            isum0 = _mm512_dpbusd_epi32(isum0, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 48)));
            isum1 = _mm512_dpbusd_epi32(isum1, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 48 + 4)));
            isum2 = _mm512_dpbusd_epi32(isum2, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 48 + 8)));
            isum3 = _mm512_dpbusd_epi32(isum3, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 48 + 12)));
            isum4 = _mm512_dpbusd_epi32(isum4, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 48 + 16)));
            isum5 = _mm512_dpbusd_epi32(isum5, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 48 + 20)));
            isum6 = _mm512_dpbusd_epi32(isum6, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 48 + 24)));
            isum7 = _mm512_dpbusd_epi32(isum7, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 48 + 28)));
            isum8 = _mm512_dpbusd_epi32(isum8, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 48 + 32)));
            isum9 = _mm512_dpbusd_epi32(isum9, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 48 + 36)));
            isum10 =
                _mm512_dpbusd_epi32(isum10, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 48 + 40)));
            isum11 =
                _mm512_dpbusd_epi32(isum11, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 48 + 44)));
        }
        const __m512 w_scale = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(wd)));
        sum0 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum0), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[0])), sum0);
        sum1 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum1), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[1])), sum1);
        sum2 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum2), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[2])), sum2);
        sum3 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum3), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[3])), sum3);
        sum4 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum4), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[4])), sum4);
        sum5 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum5), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[5])), sum5);
        sum6 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum6), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[6])), sum6);
        sum7 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum7), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[7])), sum7);
        sum8 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum8), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[8])), sum8);
        sum9 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum9), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[9])), sum9);
        sum10 = _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum10), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[10])),
                                sum10);
        sum11 = _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum11), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[11])),
                                sum11);
        w += 256;
        wd += 16;
        x += 384;
        xd += 12;
        xs += 24;
    }
    if (rows >= 16) {
        _mm512_storeu_ps(y, sum0);
        _mm512_storeu_ps((y + y_stride), sum1);
        _mm512_storeu_ps((y + 2 * y_stride), sum2);
        _mm512_storeu_ps((y + 3 * y_stride), sum3);
        _mm512_storeu_ps((y + 4 * y_stride), sum4);
        _mm512_storeu_ps((y + 5 * y_stride), sum5);
        _mm512_storeu_ps((y + 6 * y_stride), sum6);
        _mm512_storeu_ps((y + 7 * y_stride), sum7);
        _mm512_storeu_ps((y + 8 * y_stride), sum8);
        _mm512_storeu_ps((y + 9 * y_stride), sum9);
        _mm512_storeu_ps((y + 10 * y_stride), sum10);
        _mm512_storeu_ps((y + 11 * y_stride), sum11);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[16];
    _mm512_storeu_ps(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum1);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum2);
    memcpy(y + 2 * y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum3);
    memcpy(y + 3 * y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum4);
    memcpy(y + 4 * y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum5);
    memcpy(y + 5 * y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum6);
    memcpy(y + 6 * y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum7);
    memcpy(y + 7 * y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum8);
    memcpy(y + 8 * y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum9);
    memcpy(y + 9 * y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum10);
    memcpy(y + 10 * y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum11);
    memcpy(y + 11 * y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 16 rows against 8 tokens; sums stay in registers over all blocks. */
static void tile_8(float *y, size_t y_stride, int rows, const uint8_t *w, const uint16_t *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const __m512i low_nibbles = _mm512_set1_epi8(0x0f);
    __m512 sum0 = _mm512_set1_ps(0.0f);
    __m512 sum1 = _mm512_set1_ps(0.0f);
    __m512 sum2 = _mm512_set1_ps(0.0f);
    __m512 sum3 = _mm512_set1_ps(0.0f);
    __m512 sum4 = _mm512_set1_ps(0.0f);
    __m512 sum5 = _mm512_set1_ps(0.0f);
    __m512 sum6 = _mm512_set1_ps(0.0f);
    __m512 sum7 = _mm512_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 8) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        __m512i isum0 = _mm512_set1_epi32(xs[8]);
        __m512i isum1 = _mm512_set1_epi32(xs[9]);
        __m512i isum2 = _mm512_set1_epi32(xs[10]);
        __m512i isum3 = _mm512_set1_epi32(xs[11]);
        __m512i isum4 = _mm512_set1_epi32(xs[12]);
        __m512i isum5 = _mm512_set1_epi32(xs[13]);
        __m512i isum6 = _mm512_set1_epi32(xs[14]);
        __m512i isum7 = _mm512_set1_epi32(xs[15]);
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const __m512i packed = _mm512_loadu_si512((const void *)(w + step * 64));
            const __m512i w0 = _mm512_and_si512(packed, low_nibbles); /* elements 0 to 15 of the block */
            const __m512i w1 = _mm512_and_si512(_mm512_srli_epi16(packed, 4), low_nibbles); /* 16 to 31 */
            isum0 = _mm512_dpbusd_epi32(isum0, w0, _mm512_set1_epi32(ml_load_i32(x + step * 32)));
            isum1 = _mm512_dpbusd_epi32(isum1, w0, _mm512_set1_epi32(ml_load_i32(x + step * 32 + 4)));
            isum2 = _mm512_dpbusd_epi32(isum2, w0, _mm512_set1_epi32(ml_load_i32(x + step * 32 + 8)));
            isum3 = _mm512_dpbusd_epi32(isum3, w0, _mm512_set1_epi32(ml_load_i32(x + step * 32 + 12)));
            isum4 = _mm512_dpbusd_epi32(isum4, w0, _mm512_set1_epi32(ml_load_i32(x + step * 32 + 16)));
            isum5 = _mm512_dpbusd_epi32(isum5, w0, _mm512_set1_epi32(ml_load_i32(x + step * 32 + 20)));
            isum6 = _mm512_dpbusd_epi32(isum6, w0, _mm512_set1_epi32(ml_load_i32(x + step * 32 + 24)));
            isum7 = _mm512_dpbusd_epi32(isum7, w0, _mm512_set1_epi32(ml_load_i32(x + step * 32 + 28)));
            isum0 = _mm512_dpbusd_epi32(isum0, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 32)));
            isum1 = _mm512_dpbusd_epi32(isum1, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 32 + 4)));
            isum2 = _mm512_dpbusd_epi32(isum2, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 32 + 8)));
            isum3 = _mm512_dpbusd_epi32(isum3, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 32 + 12)));
            isum4 = _mm512_dpbusd_epi32(isum4, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 32 + 16)));
            isum5 = _mm512_dpbusd_epi32(isum5, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 32 + 20)));
            isum6 = _mm512_dpbusd_epi32(isum6, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 32 + 24)));
            isum7 = _mm512_dpbusd_epi32(isum7, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 32 + 28)));
        }
        const __m512 w_scale = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(wd)));
        sum0 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum0), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[0])), sum0);
        sum1 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum1), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[1])), sum1);
        sum2 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum2), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[2])), sum2);
        sum3 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum3), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[3])), sum3);
        sum4 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum4), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[4])), sum4);
        sum5 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum5), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[5])), sum5);
        sum6 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum6), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[6])), sum6);
        sum7 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum7), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[7])), sum7);
        w += 256;
        wd += 16;
        x += 256;
        xd += 8;
        xs += 16;
    }
    if (rows >= 16) {
        _mm512_storeu_ps(y, sum0);
        _mm512_storeu_ps((y + y_stride), sum1);
        _mm512_storeu_ps((y + 2 * y_stride), sum2);
        _mm512_storeu_ps((y + 3 * y_stride), sum3);
        _mm512_storeu_ps((y + 4 * y_stride), sum4);
        _mm512_storeu_ps((y + 5 * y_stride), sum5);
        _mm512_storeu_ps((y + 6 * y_stride), sum6);
        _mm512_storeu_ps((y + 7 * y_stride), sum7);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[16];
    _mm512_storeu_ps(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum1);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum2);
    memcpy(y + 2 * y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum3);
    memcpy(y + 3 * y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum4);
    memcpy(y + 4 * y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum5);
    memcpy(y + 5 * y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum6);
    memcpy(y + 6 * y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum7);
    memcpy(y + 7 * y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 16 rows against 4 tokens; sums stay in registers over all blocks. */
static void tile_4(float *y, size_t y_stride, int rows, const uint8_t *w, const uint16_t *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const __m512i low_nibbles = _mm512_set1_epi8(0x0f);
    __m512 sum0 = _mm512_set1_ps(0.0f);
    __m512 sum1 = _mm512_set1_ps(0.0f);
    __m512 sum2 = _mm512_set1_ps(0.0f);
    __m512 sum3 = _mm512_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 4) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        __m512i isum0 = _mm512_set1_epi32(xs[4]);
        __m512i isum1 = _mm512_set1_epi32(xs[5]);
        __m512i isum2 = _mm512_set1_epi32(xs[6]);
        __m512i isum3 = _mm512_set1_epi32(xs[7]);
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const __m512i packed = _mm512_loadu_si512((const void *)(w + step * 64));
            const __m512i w0 = _mm512_and_si512(packed, low_nibbles); /* elements 0 to 15 of the block */
            const __m512i w1 = _mm512_and_si512(_mm512_srli_epi16(packed, 4), low_nibbles); /* 16 to 31 */
            isum0 = _mm512_dpbusd_epi32(isum0, w0, _mm512_set1_epi32(ml_load_i32(x + step * 16)));
            isum1 = _mm512_dpbusd_epi32(isum1, w0, _mm512_set1_epi32(ml_load_i32(x + step * 16 + 4)));
            isum2 = _mm512_dpbusd_epi32(isum2, w0, _mm512_set1_epi32(ml_load_i32(x + step * 16 + 8)));
            isum3 = _mm512_dpbusd_epi32(isum3, w0, _mm512_set1_epi32(ml_load_i32(x + step * 16 + 12)));
            isum0 = _mm512_dpbusd_epi32(isum0, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 16)));
            isum1 = _mm512_dpbusd_epi32(isum1, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 16 + 4)));
            isum2 = _mm512_dpbusd_epi32(isum2, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 16 + 8)));
            isum3 = _mm512_dpbusd_epi32(isum3, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 16 + 12)));
        }
        const __m512 w_scale = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(wd)));
        sum0 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum0), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[0])), sum0);
        sum1 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum1), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[1])), sum1);
        sum2 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum2), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[2])), sum2);
        sum3 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum3), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[3])), sum3);
        w += 256;
        wd += 16;
        x += 128;
        xd += 4;
        xs += 8;
    }
    if (rows >= 16) {
        _mm512_storeu_ps(y, sum0);
        _mm512_storeu_ps((y + y_stride), sum1);
        _mm512_storeu_ps((y + 2 * y_stride), sum2);
        _mm512_storeu_ps((y + 3 * y_stride), sum3);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[16];
    _mm512_storeu_ps(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum1);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum2);
    memcpy(y + 2 * y_stride, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum3);
    memcpy(y + 3 * y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 16 rows against 2 tokens; sums stay in registers over all blocks. */
static void tile_2(float *y, size_t y_stride, int rows, const uint8_t *w, const uint16_t *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const __m512i low_nibbles = _mm512_set1_epi8(0x0f);
    __m512 sum0 = _mm512_set1_ps(0.0f);
    __m512 sum1 = _mm512_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 2) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        __m512i isum0 = _mm512_set1_epi32(xs[2]);
        __m512i isum1 = _mm512_set1_epi32(xs[3]);
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++) {

            const __m512i packed = _mm512_loadu_si512((const void *)(w + step * 64));
            const __m512i w0 = _mm512_and_si512(packed, low_nibbles); /* elements 0 to 15 of the block */
            const __m512i w1 = _mm512_and_si512(_mm512_srli_epi16(packed, 4), low_nibbles); /* 16 to 31 */
            isum0 = _mm512_dpbusd_epi32(isum0, w0, _mm512_set1_epi32(ml_load_i32(x + step * 8)));
            isum1 = _mm512_dpbusd_epi32(isum1, w0, _mm512_set1_epi32(ml_load_i32(x + step * 8 + 4)));
            isum0 = _mm512_dpbusd_epi32(isum0, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 8)));
            isum1 = _mm512_dpbusd_epi32(isum1, w1, _mm512_set1_epi32(ml_load_i32(x + (step + 4) * 8 + 4)));
        }
        const __m512 w_scale = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(wd)));
        sum0 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum0), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[0])), sum0);
        sum1 =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum1), _mm512_mul_ps(w_scale, _mm512_set1_ps(xd[1])), sum1);
        w += 256;
        wd += 16;
        x += 64;
        xd += 2;
        xs += 4;
    }
    if (rows >= 16) {
        _mm512_storeu_ps(y, sum0);
        _mm512_storeu_ps((y + y_stride), sum1);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[16];
    _mm512_storeu_ps(out, sum0);
    memcpy(y, out, (size_t)rows * sizeof(float));
    _mm512_storeu_ps(out, sum1);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 16 rows against 1 token; sums stay in registers over all blocks. */
static void tile_1(float *y, int rows, const uint8_t *w, const uint16_t *wd, const int8_t *x, const float *xd,
                   const int32_t *xs, size_t blocks)
{
    const __m512i low_nibbles = _mm512_set1_epi8(0x0f);
    __m512 sum0 = _mm512_set1_ps(0.0f);
    for (size_t b = 0; b < blocks; b++) {
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

/* One row group against the tokens from `t` on; its weights stay in cache across the token tiles. */
static void row_group(float *y, size_t y_stride, int rows, const uint8_t *w, const uint16_t *wd,
                      const int8_t *xt, const float *xd, const int32_t *xs, size_t blocks, size_t t,
                      size_t tokens)
{
    for (; t + 12 <= tokens; t += 12)
        tile_12(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 32, xd + t * blocks,
                xs + t * blocks * 2, blocks);
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

void ml_k_matmul_q4_pk_f16_avx512vnni(float *y, size_t y_stride, const uint8_t *wq, const uint16_t *wd,
                                      const int8_t *xt, const float *xd, const int32_t *xs, int cols,
                                      int tokens, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 16)
        row_group(y + r, y_stride, r1 - r, wq + (size_t)r * blocks * 16, wd + (size_t)r * blocks, xt, xd, xs,
                  blocks, 0, (size_t)tokens);
}
