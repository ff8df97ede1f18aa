/*
 * ml_k_dot_q8_avx512vnni
 * Scores s[query][position] = q[query] . k[position] over one page of q8 keys.
 *
 * Written by krafla-gen from templates/dot_q8.c.j2 and isa_specs/avx512vnni.py (facets: f32, pack); do not
 * edit.
 *
 * vpdpbusd wants unsigned weights: Q8 weights are stored with +128 and Q4 nibbles raw (weight + 8). Each
 * block starts from -128 * sum(x) or -8 * sum(x), so its int32 sum is exact.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* 12 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_12(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                       const int32_t *xs, const uint8_t *k, const float *dk, int n)
{

    for (int t = 0; t < ML_PAGE; t += 16) {
        __m512i isum0_0 = _mm512_set1_epi32(xs[0]);
        __m512i isum1_0 = _mm512_set1_epi32(xs[1]);
        __m512i isum2_0 = _mm512_set1_epi32(xs[2]);
        __m512i isum3_0 = _mm512_set1_epi32(xs[3]);
        __m512i isum4_0 = _mm512_set1_epi32(xs[4]);
        __m512i isum5_0 = _mm512_set1_epi32(xs[5]);
        __m512i isum6_0 = _mm512_set1_epi32(xs[6]);
        __m512i isum7_0 = _mm512_set1_epi32(xs[7]);
        __m512i isum8_0 = _mm512_set1_epi32(xs[8]);
        __m512i isum9_0 = _mm512_set1_epi32(xs[9]);
        __m512i isum10_0 = _mm512_set1_epi32(xs[10]);
        __m512i isum11_0 = _mm512_set1_epi32(xs[11]);
        for (int step = 0; step < n / 4; step++) {
            {
                const __m512i w0 = _mm512_loadu_si512((const void *)(k + step * 64));
                isum0_0 = _mm512_dpbusd_epi32(isum0_0, w0, _mm512_set1_epi32(ml_load_i32(x + step * 4)));
                isum1_0 =
                    _mm512_dpbusd_epi32(isum1_0, w0, _mm512_set1_epi32(ml_load_i32(x + x_stride + step * 4)));
                isum2_0 = _mm512_dpbusd_epi32(isum2_0, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 2 * x_stride + step * 4)));
                isum3_0 = _mm512_dpbusd_epi32(isum3_0, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 3 * x_stride + step * 4)));
                isum4_0 = _mm512_dpbusd_epi32(isum4_0, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 4 * x_stride + step * 4)));
                isum5_0 = _mm512_dpbusd_epi32(isum5_0, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 5 * x_stride + step * 4)));
                isum6_0 = _mm512_dpbusd_epi32(isum6_0, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 6 * x_stride + step * 4)));
                isum7_0 = _mm512_dpbusd_epi32(isum7_0, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 7 * x_stride + step * 4)));
                isum8_0 = _mm512_dpbusd_epi32(isum8_0, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 8 * x_stride + step * 4)));
                isum9_0 = _mm512_dpbusd_epi32(isum9_0, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 9 * x_stride + step * 4)));
                isum10_0 = _mm512_dpbusd_epi32(isum10_0, w0,
                                               _mm512_set1_epi32(ml_load_i32(x + 10 * x_stride + step * 4)));
                isum11_0 = _mm512_dpbusd_epi32(isum11_0, w0,
                                               _mm512_set1_epi32(ml_load_i32(x + 11 * x_stride + step * 4)));
            }
        }
        const __m512 k_scale0 = _mm512_loadu_ps(dk + t);
        _mm512_storeu_ps(s + t, _mm512_mul_ps(_mm512_cvtepi32_ps(isum0_0),
                                              _mm512_mul_ps(_mm512_set1_ps(dq[0]), k_scale0)));
        _mm512_storeu_ps((s + s_stride) + t, _mm512_mul_ps(_mm512_cvtepi32_ps(isum1_0),
                                                           _mm512_mul_ps(_mm512_set1_ps(dq[1]), k_scale0)));
        _mm512_storeu_ps(
            (s + 2 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum2_0), _mm512_mul_ps(_mm512_set1_ps(dq[2]), k_scale0)));
        _mm512_storeu_ps(
            (s + 3 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum3_0), _mm512_mul_ps(_mm512_set1_ps(dq[3]), k_scale0)));
        _mm512_storeu_ps(
            (s + 4 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum4_0), _mm512_mul_ps(_mm512_set1_ps(dq[4]), k_scale0)));
        _mm512_storeu_ps(
            (s + 5 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum5_0), _mm512_mul_ps(_mm512_set1_ps(dq[5]), k_scale0)));
        _mm512_storeu_ps(
            (s + 6 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum6_0), _mm512_mul_ps(_mm512_set1_ps(dq[6]), k_scale0)));
        _mm512_storeu_ps(
            (s + 7 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum7_0), _mm512_mul_ps(_mm512_set1_ps(dq[7]), k_scale0)));
        _mm512_storeu_ps(
            (s + 8 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum8_0), _mm512_mul_ps(_mm512_set1_ps(dq[8]), k_scale0)));
        _mm512_storeu_ps(
            (s + 9 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum9_0), _mm512_mul_ps(_mm512_set1_ps(dq[9]), k_scale0)));
        _mm512_storeu_ps(
            (s + 10 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum10_0), _mm512_mul_ps(_mm512_set1_ps(dq[10]), k_scale0)));
        _mm512_storeu_ps(
            (s + 11 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum11_0), _mm512_mul_ps(_mm512_set1_ps(dq[11]), k_scale0)));
        k += n * 16;
    }
}

/* 6 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_6(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{

    for (int t = 0; t < ML_PAGE; t += 32) {
        __m512i isum0_0 = _mm512_set1_epi32(xs[0]);
        __m512i isum0_1 = _mm512_set1_epi32(xs[0]);
        __m512i isum1_0 = _mm512_set1_epi32(xs[1]);
        __m512i isum1_1 = _mm512_set1_epi32(xs[1]);
        __m512i isum2_0 = _mm512_set1_epi32(xs[2]);
        __m512i isum2_1 = _mm512_set1_epi32(xs[2]);
        __m512i isum3_0 = _mm512_set1_epi32(xs[3]);
        __m512i isum3_1 = _mm512_set1_epi32(xs[3]);
        __m512i isum4_0 = _mm512_set1_epi32(xs[4]);
        __m512i isum4_1 = _mm512_set1_epi32(xs[4]);
        __m512i isum5_0 = _mm512_set1_epi32(xs[5]);
        __m512i isum5_1 = _mm512_set1_epi32(xs[5]);
        for (int step = 0; step < n / 4; step++) {
            {
                const __m512i w0 = _mm512_loadu_si512((const void *)(k + step * 64));
                isum0_0 = _mm512_dpbusd_epi32(isum0_0, w0, _mm512_set1_epi32(ml_load_i32(x + step * 4)));
                isum1_0 =
                    _mm512_dpbusd_epi32(isum1_0, w0, _mm512_set1_epi32(ml_load_i32(x + x_stride + step * 4)));
                isum2_0 = _mm512_dpbusd_epi32(isum2_0, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 2 * x_stride + step * 4)));
                isum3_0 = _mm512_dpbusd_epi32(isum3_0, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 3 * x_stride + step * 4)));
                isum4_0 = _mm512_dpbusd_epi32(isum4_0, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 4 * x_stride + step * 4)));
                isum5_0 = _mm512_dpbusd_epi32(isum5_0, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 5 * x_stride + step * 4)));
            }
            {
                const __m512i w0 = _mm512_loadu_si512((const void *)(k + n * 16 + step * 64));
                isum0_1 = _mm512_dpbusd_epi32(isum0_1, w0, _mm512_set1_epi32(ml_load_i32(x + step * 4)));
                isum1_1 =
                    _mm512_dpbusd_epi32(isum1_1, w0, _mm512_set1_epi32(ml_load_i32(x + x_stride + step * 4)));
                isum2_1 = _mm512_dpbusd_epi32(isum2_1, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 2 * x_stride + step * 4)));
                isum3_1 = _mm512_dpbusd_epi32(isum3_1, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 3 * x_stride + step * 4)));
                isum4_1 = _mm512_dpbusd_epi32(isum4_1, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 4 * x_stride + step * 4)));
                isum5_1 = _mm512_dpbusd_epi32(isum5_1, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 5 * x_stride + step * 4)));
            }
        }
        const __m512 k_scale0 = _mm512_loadu_ps(dk + t);
        _mm512_storeu_ps(s + t, _mm512_mul_ps(_mm512_cvtepi32_ps(isum0_0),
                                              _mm512_mul_ps(_mm512_set1_ps(dq[0]), k_scale0)));
        _mm512_storeu_ps((s + s_stride) + t, _mm512_mul_ps(_mm512_cvtepi32_ps(isum1_0),
                                                           _mm512_mul_ps(_mm512_set1_ps(dq[1]), k_scale0)));
        _mm512_storeu_ps(
            (s + 2 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum2_0), _mm512_mul_ps(_mm512_set1_ps(dq[2]), k_scale0)));
        _mm512_storeu_ps(
            (s + 3 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum3_0), _mm512_mul_ps(_mm512_set1_ps(dq[3]), k_scale0)));
        _mm512_storeu_ps(
            (s + 4 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum4_0), _mm512_mul_ps(_mm512_set1_ps(dq[4]), k_scale0)));
        _mm512_storeu_ps(
            (s + 5 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum5_0), _mm512_mul_ps(_mm512_set1_ps(dq[5]), k_scale0)));
        const __m512 k_scale1 = _mm512_loadu_ps(dk + (t + 16));
        _mm512_storeu_ps(s + (t + 16), _mm512_mul_ps(_mm512_cvtepi32_ps(isum0_1),
                                                     _mm512_mul_ps(_mm512_set1_ps(dq[0]), k_scale1)));
        _mm512_storeu_ps(
            (s + s_stride) + (t + 16),
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum1_1), _mm512_mul_ps(_mm512_set1_ps(dq[1]), k_scale1)));
        _mm512_storeu_ps(
            (s + 2 * s_stride) + (t + 16),
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum2_1), _mm512_mul_ps(_mm512_set1_ps(dq[2]), k_scale1)));
        _mm512_storeu_ps(
            (s + 3 * s_stride) + (t + 16),
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum3_1), _mm512_mul_ps(_mm512_set1_ps(dq[3]), k_scale1)));
        _mm512_storeu_ps(
            (s + 4 * s_stride) + (t + 16),
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum4_1), _mm512_mul_ps(_mm512_set1_ps(dq[4]), k_scale1)));
        _mm512_storeu_ps(
            (s + 5 * s_stride) + (t + 16),
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum5_1), _mm512_mul_ps(_mm512_set1_ps(dq[5]), k_scale1)));
        k += n * 32;
    }
}

/* 3 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_3(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{

    for (int t = 0; t < ML_PAGE; t += 64) {
        __m512i isum0_0 = _mm512_set1_epi32(xs[0]);
        __m512i isum0_1 = _mm512_set1_epi32(xs[0]);
        __m512i isum0_2 = _mm512_set1_epi32(xs[0]);
        __m512i isum0_3 = _mm512_set1_epi32(xs[0]);
        __m512i isum1_0 = _mm512_set1_epi32(xs[1]);
        __m512i isum1_1 = _mm512_set1_epi32(xs[1]);
        __m512i isum1_2 = _mm512_set1_epi32(xs[1]);
        __m512i isum1_3 = _mm512_set1_epi32(xs[1]);
        __m512i isum2_0 = _mm512_set1_epi32(xs[2]);
        __m512i isum2_1 = _mm512_set1_epi32(xs[2]);
        __m512i isum2_2 = _mm512_set1_epi32(xs[2]);
        __m512i isum2_3 = _mm512_set1_epi32(xs[2]);
        for (int step = 0; step < n / 4; step++) {
            {
                const __m512i w0 = _mm512_loadu_si512((const void *)(k + step * 64));
                isum0_0 = _mm512_dpbusd_epi32(isum0_0, w0, _mm512_set1_epi32(ml_load_i32(x + step * 4)));
                isum1_0 =
                    _mm512_dpbusd_epi32(isum1_0, w0, _mm512_set1_epi32(ml_load_i32(x + x_stride + step * 4)));
                isum2_0 = _mm512_dpbusd_epi32(isum2_0, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 2 * x_stride + step * 4)));
            }
            {
                const __m512i w0 = _mm512_loadu_si512((const void *)(k + n * 16 + step * 64));
                isum0_1 = _mm512_dpbusd_epi32(isum0_1, w0, _mm512_set1_epi32(ml_load_i32(x + step * 4)));
                isum1_1 =
                    _mm512_dpbusd_epi32(isum1_1, w0, _mm512_set1_epi32(ml_load_i32(x + x_stride + step * 4)));
                isum2_1 = _mm512_dpbusd_epi32(isum2_1, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 2 * x_stride + step * 4)));
            }
            {
                const __m512i w0 = _mm512_loadu_si512((const void *)(k + n * 32 + step * 64));
                isum0_2 = _mm512_dpbusd_epi32(isum0_2, w0, _mm512_set1_epi32(ml_load_i32(x + step * 4)));
                isum1_2 =
                    _mm512_dpbusd_epi32(isum1_2, w0, _mm512_set1_epi32(ml_load_i32(x + x_stride + step * 4)));
                isum2_2 = _mm512_dpbusd_epi32(isum2_2, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 2 * x_stride + step * 4)));
            }
            {
                const __m512i w0 = _mm512_loadu_si512((const void *)(k + n * 48 + step * 64));
                isum0_3 = _mm512_dpbusd_epi32(isum0_3, w0, _mm512_set1_epi32(ml_load_i32(x + step * 4)));
                isum1_3 =
                    _mm512_dpbusd_epi32(isum1_3, w0, _mm512_set1_epi32(ml_load_i32(x + x_stride + step * 4)));
                isum2_3 = _mm512_dpbusd_epi32(isum2_3, w0,
                                              _mm512_set1_epi32(ml_load_i32(x + 2 * x_stride + step * 4)));
            }
        }
        const __m512 k_scale0 = _mm512_loadu_ps(dk + t);
        _mm512_storeu_ps(s + t, _mm512_mul_ps(_mm512_cvtepi32_ps(isum0_0),
                                              _mm512_mul_ps(_mm512_set1_ps(dq[0]), k_scale0)));
        _mm512_storeu_ps((s + s_stride) + t, _mm512_mul_ps(_mm512_cvtepi32_ps(isum1_0),
                                                           _mm512_mul_ps(_mm512_set1_ps(dq[1]), k_scale0)));
        _mm512_storeu_ps(
            (s + 2 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum2_0), _mm512_mul_ps(_mm512_set1_ps(dq[2]), k_scale0)));
        const __m512 k_scale1 = _mm512_loadu_ps(dk + (t + 16));
        _mm512_storeu_ps(s + (t + 16), _mm512_mul_ps(_mm512_cvtepi32_ps(isum0_1),
                                                     _mm512_mul_ps(_mm512_set1_ps(dq[0]), k_scale1)));
        _mm512_storeu_ps(
            (s + s_stride) + (t + 16),
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum1_1), _mm512_mul_ps(_mm512_set1_ps(dq[1]), k_scale1)));
        _mm512_storeu_ps(
            (s + 2 * s_stride) + (t + 16),
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum2_1), _mm512_mul_ps(_mm512_set1_ps(dq[2]), k_scale1)));
        const __m512 k_scale2 = _mm512_loadu_ps(dk + (t + 32));
        _mm512_storeu_ps(s + (t + 32), _mm512_mul_ps(_mm512_cvtepi32_ps(isum0_2),
                                                     _mm512_mul_ps(_mm512_set1_ps(dq[0]), k_scale2)));
        _mm512_storeu_ps(
            (s + s_stride) + (t + 32),
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum1_2), _mm512_mul_ps(_mm512_set1_ps(dq[1]), k_scale2)));
        _mm512_storeu_ps(
            (s + 2 * s_stride) + (t + 32),
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum2_2), _mm512_mul_ps(_mm512_set1_ps(dq[2]), k_scale2)));
        const __m512 k_scale3 = _mm512_loadu_ps(dk + (t + 48));
        _mm512_storeu_ps(s + (t + 48), _mm512_mul_ps(_mm512_cvtepi32_ps(isum0_3),
                                                     _mm512_mul_ps(_mm512_set1_ps(dq[0]), k_scale3)));
        _mm512_storeu_ps(
            (s + s_stride) + (t + 48),
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum1_3), _mm512_mul_ps(_mm512_set1_ps(dq[1]), k_scale3)));
        _mm512_storeu_ps(
            (s + 2 * s_stride) + (t + 48),
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum2_3), _mm512_mul_ps(_mm512_set1_ps(dq[2]), k_scale3)));
        k += n * 64;
    }
}

/* 1 query against the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_1(float *s, const int8_t *x, const float *dq, const int32_t *xs, const uint8_t *k,
                      const float *dk, int n)
{

    for (int t = 0; t < ML_PAGE; t += 64) {
        __m512i isum0_0 = _mm512_set1_epi32(xs[0]);
        __m512i isum0_1 = _mm512_set1_epi32(xs[0]);
        __m512i isum0_2 = _mm512_set1_epi32(xs[0]);
        __m512i isum0_3 = _mm512_set1_epi32(xs[0]);
        for (int step = 0; step < n / 4; step++) {
            {
                const __m512i w0 = _mm512_loadu_si512((const void *)(k + step * 64));
                isum0_0 = _mm512_dpbusd_epi32(isum0_0, w0, _mm512_set1_epi32(ml_load_i32(x + step * 4)));
            }
            {
                const __m512i w0 = _mm512_loadu_si512((const void *)(k + n * 16 + step * 64));
                isum0_1 = _mm512_dpbusd_epi32(isum0_1, w0, _mm512_set1_epi32(ml_load_i32(x + step * 4)));
            }
            {
                const __m512i w0 = _mm512_loadu_si512((const void *)(k + n * 32 + step * 64));
                isum0_2 = _mm512_dpbusd_epi32(isum0_2, w0, _mm512_set1_epi32(ml_load_i32(x + step * 4)));
            }
            {
                const __m512i w0 = _mm512_loadu_si512((const void *)(k + n * 48 + step * 64));
                isum0_3 = _mm512_dpbusd_epi32(isum0_3, w0, _mm512_set1_epi32(ml_load_i32(x + step * 4)));
            }
        }
        const __m512 k_scale0 = _mm512_loadu_ps(dk + t);
        _mm512_storeu_ps(s + t, _mm512_mul_ps(_mm512_cvtepi32_ps(isum0_0),
                                              _mm512_mul_ps(_mm512_set1_ps(dq[0]), k_scale0)));
        const __m512 k_scale1 = _mm512_loadu_ps(dk + (t + 16));
        _mm512_storeu_ps(s + (t + 16), _mm512_mul_ps(_mm512_cvtepi32_ps(isum0_1),
                                                     _mm512_mul_ps(_mm512_set1_ps(dq[0]), k_scale1)));
        const __m512 k_scale2 = _mm512_loadu_ps(dk + (t + 32));
        _mm512_storeu_ps(s + (t + 32), _mm512_mul_ps(_mm512_cvtepi32_ps(isum0_2),
                                                     _mm512_mul_ps(_mm512_set1_ps(dq[0]), k_scale2)));
        const __m512 k_scale3 = _mm512_loadu_ps(dk + (t + 48));
        _mm512_storeu_ps(s + (t + 48), _mm512_mul_ps(_mm512_cvtepi32_ps(isum0_3),
                                                     _mm512_mul_ps(_mm512_set1_ps(dq[0]), k_scale3)));
        k += n * 64;
    }
}

void ml_k_dot_q8_avx512vnni(float *s, size_t s_stride, const int8_t *xt, const float *dq, const int32_t *xs,
                            int queries, const uint8_t *k, const float *dk, int n)
{
    const size_t x_stride = (size_t)n / ML_BLOCK * 32;
    int i = 0;
    for (; i + 12 <= queries; i += 12)
        queries_12(s + (size_t)i * s_stride, s_stride, xt + (size_t)i * x_stride, x_stride, dq + i, xs + i, k,
                   dk, n);
    for (; i + 6 <= queries; i += 6)
        queries_6(s + (size_t)i * s_stride, s_stride, xt + (size_t)i * x_stride, x_stride, dq + i, xs + i, k,
                  dk, n);
    for (; i + 3 <= queries; i += 3)
        queries_3(s + (size_t)i * s_stride, s_stride, xt + (size_t)i * x_stride, x_stride, dq + i, xs + i, k,
                  dk, n);
    for (; i + 1 <= queries; i += 1)
        queries_1(s + (size_t)i * s_stride, xt + (size_t)i * x_stride, dq + i, xs + i, k, dk, n);
}
