/*
 * ml_k_axpy_q8_avx2
 * Weighted sums y[query] += p[query][t] v[t] over rows of q8 values, in increasing t.
 *
 * Written by krafla-gen from templates/axpy.c.j2 and isa_specs/avx2.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* 6 queries share the values; sums stay in registers across the rows. */
static void queries_6(float *y, size_t y_stride, const float *p, size_t p_stride, const int8_t *v, int rows,
                      int n)
{
    int j = 0;
    for (; j + 16 <= n; j += 16) {
        __m256 sum0_0 = _mm256_loadu_ps(y + j);
        __m256 sum0_1 = _mm256_loadu_ps(y + (j + 8));
        __m256 sum1_0 = _mm256_loadu_ps((y + y_stride) + j);
        __m256 sum1_1 = _mm256_loadu_ps((y + y_stride) + (j + 8));
        __m256 sum2_0 = _mm256_loadu_ps((y + 2 * y_stride) + j);
        __m256 sum2_1 = _mm256_loadu_ps((y + 2 * y_stride) + (j + 8));
        __m256 sum3_0 = _mm256_loadu_ps((y + 3 * y_stride) + j);
        __m256 sum3_1 = _mm256_loadu_ps((y + 3 * y_stride) + (j + 8));
        __m256 sum4_0 = _mm256_loadu_ps((y + 4 * y_stride) + j);
        __m256 sum4_1 = _mm256_loadu_ps((y + 4 * y_stride) + (j + 8));
        __m256 sum5_0 = _mm256_loadu_ps((y + 5 * y_stride) + j);
        __m256 sum5_1 = _mm256_loadu_ps((y + 5 * y_stride) + (j + 8));
        for (int t = 0; t < rows; t++) {
            const __m256 v0 = ml_load_i8_256((v + t * n) + j);
            const __m256 v1 = ml_load_i8_256((v + t * n) + (j + 8));
            const __m256 p0 = _mm256_set1_ps(p[t]);
            sum0_0 = _mm256_fmadd_ps(p0, v0, sum0_0);
            sum0_1 = _mm256_fmadd_ps(p0, v1, sum0_1);
            const __m256 p1 = _mm256_set1_ps(p[p_stride + (size_t)t]);
            sum1_0 = _mm256_fmadd_ps(p1, v0, sum1_0);
            sum1_1 = _mm256_fmadd_ps(p1, v1, sum1_1);
            const __m256 p2 = _mm256_set1_ps(p[2 * p_stride + (size_t)t]);
            sum2_0 = _mm256_fmadd_ps(p2, v0, sum2_0);
            sum2_1 = _mm256_fmadd_ps(p2, v1, sum2_1);
            const __m256 p3 = _mm256_set1_ps(p[3 * p_stride + (size_t)t]);
            sum3_0 = _mm256_fmadd_ps(p3, v0, sum3_0);
            sum3_1 = _mm256_fmadd_ps(p3, v1, sum3_1);
            const __m256 p4 = _mm256_set1_ps(p[4 * p_stride + (size_t)t]);
            sum4_0 = _mm256_fmadd_ps(p4, v0, sum4_0);
            sum4_1 = _mm256_fmadd_ps(p4, v1, sum4_1);
            const __m256 p5 = _mm256_set1_ps(p[5 * p_stride + (size_t)t]);
            sum5_0 = _mm256_fmadd_ps(p5, v0, sum5_0);
            sum5_1 = _mm256_fmadd_ps(p5, v1, sum5_1);
        }
        _mm256_storeu_ps(y + j, sum0_0);
        _mm256_storeu_ps(y + (j + 8), sum0_1);
        _mm256_storeu_ps((y + y_stride) + j, sum1_0);
        _mm256_storeu_ps((y + y_stride) + (j + 8), sum1_1);
        _mm256_storeu_ps((y + 2 * y_stride) + j, sum2_0);
        _mm256_storeu_ps((y + 2 * y_stride) + (j + 8), sum2_1);
        _mm256_storeu_ps((y + 3 * y_stride) + j, sum3_0);
        _mm256_storeu_ps((y + 3 * y_stride) + (j + 8), sum3_1);
        _mm256_storeu_ps((y + 4 * y_stride) + j, sum4_0);
        _mm256_storeu_ps((y + 4 * y_stride) + (j + 8), sum4_1);
        _mm256_storeu_ps((y + 5 * y_stride) + j, sum5_0);
        _mm256_storeu_ps((y + 5 * y_stride) + (j + 8), sum5_1);
    }
    for (; j + 8 <= n; j += 8) {
        __m256 sum0_0 = _mm256_loadu_ps(y + j);
        __m256 sum1_0 = _mm256_loadu_ps((y + y_stride) + j);
        __m256 sum2_0 = _mm256_loadu_ps((y + 2 * y_stride) + j);
        __m256 sum3_0 = _mm256_loadu_ps((y + 3 * y_stride) + j);
        __m256 sum4_0 = _mm256_loadu_ps((y + 4 * y_stride) + j);
        __m256 sum5_0 = _mm256_loadu_ps((y + 5 * y_stride) + j);
        for (int t = 0; t < rows; t++) {
            const __m256 v0 = ml_load_i8_256((v + t * n) + j);
            const __m256 p0 = _mm256_set1_ps(p[t]);
            sum0_0 = _mm256_fmadd_ps(p0, v0, sum0_0);
            const __m256 p1 = _mm256_set1_ps(p[p_stride + (size_t)t]);
            sum1_0 = _mm256_fmadd_ps(p1, v0, sum1_0);
            const __m256 p2 = _mm256_set1_ps(p[2 * p_stride + (size_t)t]);
            sum2_0 = _mm256_fmadd_ps(p2, v0, sum2_0);
            const __m256 p3 = _mm256_set1_ps(p[3 * p_stride + (size_t)t]);
            sum3_0 = _mm256_fmadd_ps(p3, v0, sum3_0);
            const __m256 p4 = _mm256_set1_ps(p[4 * p_stride + (size_t)t]);
            sum4_0 = _mm256_fmadd_ps(p4, v0, sum4_0);
            const __m256 p5 = _mm256_set1_ps(p[5 * p_stride + (size_t)t]);
            sum5_0 = _mm256_fmadd_ps(p5, v0, sum5_0);
        }
        _mm256_storeu_ps(y + j, sum0_0);
        _mm256_storeu_ps((y + y_stride) + j, sum1_0);
        _mm256_storeu_ps((y + 2 * y_stride) + j, sum2_0);
        _mm256_storeu_ps((y + 3 * y_stride) + j, sum3_0);
        _mm256_storeu_ps((y + 4 * y_stride) + j, sum4_0);
        _mm256_storeu_ps((y + 5 * y_stride) + j, sum5_0);
    }
    for (; j < n; j++) { /* the rest, one by one */
        float sum0_0 = y[j];
        float sum1_0 = (y + y_stride)[j];
        float sum2_0 = (y + 2 * y_stride)[j];
        float sum3_0 = (y + 3 * y_stride)[j];
        float sum4_0 = (y + 4 * y_stride)[j];
        float sum5_0 = (y + 5 * y_stride)[j];
        for (int t = 0; t < rows; t++) {
            const float v0 = (float)(v + t * n)[j];
            const float p0 = p[t];
            sum0_0 = ml_madd(p0, v0, sum0_0);
            const float p1 = p[p_stride + (size_t)t];
            sum1_0 = ml_madd(p1, v0, sum1_0);
            const float p2 = p[2 * p_stride + (size_t)t];
            sum2_0 = ml_madd(p2, v0, sum2_0);
            const float p3 = p[3 * p_stride + (size_t)t];
            sum3_0 = ml_madd(p3, v0, sum3_0);
            const float p4 = p[4 * p_stride + (size_t)t];
            sum4_0 = ml_madd(p4, v0, sum4_0);
            const float p5 = p[5 * p_stride + (size_t)t];
            sum5_0 = ml_madd(p5, v0, sum5_0);
        }
        y[j] = sum0_0;
        (y + y_stride)[j] = sum1_0;
        (y + 2 * y_stride)[j] = sum2_0;
        (y + 3 * y_stride)[j] = sum3_0;
        (y + 4 * y_stride)[j] = sum4_0;
        (y + 5 * y_stride)[j] = sum5_0;
    }
}

