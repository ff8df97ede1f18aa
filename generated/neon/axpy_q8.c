/*
 * ml_k_axpy_q8_neon
 * Weighted sums y[query] += p[query][t] v[t] over rows of q8 values, in increasing t.
 *
 * Written by krafla-gen from templates/axpy.c.j2 and isa_specs/neon.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* 4 queries share the values; sums stay in registers across the rows. */
static void queries_4(float *y, size_t y_stride, const float *p, size_t p_stride, const int8_t *v, int rows,
                      int n)
{
#if defined(__aarch64__)
    int j = 0;
    for (; j + 16 <= n; j += 16) {
        float32x4_t sum0_0 = vld1q_f32(y + j);
        float32x4_t sum0_1 = vld1q_f32(y + (j + 4));
        float32x4_t sum0_2 = vld1q_f32(y + (j + 8));
        float32x4_t sum0_3 = vld1q_f32(y + (j + 12));
        float32x4_t sum1_0 = vld1q_f32((y + y_stride) + j);
        float32x4_t sum1_1 = vld1q_f32((y + y_stride) + (j + 4));
        float32x4_t sum1_2 = vld1q_f32((y + y_stride) + (j + 8));
        float32x4_t sum1_3 = vld1q_f32((y + y_stride) + (j + 12));
        float32x4_t sum2_0 = vld1q_f32((y + 2 * y_stride) + j);
        float32x4_t sum2_1 = vld1q_f32((y + 2 * y_stride) + (j + 4));
        float32x4_t sum2_2 = vld1q_f32((y + 2 * y_stride) + (j + 8));
        float32x4_t sum2_3 = vld1q_f32((y + 2 * y_stride) + (j + 12));
        float32x4_t sum3_0 = vld1q_f32((y + 3 * y_stride) + j);
        float32x4_t sum3_1 = vld1q_f32((y + 3 * y_stride) + (j + 4));
        float32x4_t sum3_2 = vld1q_f32((y + 3 * y_stride) + (j + 8));
        float32x4_t sum3_3 = vld1q_f32((y + 3 * y_stride) + (j + 12));
        for (int t = 0; t < rows; t++) {
            const float32x4_t v0 = ml_load_i8_neon((v + t * n) + j);
            const float32x4_t v1 = ml_load_i8_neon((v + t * n) + (j + 4));
            const float32x4_t v2 = ml_load_i8_neon((v + t * n) + (j + 8));
            const float32x4_t v3 = ml_load_i8_neon((v + t * n) + (j + 12));
            const float32x4_t p0 = vdupq_n_f32(p[t]);
            sum0_0 = ml_madd_neon(p0, v0, sum0_0);
            sum0_1 = ml_madd_neon(p0, v1, sum0_1);
            sum0_2 = ml_madd_neon(p0, v2, sum0_2);
            sum0_3 = ml_madd_neon(p0, v3, sum0_3);
            const float32x4_t p1 = vdupq_n_f32(p[p_stride + (size_t)t]);
            sum1_0 = ml_madd_neon(p1, v0, sum1_0);
            sum1_1 = ml_madd_neon(p1, v1, sum1_1);
            sum1_2 = ml_madd_neon(p1, v2, sum1_2);
            sum1_3 = ml_madd_neon(p1, v3, sum1_3);
            const float32x4_t p2 = vdupq_n_f32(p[2 * p_stride + (size_t)t]);
            sum2_0 = ml_madd_neon(p2, v0, sum2_0);
            sum2_1 = ml_madd_neon(p2, v1, sum2_1);
            sum2_2 = ml_madd_neon(p2, v2, sum2_2);
            sum2_3 = ml_madd_neon(p2, v3, sum2_3);
            const float32x4_t p3 = vdupq_n_f32(p[3 * p_stride + (size_t)t]);
            sum3_0 = ml_madd_neon(p3, v0, sum3_0);
            sum3_1 = ml_madd_neon(p3, v1, sum3_1);
            sum3_2 = ml_madd_neon(p3, v2, sum3_2);
            sum3_3 = ml_madd_neon(p3, v3, sum3_3);
        }
        vst1q_f32(y + j, sum0_0);
        vst1q_f32(y + (j + 4), sum0_1);
        vst1q_f32(y + (j + 8), sum0_2);
        vst1q_f32(y + (j + 12), sum0_3);
        vst1q_f32((y + y_stride) + j, sum1_0);
        vst1q_f32((y + y_stride) + (j + 4), sum1_1);
        vst1q_f32((y + y_stride) + (j + 8), sum1_2);
        vst1q_f32((y + y_stride) + (j + 12), sum1_3);
        vst1q_f32((y + 2 * y_stride) + j, sum2_0);
        vst1q_f32((y + 2 * y_stride) + (j + 4), sum2_1);
        vst1q_f32((y + 2 * y_stride) + (j + 8), sum2_2);
        vst1q_f32((y + 2 * y_stride) + (j + 12), sum2_3);
        vst1q_f32((y + 3 * y_stride) + j, sum3_0);
        vst1q_f32((y + 3 * y_stride) + (j + 4), sum3_1);
        vst1q_f32((y + 3 * y_stride) + (j + 8), sum3_2);
        vst1q_f32((y + 3 * y_stride) + (j + 12), sum3_3);
    }
    for (; j + 4 <= n; j += 4) {
        float32x4_t sum0_0 = vld1q_f32(y + j);
        float32x4_t sum1_0 = vld1q_f32((y + y_stride) + j);
        float32x4_t sum2_0 = vld1q_f32((y + 2 * y_stride) + j);
        float32x4_t sum3_0 = vld1q_f32((y + 3 * y_stride) + j);
        for (int t = 0; t < rows; t++) {
            const float32x4_t v0 = ml_load_i8_neon((v + t * n) + j);
            const float32x4_t p0 = vdupq_n_f32(p[t]);
            sum0_0 = ml_madd_neon(p0, v0, sum0_0);
            const float32x4_t p1 = vdupq_n_f32(p[p_stride + (size_t)t]);
            sum1_0 = ml_madd_neon(p1, v0, sum1_0);
            const float32x4_t p2 = vdupq_n_f32(p[2 * p_stride + (size_t)t]);
            sum2_0 = ml_madd_neon(p2, v0, sum2_0);
            const float32x4_t p3 = vdupq_n_f32(p[3 * p_stride + (size_t)t]);
            sum3_0 = ml_madd_neon(p3, v0, sum3_0);
        }
        vst1q_f32(y + j, sum0_0);
        vst1q_f32((y + y_stride) + j, sum1_0);
        vst1q_f32((y + 2 * y_stride) + j, sum2_0);
        vst1q_f32((y + 3 * y_stride) + j, sum3_0);
    }
    for (; j < n; j++) { /* the rest, one by one */
        float sum0_0 = y[j];
        float sum1_0 = (y + y_stride)[j];
        float sum2_0 = (y + 2 * y_stride)[j];
        float sum3_0 = (y + 3 * y_stride)[j];
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
        }
        y[j] = sum0_0;
        (y + y_stride)[j] = sum1_0;
        (y + 2 * y_stride)[j] = sum2_0;
        (y + 3 * y_stride)[j] = sum3_0;
    }
