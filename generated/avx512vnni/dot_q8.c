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

/* 6 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_6(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{

    for (int t = 0; t < ML_PAGE; t += 16) {
        __m512i isum0 = _mm512_set1_epi32(xs[0]);
        __m512i isum1 = _mm512_set1_epi32(xs[1]);
        __m512i isum2 = _mm512_set1_epi32(xs[2]);
        __m512i isum3 = _mm512_set1_epi32(xs[3]);
        __m512i isum4 = _mm512_set1_epi32(xs[4]);
        __m512i isum5 = _mm512_set1_epi32(xs[5]);
        for (int step = 0; step < n / 4; step++) {
            const __m512i w0 = _mm512_loadu_si512((const void *)(k + step * 64));
            isum0 = _mm512_dpbusd_epi32(isum0, w0, _mm512_set1_epi32(ml_load_i32(x + step * 4)));
            isum1 = _mm512_dpbusd_epi32(isum1, w0, _mm512_set1_epi32(ml_load_i32(x + x_stride + step * 4)));
            isum2 =
                _mm512_dpbusd_epi32(isum2, w0, _mm512_set1_epi32(ml_load_i32(x + 2 * x_stride + step * 4)));
            isum3 =
                _mm512_dpbusd_epi32(isum3, w0, _mm512_set1_epi32(ml_load_i32(x + 3 * x_stride + step * 4)));
            isum4 =
                _mm512_dpbusd_epi32(isum4, w0, _mm512_set1_epi32(ml_load_i32(x + 4 * x_stride + step * 4)));
            isum5 =
                _mm512_dpbusd_epi32(isum5, w0, _mm512_set1_epi32(ml_load_i32(x + 5 * x_stride + step * 4)));
        }
        const __m512 k_scale = _mm512_loadu_ps(dk + t);
        _mm512_storeu_ps(
            s + t, _mm512_mul_ps(_mm512_cvtepi32_ps(isum0), _mm512_mul_ps(_mm512_set1_ps(dq[0]), k_scale)));
        _mm512_storeu_ps((s + s_stride) + t, _mm512_mul_ps(_mm512_cvtepi32_ps(isum1),
                                                           _mm512_mul_ps(_mm512_set1_ps(dq[1]), k_scale)));
        _mm512_storeu_ps(
            (s + 2 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum2), _mm512_mul_ps(_mm512_set1_ps(dq[2]), k_scale)));
        _mm512_storeu_ps(
            (s + 3 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum3), _mm512_mul_ps(_mm512_set1_ps(dq[3]), k_scale)));
        _mm512_storeu_ps(
            (s + 4 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum4), _mm512_mul_ps(_mm512_set1_ps(dq[4]), k_scale)));
        _mm512_storeu_ps(
            (s + 5 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum5), _mm512_mul_ps(_mm512_set1_ps(dq[5]), k_scale)));
        k += n * 16;
    }
}

/* 3 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_3(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{

    for (int t = 0; t < ML_PAGE; t += 16) {
        __m512i isum0 = _mm512_set1_epi32(xs[0]);
        __m512i isum1 = _mm512_set1_epi32(xs[1]);
        __m512i isum2 = _mm512_set1_epi32(xs[2]);
        for (int step = 0; step < n / 4; step++) {
            const __m512i w0 = _mm512_loadu_si512((const void *)(k + step * 64));
            isum0 = _mm512_dpbusd_epi32(isum0, w0, _mm512_set1_epi32(ml_load_i32(x + step * 4)));
            isum1 = _mm512_dpbusd_epi32(isum1, w0, _mm512_set1_epi32(ml_load_i32(x + x_stride + step * 4)));
            isum2 =
                _mm512_dpbusd_epi32(isum2, w0, _mm512_set1_epi32(ml_load_i32(x + 2 * x_stride + step * 4)));
        }
        const __m512 k_scale = _mm512_loadu_ps(dk + t);
        _mm512_storeu_ps(
            s + t, _mm512_mul_ps(_mm512_cvtepi32_ps(isum0), _mm512_mul_ps(_mm512_set1_ps(dq[0]), k_scale)));
        _mm512_storeu_ps((s + s_stride) + t, _mm512_mul_ps(_mm512_cvtepi32_ps(isum1),
                                                           _mm512_mul_ps(_mm512_set1_ps(dq[1]), k_scale)));
        _mm512_storeu_ps(
            (s + 2 * s_stride) + t,
            _mm512_mul_ps(_mm512_cvtepi32_ps(isum2), _mm512_mul_ps(_mm512_set1_ps(dq[2]), k_scale)));
        k += n * 16;
    }
}

/* 1 query against the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_1(float *s, const int8_t *x, const float *dq, const int32_t *xs, const uint8_t *k,
                      const float *dk, int n)
{

    for (int t = 0; t < ML_PAGE; t += 16) {
        __m512i isum0 = _mm512_set1_epi32(xs[0]);
        for (int step = 0; step < n / 4; step++) {
            const __m512i w0 = _mm512_loadu_si512((const void *)(k + step * 64));
            isum0 = _mm512_dpbusd_epi32(isum0, w0, _mm512_set1_epi32(ml_load_i32(x + step * 4)));
        }
        const __m512 k_scale = _mm512_loadu_ps(dk + t);
        _mm512_storeu_ps(
            s + t, _mm512_mul_ps(_mm512_cvtepi32_ps(isum0), _mm512_mul_ps(_mm512_set1_ps(dq[0]), k_scale)));
        k += n * 16;
    }
}

void ml_k_dot_q8_avx512vnni(float *s, size_t s_stride, const int8_t *xt, const float *dq, const int32_t *xs,
                            int queries, const uint8_t *k, const float *dk, int n)
{
    const size_t x_stride = (size_t)n / ML_BLOCK * 32;
    int i = 0;
    for (; i + 6 <= queries; i += 6)
        queries_6(s + (size_t)i * s_stride, s_stride, xt + (size_t)i * x_stride, x_stride, dq + i, xs + i, k,
                  dk, n);
    for (; i + 3 <= queries; i += 3)
        queries_3(s + (size_t)i * s_stride, s_stride, xt + (size_t)i * x_stride, x_stride, dq + i, xs + i, k,
                  dk, n);
    for (; i + 1 <= queries; i += 1)
        queries_1(s + (size_t)i * s_stride, xt + (size_t)i * x_stride, dq + i, xs + i, k, dk, n);
}