/* 3 queries share the values; sums stay in registers across the rows. */
static void queries_3(float *y, size_t y_stride, const float *p, size_t p_stride, const int8_t *v, int rows,
                      int n)
{
    int j = 0;
    for (; j + 16 <= n; j += 16) {
        __m256 sum0_0 = _mm256_loadu_ps(y + j);
        __m256 sum0_1 = _mm256_loadu_ps(y + (j + 8));
        __m256 sum1_0 = _mm256_loadu_ps((y + y_stride) + j);
        __m256 sum1_1 = _mm256_loadu_ps((y + y_stride) + (j + 8));
        __m256 sum2_0 = _mm256_loadu_ps((y + 2 * y_stride) + j);
        __m256 sum2_1 = _mm256_loadu_ps((y + 2 * y_stride) + (j + 8));
        for (int t = 0; t < rows; t++) {
            const __m256 v0 = ml_load_i8_256((v + t * n) + j);
            const __m256 v1 = ml_load_i8_256((v + t * n) + (j + 8));
            const __m256 p0 = _mm256_set1_ps(p[t]);
            sum0_0 = _mm256_fmadd_ps(p0, v0, sum0_0);
            sum0_1 = _mm256_fmadd_ps(p0, v1, sum0_1);
            const __m256 p1 = _mm256_set1_ps(p[p_stride + (size_t)t]);
            sum1_0 = _mm256_fmadd_ps(p1, v0, sum1_0);
            sum1_1 = _mm256_fmadd_ps(p1, v1, sum1_1);
            const __m256 p2 = _mm256_set1_ps(p[2 * p_stride + (size_t)t]);
            sum2_0 = _mm256_fmadd_ps(p2, v0, sum2_0);
            sum2_1 = _mm256_fmadd_ps(p2, v1, sum2_1);
        }
        _mm256_storeu_ps(y + j, sum0_0);
        _mm256_storeu_ps(y + (j + 8), sum0_1);
        _mm256_storeu_ps((y + y_stride) + j, sum1_0);
        _mm256_storeu_ps((y + y_stride) + (j + 8), sum1_1);
        _mm256_storeu_ps((y + 2 * y_stride) + j, sum2_0);
        _mm256_storeu_ps((y + 2 * y_stride) + (j + 8), sum2_1);
    }
    for (; j + 8 <= n; j += 8) {
        __m256 sum0_0 = _mm256_loadu_ps(y + j);
        __m256 sum1_0 = _mm256_loadu_ps((y + y_stride) + j);
        __m256 sum2_0 = _mm256_loadu_ps((y + 2 * y_stride) + j);
        for (int t = 0; t < rows; t++) {
            const __m256 v0 = ml_load_i8_256((v + t * n) + j);
            const __m256 p0 = _mm256_set1_ps(p[t]);
            sum0_0 = _mm256_fmadd_ps(p0, v0, sum0_0);
            const __m256 p1 = _mm256_set1_ps(p[p_stride + (size_t)t]);
            sum1_0 = _mm256_fmadd_ps(p1, v0, sum1_0);
            const __m256 p2 = _mm256_set1_ps(p[2 * p_stride + (size_t)t]);
            sum2_0 = _mm256_fmadd_ps(p2, v0, sum2_0);
        }
        _mm256_storeu_ps(y + j, sum0_0);
        _mm256_storeu_ps((y + y_stride) + j, sum1_0);
        _mm256_storeu_ps((y + 2 * y_stride) + j, sum2_0);
    }
    for (; j < n; j++) { /* the rest, one by one */
        float sum0_0 = y[j];
        float sum1_0 = (y + y_stride)[j];
        float sum2_0 = (y + 2 * y_stride)[j];
        for (int t = 0; t < rows; t++) {
            const float v0 = (float)(v + t * n)[j];
            const float p0 = p[t];
            sum0_0 = ml_madd(p0, v0, sum0_0);
            const float p1 = p[p_stride + (size_t)t];
            sum1_0 = ml_madd(p1, v0, sum1_0);
            const float p2 = p[2 * p_stride + (size_t)t];
            sum2_0 = ml_madd(p2, v0, sum2_0);
        }
        y[j] = sum0_0;
        (y + y_stride)[j] = sum1_0;
        (y + 2 * y_stride)[j] = sum2_0;
    }
}