#else
    int j = 0;
    for (; j + 8 <= n; j += 8) {
        float32x4_t sum0_0 = vld1q_f32(y + j);
        float32x4_t sum0_1 = vld1q_f32(y + (j + 4));
        float32x4_t sum1_0 = vld1q_f32((y + y_stride) + j);
        float32x4_t sum1_1 = vld1q_f32((y + y_stride) + (j + 4));
        float32x4_t sum2_0 = vld1q_f32((y + 2 * y_stride) + j);
        float32x4_t sum2_1 = vld1q_f32((y + 2 * y_stride) + (j + 4));
        float32x4_t sum3_0 = vld1q_f32((y + 3 * y_stride) + j);
        float32x4_t sum3_1 = vld1q_f32((y + 3 * y_stride) + (j + 4));
        for (int t = 0; t < rows; t++) {
            const float32x4_t v0 = ml_load_i8_neon((v + t * n) + j);
            const float32x4_t v1 = ml_load_i8_neon((v + t * n) + (j + 4));
            const float32x4_t p0 = vdupq_n_f32(p[t]);
            sum0_0 = ml_madd_neon(p0, v0, sum0_0);
            sum0_1 = ml_madd_neon(p0, v1, sum0_1);
            const float32x4_t p1 = vdupq_n_f32(p[p_stride + (size_t)t]);
            sum1_0 = ml_madd_neon(p1, v0, sum1_0);
            sum1_1 = ml_madd_neon(p1, v1, sum1_1);
            const float32x4_t p2 = vdupq_n_f32(p[2 * p_stride + (size_t)t]);
            sum2_0 = ml_madd_neon(p2, v0, sum2_0);
            sum2_1 = ml_madd_neon(p2, v1, sum2_1);
            const float32x4_t p3 = vdupq_n_f32(p[3 * p_stride + (size_t)t]);
            sum3_0 = ml_madd_neon(p3, v0, sum3_0);
            sum3_1 = ml_madd_neon(p3, v1, sum3_1);
        }
        vst1q_f32(y + j, sum0_0);
        vst1q_f32(y + (j + 4), sum0_1);
        vst1q_f32((y + y_stride) + j, sum1_0);
        vst1q_f32((y + y_stride) + (j + 4), sum1_1);
        vst1q_f32((y + 2 * y_stride) + j, sum2_0);
        vst1q_f32((y + 2 * y_stride) + (j + 4), sum2_1);
        vst1q_f32((y + 3 * y_stride) + j, sum3_0);
        vst1q_f32((y + 3 * y_stride) + (j + 4), sum3_1);
    }
    for (; j + 4 <= n; j += 4) {
        float32x4_t sum0_0 = vld1q_f32(y + j);
        float32x4_t sum1_0 = vld1q_f32((y + y_stride) + j);
        float32x4_t sum2_0 = vld1q_f32((y + 2 * y_stride) + j);
        float32x4_t sum3_0 = vld1q_f32((y + 3 * y_stride) + j);
        for (int t = 0; t < rows; t++) {
            const float32x4_t v0 = ml_load_i8_neon((v + t * n) + j);
            const float32x4_t p0 = vdupq_n_f32(p[t]);
            sum0_0 = ml_madd_neon(p0, v0, sum0_0);
            const float32x4_t p1 = vdupq_n_f32(p[p_stride + (size_t)t]);
            sum1_0 = ml_madd_neon(p1, v0, sum1_0);
            const float32x4_t p2 = vdupq_n_f32(p[2 * p_stride + (size_t)t]);
            sum2_0 = ml_madd_neon(p2, v0, sum2_0);
            const float32x4_t p3 = vdupq_n_f32(p[3 * p_stride + (size_t)t]);
            sum3_0 = ml_madd_neon(p3, v0, sum3_0);
        }
        vst1q_f32(y + j, sum0_0);
        vst1q_f32((y + y_stride) + j, sum1_0);
        vst1q_f32((y + 2 * y_stride) + j, sum2_0);
        vst1q_f32((y + 3 * y_stride) + j, sum3_0);
    }
    for (; j < n; j++) { /* the rest, one by one */
        float sum0_0 = y[j];
        float sum1_0 = (y + y_stride)[j];
        float sum2_0 = (y + 2 * y_stride)[j];
        float sum3_0 = (y + 3 * y_stride)[j];
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
        }
        y[j] = sum0_0;
        (y + y_stride)[j] = sum1_0;
        (y + 2 * y_stride)[j] = sum2_0;
        (y + 3 * y_stride)[j] = sum3_0;
    }
