/*
 * ml_k_axpy_q8_sve
 * Weighted sums y[query] += p[query][t] v[t] over rows of q8 values, in increasing t.
 *
 * Written by krafla-gen from templates/axpy.c.j2 and isa_specs/sve.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* 8 queries share the values; sums stay in registers across the rows. */
static void queries_8(float *y, size_t y_stride, const float *p, size_t p_stride, const int8_t *v, int rows,
                      int n)
{
    for (int j = 0; j < n; j += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(j, n);
        svfloat32_t sum0_0 = svld1_f32(pg, y + j);
        svfloat32_t sum1_0 = svld1_f32(pg, (y + y_stride) + j);
        svfloat32_t sum2_0 = svld1_f32(pg, (y + 2 * y_stride) + j);
        svfloat32_t sum3_0 = svld1_f32(pg, (y + 3 * y_stride) + j);
        svfloat32_t sum4_0 = svld1_f32(pg, (y + 4 * y_stride) + j);
        svfloat32_t sum5_0 = svld1_f32(pg, (y + 5 * y_stride) + j);
        svfloat32_t sum6_0 = svld1_f32(pg, (y + 6 * y_stride) + j);
        svfloat32_t sum7_0 = svld1_f32(pg, (y + 7 * y_stride) + j);
        for (int t = 0; t < rows; t++) {
            const svfloat32_t v0 = svcvt_f32_s32_x(pg, svld1sb_s32(pg, (v + t * n) + j));
            const svfloat32_t p0 = svdup_n_f32(p[t]);
            sum0_0 = svmla_f32_x(pg, sum0_0, p0, v0);
            const svfloat32_t p1 = svdup_n_f32(p[p_stride + (size_t)t]);
            sum1_0 = svmla_f32_x(pg, sum1_0, p1, v0);
            const svfloat32_t p2 = svdup_n_f32(p[2 * p_stride + (size_t)t]);
            sum2_0 = svmla_f32_x(pg, sum2_0, p2, v0);
            const svfloat32_t p3 = svdup_n_f32(p[3 * p_stride + (size_t)t]);
            sum3_0 = svmla_f32_x(pg, sum3_0, p3, v0);
            const svfloat32_t p4 = svdup_n_f32(p[4 * p_stride + (size_t)t]);
            sum4_0 = svmla_f32_x(pg, sum4_0, p4, v0);
            const svfloat32_t p5 = svdup_n_f32(p[5 * p_stride + (size_t)t]);
            sum5_0 = svmla_f32_x(pg, sum5_0, p5, v0);
            const svfloat32_t p6 = svdup_n_f32(p[6 * p_stride + (size_t)t]);
            sum6_0 = svmla_f32_x(pg, sum6_0, p6, v0);
            const svfloat32_t p7 = svdup_n_f32(p[7 * p_stride + (size_t)t]);
            sum7_0 = svmla_f32_x(pg, sum7_0, p7, v0);
        }
        svst1_f32(pg, y + j, sum0_0);
        svst1_f32(pg, (y + y_stride) + j, sum1_0);
        svst1_f32(pg, (y + 2 * y_stride) + j, sum2_0);
        svst1_f32(pg, (y + 3 * y_stride) + j, sum3_0);
        svst1_f32(pg, (y + 4 * y_stride) + j, sum4_0);
        svst1_f32(pg, (y + 5 * y_stride) + j, sum5_0);
        svst1_f32(pg, (y + 6 * y_stride) + j, sum6_0);
        svst1_f32(pg, (y + 7 * y_stride) + j, sum7_0);
    }
}