/* 1 query weighs the values; sums stay in registers across the rows. */
static void queries_1(float *y, const float *p, const int8_t *v, int rows, int n)
{
    int j = 0;
    for (; j + 16 <= n; j += 16) {
        __m256 sum0_0 = _mm256_loadu_ps(y + j);
        __m256 sum0_1 = _mm256_loadu_ps(y + (j + 8));
        for (int t = 0; t < rows; t++) {
            const __m256 v0 = ml_load_i8_256((v + t * n) + j);
            const __m256 v1 = ml_load_i8_256((v + t * n) + (j + 8));
            const __m256 p0 = _mm256_set1_ps(p[t]);
            sum0_0 = _mm256_fmadd_ps(p0, v0, sum0_0);
            sum0_1 = _mm256_fmadd_ps(p0, v1, sum0_1);
        }
        _mm256_storeu_ps(y + j, sum0_0);
        _mm256_storeu_ps(y + (j + 8), sum0_1);
    }
    for (; j + 8 <= n; j += 8) {
        __m256 sum0_0 = _mm256_loadu_ps(y + j);
        for (int t = 0; t < rows; t++) {
            const __m256 v0 = ml_load_i8_256((v + t * n) + j);
            const __m256 p0 = _mm256_set1_ps(p[t]);
            sum0_0 = _mm256_fmadd_ps(p0, v0, sum0_0);
        }
        _mm256_storeu_ps(y + j, sum0_0);
    }
    for (; j < n; j++) { /* the rest, one by one */
        float sum0_0 = y[j];
        for (int t = 0; t < rows; t++) {
            const float v0 = (float)(v + t * n)[j];
            const float p0 = p[t];
            sum0_0 = ml_madd(p0, v0, sum0_0);
        }
        y[j] = sum0_0;
    }
}

void ml_k_axpy_q8_avx2(float *y, size_t y_stride, const float *p, size_t p_stride, int queries,
                       const int8_t *v, int rows, int n)
{
    int i = 0;
    for (; i + 6 <= queries; i += 6)
        queries_6(y + (size_t)i * y_stride, y_stride, p + (size_t)i * p_stride, p_stride, v, rows, n);
    for (; i + 3 <= queries; i += 3)
        queries_3(y + (size_t)i * y_stride, y_stride, p + (size_t)i * p_stride, p_stride, v, rows, n);
    for (; i + 1 <= queries; i += 1)
        queries_1(y + (size_t)i * y_stride, p + (size_t)i * p_stride, v, rows, n);
}