#endif
}

/* 2 queries share the values; sums stay in registers across the rows. */
static void queries_2(float *y, size_t y_stride, const float *p, size_t p_stride, const int8_t *v, int rows,
                      int n)
{
#if defined(__aarch64__)
    int j = 0;
    for (; j + 16 <= n; j += 16) {
        float32x4_t sum0_0 = vld1q_f32(y + j);
        float32x4_t sum0_1 = vld1q_f32(y + (j + 4));
        float32x4_t sum0_2 = vld1q_f32(y + (j + 8));
        float32x4_t sum0_3 = vld1q_f32(y + (j + 12));
        float32x4_t sum1_0 = vld1q_f32((y + y_stride) + j);
        float32x4_t sum1_1 = vld1q_f32((y + y_stride) + (j + 4));
        float32x4_t sum1_2 = vld1q_f32((y + y_stride) + (j + 8));
        float32x4_t sum1_3 = vld1q_f32((y + y_stride) + (j + 12));
        for (int t = 0; t < rows; t++) {
            const float32x4_t v0 = ml_load_i8_neon((v + t * n) + j);
            const float32x4_t v1 = ml_load_i8_neon((v + t * n) + (j + 4));
            const float32x4_t v2 = ml_load_i8_neon((v + t * n) + (j + 8));
            const float32x4_t v3 = ml_load_i8_neon((v + t * n) + (j + 12));
            const float32x4_t p0 = vdupq_n_f32(p[t]);
            sum0_0 = ml_madd_neon(p0, v0, sum0_0);
            sum0_1 = ml_madd_neon(p0, v1, sum0_1);
            sum0_2 = ml_madd_neon(p0, v2, sum0_2);
            sum0_3 = ml_madd_neon(p0, v3, sum0_3);
            const float32x4_t p1 = vdupq_n_f32(p[p_stride + (size_t)t]);
            sum1_0 = ml_madd_neon(p1, v0, sum1_0);
            sum1_1 = ml_madd_neon(p1, v1, sum1_1);
            sum1_2 = ml_madd_neon(p1, v2, sum1_2);
            sum1_3 = ml_madd_neon(p1, v3, sum1_3);
        }
        vst1q_f32(y + j, sum0_0);
        vst1q_f32(y + (j + 4), sum0_1);
        vst1q_f32(y + (j + 8), sum0_2);
        vst1q_f32(y + (j + 12), sum0_3);
        vst1q_f32((y + y_stride) + j, sum1_0);
        vst1q_f32((y + y_stride) + (j + 4), sum1_1);
        vst1q_f32((y + y_stride) + (j + 8), sum1_2);
        vst1q_f32((y + y_stride) + (j + 12), sum1_3);
    }
    for (; j + 4 <= n; j += 4) {
        float32x4_t sum0_0 = vld1q_f32(y + j);
        float32x4_t sum1_0 = vld1q_f32((y + y_stride) + j);
        for (int t = 0; t < rows; t++) {
            const float32x4_t v0 = ml_load_i8_neon((v + t * n) + j);
            const float32x4_t p0 = vdupq_n_f32(p[t]);
            sum0_0 = ml_madd_neon(p0, v0, sum0_0);
            const float32x4_t p1 = vdupq_n_f32(p[p_stride + (size_t)t]);
            sum1_0 = ml_madd_neon(p1, v0, sum1_0);
        }
        vst1q_f32(y + j, sum0_0);
        vst1q_f32((y + y_stride) + j, sum1_0);
    }
    for (; j < n; j++) { /* the rest, one by one */
        float sum0_0 = y[j];
        float sum1_0 = (y + y_stride)[j];
        for (int t = 0; t < rows; t++) {
            const float v0 = (float)(v + t * n)[j];
            const float p0 = p[t];
            sum0_0 = ml_madd(p0, v0, sum0_0);
            const float p1 = p[p_stride + (size_t)t];
            sum1_0 = ml_madd(p1, v0, sum1_0);
        }
        y[j] = sum0_0;
        (y + y_stride)[j] = sum1_0;
    }
#else
    int j = 0;
    for (; j + 8 <= n; j += 8) {
        float32x4_t sum0_0 = vld1q_f32(y + j);
        float32x4_t sum0_1 = vld1q_f32(y + (j + 4));
        float32x4_t sum1_0 = vld1q_f32((y + y_stride) + j);
        float32x4_t sum1_1 = vld1q_f32((y + y_stride) + (j + 4));
        for (int t = 0; t < rows; t++) {
            const float32x4_t v0 = ml_load_i8_neon((v + t * n) + j);
            const float32x4_t v1 = ml_load_i8_neon((v + t * n) + (j + 4));
            const float32x4_t p0 = vdupq_n_f32(p[t]);
            sum0_0 = ml_madd_neon(p0, v0, sum0_0);
            sum0_1 = ml_madd_neon(p0, v1, sum0_1);
            const float32x4_t p1 = vdupq_n_f32(p[p_stride + (size_t)t]);
            sum1_0 = ml_madd_neon(p1, v0, sum1_0);
            sum1_1 = ml_madd_neon(p1, v1, sum1_1);
        }
        vst1q_f32(y + j, sum0_0);
        vst1q_f32(y + (j + 4), sum0_1);
        vst1q_f32((y + y_stride) + j, sum1_0);
        vst1q_f32((y + y_stride) + (j + 4), sum1_1);
    }
    for (; j + 4 <= n; j += 4) {
        float32x4_t sum0_0 = vld1q_f32(y + j);
        float32x4_t sum1_0 = vld1q_f32((y + y_stride) + j);
        for (int t = 0; t < rows; t++) {
            const float32x4_t v0 = ml_load_i8_neon((v + t * n) + j);
            const float32x4_t p0 = vdupq_n_f32(p[t]);
            sum0_0 = ml_madd_neon(p0, v0, sum0_0);
            const float32x4_t p1 = vdupq_n_f32(p[p_stride + (size_t)t]);
            sum1_0 = ml_madd_neon(p1, v0, sum1_0);
        }
        vst1q_f32(y + j, sum0_0);
        vst1q_f32((y + y_stride) + j, sum1_0);
    }
    for (; j < n; j++) { /* the rest, one by one */
        float sum0_0 = y[j];
        float sum1_0 = (y + y_stride)[j];
        for (int t = 0; t < rows; t++) {
            const float v0 = (float)(v + t * n)[j];
            const float p0 = p[t];
            sum0_0 = ml_madd(p0, v0, sum0_0);
            const float p1 = p[p_stride + (size_t)t];
            sum1_0 = ml_madd(p1, v0, sum1_0);
        }
        y[j] = sum0_0;
        (y + y_stride)[j] = sum1_0;
    }
#endif
}