/* 4 queries share the values; sums stay in registers across the rows. */
static void queries_4(float *y, size_t y_stride, const float *p, size_t p_stride, const int8_t *v, int rows,
                      int n)
{
    for (int j = 0; j < n; j += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(j, n);
        svfloat32_t sum0_0 = svld1_f32(pg, y + j);
        svfloat32_t sum1_0 = svld1_f32(pg, (y + y_stride) + j);
        svfloat32_t sum2_0 = svld1_f32(pg, (y + 2 * y_stride) + j);
        svfloat32_t sum3_0 = svld1_f32(pg, (y + 3 * y_stride) + j);
        for (int t = 0; t < rows; t++) {
            const svfloat32_t v0 = svcvt_f32_s32_x(pg, svld1sb_s32(pg, (v + t * n) + j));
            const svfloat32_t p0 = svdup_n_f32(p[t]);
            sum0_0 = svmla_f32_x(pg, sum0_0, p0, v0);
            const svfloat32_t p1 = svdup_n_f32(p[p_stride + (size_t)t]);
            sum1_0 = svmla_f32_x(pg, sum1_0, p1, v0);
            const svfloat32_t p2 = svdup_n_f32(p[2 * p_stride + (size_t)t]);
            sum2_0 = svmla_f32_x(pg, sum2_0, p2, v0);
            const svfloat32_t p3 = svdup_n_f32(p[3 * p_stride + (size_t)t]);
            sum3_0 = svmla_f32_x(pg, sum3_0, p3, v0);
        }
        svst1_f32(pg, y + j, sum0_0);
        svst1_f32(pg, (y + y_stride) + j, sum1_0);
        svst1_f32(pg, (y + 2 * y_stride) + j, sum2_0);
        svst1_f32(pg, (y + 3 * y_stride) + j, sum3_0);
    }
}

/* 2 queries share the values; sums stay in registers across the rows. */
static void queries_2(float *y, size_t y_stride, const float *p, size_t p_stride, const int8_t *v, int rows,
                      int n)
{
    for (int j = 0; j < n; j += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(j, n);
        svfloat32_t sum0_0 = svld1_f32(pg, y + j);
        svfloat32_t sum1_0 = svld1_f32(pg, (y + y_stride) + j);
        for (int t = 0; t < rows; t++) {
            const svfloat32_t v0 = svcvt_f32_s32_x(pg, svld1sb_s32(pg, (v + t * n) + j));
            const svfloat32_t p0 = svdup_n_f32(p[t]);
            sum0_0 = svmla_f32_x(pg, sum0_0, p0, v0);
            const svfloat32_t p1 = svdup_n_f32(p[p_stride + (size_t)t]);
            sum1_0 = svmla_f32_x(pg, sum1_0, p1, v0);
        }
        svst1_f32(pg, y + j, sum0_0);
        svst1_f32(pg, (y + y_stride) + j, sum1_0);
    }
}

/* 1 query weighs the values; sums stay in registers across the rows. */
static void queries_1(float *y, const float *p, const int8_t *v, int rows, int n)
{
    for (int j = 0; j < n; j += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(j, n);
        svfloat32_t sum0_0 = svld1_f32(pg, y + j);
        for (int t = 0; t < rows; t++) {
            const svfloat32_t v0 = svcvt_f32_s32_x(pg, svld1sb_s32(pg, (v + t * n) + j));
            const svfloat32_t p0 = svdup_n_f32(p[t]);
            sum0_0 = svmla_f32_x(pg, sum0_0, p0, v0);
        }
        svst1_f32(pg, y + j, sum0_0);
    }
}

void ml_k_axpy_q8_sve(float *y, size_t y_stride, const float *p, size_t p_stride, int queries,
                      const int8_t *v, int rows, int n)
{
    int i = 0;
    for (; i + 8 <= queries; i += 8)
        queries_8(y + (size_t)i * y_stride, y_stride, p + (size_t)i * p_stride, p_stride, v, rows, n);
    for (; i + 4 <= queries; i += 4)
        queries_4(y + (size_t)i * y_stride, y_stride, p + (size_t)i * p_stride, p_stride, v, rows, n);
    for (; i + 2 <= queries; i += 2)
        queries_2(y + (size_t)i * y_stride, y_stride, p + (size_t)i * p_stride, p_stride, v, rows, n);
    for (; i + 1 <= queries; i += 1)
        queries_1(y + (size_t)i * y_stride, p + (size_t)i * p_stride, v, rows, n);
}