/* 1 query weighs the values; sums stay in registers across the rows. */
static void queries_1(float *y, const float *p, const int8_t *v, int rows, int n)
{
#if defined(__aarch64__)
    int j = 0;
    for (; j + 16 <= n; j += 16) {
        float32x4_t sum0_0 = vld1q_f32(y + j);
        float32x4_t sum0_1 = vld1q_f32(y + (j + 4));
        float32x4_t sum0_2 = vld1q_f32(y + (j + 8));
        float32x4_t sum0_3 = vld1q_f32(y + (j + 12));
        for (int t = 0; t < rows; t++) {
            const float32x4_t v0 = ml_load_i8_neon((v + t * n) + j);
            const float32x4_t v1 = ml_load_i8_neon((v + t * n) + (j + 4));
            const float32x4_t v2 = ml_load_i8_neon((v + t * n) + (j + 8));
            const float32x4_t v3 = ml_load_i8_neon((v + t * n) + (j + 12));
            const float32x4_t p0 = vdupq_n_f32(p[t]);
            sum0_0 = ml_madd_neon(p0, v0, sum0_0);
            sum0_1 = ml_madd_neon(p0, v1, sum0_1);
            sum0_2 = ml_madd_neon(p0, v2, sum0_2);
            sum0_3 = ml_madd_neon(p0, v3, sum0_3);
        }
        vst1q_f32(y + j, sum0_0);
        vst1q_f32(y + (j + 4), sum0_1);
        vst1q_f32(y + (j + 8), sum0_2);
        vst1q_f32(y + (j + 12), sum0_3);
    }
    for (; j + 4 <= n; j += 4) {
        float32x4_t sum0_0 = vld1q_f32(y + j);
        for (int t = 0; t < rows; t++) {
            const float32x4_t v0 = ml_load_i8_neon((v + t * n) + j);
            const float32x4_t p0 = vdupq_n_f32(p[t]);
            sum0_0 = ml_madd_neon(p0, v0, sum0_0);
        }
        vst1q_f32(y + j, sum0_0);
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
#else
    int j = 0;
    for (; j + 8 <= n; j += 8) {
        float32x4_t sum0_0 = vld1q_f32(y + j);
        float32x4_t sum0_1 = vld1q_f32(y + (j + 4));
        for (int t = 0; t < rows; t++) {
            const float32x4_t v0 = ml_load_i8_neon((v + t * n) + j);
            const float32x4_t v1 = ml_load_i8_neon((v + t * n) + (j + 4));
            const float32x4_t p0 = vdupq_n_f32(p[t]);
            sum0_0 = ml_madd_neon(p0, v0, sum0_0);
            sum0_1 = ml_madd_neon(p0, v1, sum0_1);
        }
        vst1q_f32(y + j, sum0_0);
        vst1q_f32(y + (j + 4), sum0_1);
    }
    for (; j + 4 <= n; j += 4) {
        float32x4_t sum0_0 = vld1q_f32(y + j);
        for (int t = 0; t < rows; t++) {
            const float32x4_t v0 = ml_load_i8_neon((v + t * n) + j);
            const float32x4_t p0 = vdupq_n_f32(p[t]);
            sum0_0 = ml_madd_neon(p0, v0, sum0_0);
        }
        vst1q_f32(y + j, sum0_0);
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
#endif
}

void ml_k_axpy_q8_neon(float *y, size_t y_stride, const float *p, size_t p_stride, int queries,
                       const int8_t *v, int rows, int n)
{
    int i = 0;
    for (; i + 4 <= queries; i += 4)
        queries_4(y + (size_t)i * y_stride, y_stride, p + (size_t)i * p_stride, p_stride, v, rows, n);
    for (; i + 2 <= queries; i += 2)
        queries_2(y + (size_t)i * y_stride, y_stride, p + (size_t)i * p_stride, p_stride, v, rows, n);
    for (; i + 1 <= queries; i += 1)
        queries_1(y + (size_t)i * y_stride, p + (size_t)i * p_stride, v, rows, n);
}
