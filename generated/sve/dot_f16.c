/*
 * ml_k_dot_f16_sve
 * Scores s[query][position] = q[query] . k[position] over one page of f16 keys.
 *
 * Written by krafla-gen from templates/dot.c.j2 and isa_specs/sve.py (facets: f32, f16); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* 8 queries share the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_8(float *s, size_t s_stride, const float *q, size_t q_stride, const uint16_t *k, int n)
{
    for (int t = 0; t < 64; t += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(t, 64);
        svfloat32_t sum0_0 = svdup_n_f32(0.0f);
        svfloat32_t sum1_0 = svdup_n_f32(0.0f);
        svfloat32_t sum2_0 = svdup_n_f32(0.0f);
        svfloat32_t sum3_0 = svdup_n_f32(0.0f);
        svfloat32_t sum4_0 = svdup_n_f32(0.0f);
        svfloat32_t sum5_0 = svdup_n_f32(0.0f);
        svfloat32_t sum6_0 = svdup_n_f32(0.0f);
        svfloat32_t sum7_0 = svdup_n_f32(0.0f);
        for (int d = 0; d < n; d++) {
            const svfloat32_t k0 = ml_load_f16_sve(pg, (k + d * ML_PAGE) + t);
            const svfloat32_t q0 = svdup_n_f32(q[d]);
            sum0_0 = svmla_f32_x(pg, sum0_0, q0, k0);
            const svfloat32_t q1 = svdup_n_f32(q[q_stride + (size_t)d]);
            sum1_0 = svmla_f32_x(pg, sum1_0, q1, k0);
            const svfloat32_t q2 = svdup_n_f32(q[2 * q_stride + (size_t)d]);
            sum2_0 = svmla_f32_x(pg, sum2_0, q2, k0);
            const svfloat32_t q3 = svdup_n_f32(q[3 * q_stride + (size_t)d]);
            sum3_0 = svmla_f32_x(pg, sum3_0, q3, k0);
            const svfloat32_t q4 = svdup_n_f32(q[4 * q_stride + (size_t)d]);
            sum4_0 = svmla_f32_x(pg, sum4_0, q4, k0);
            const svfloat32_t q5 = svdup_n_f32(q[5 * q_stride + (size_t)d]);
            sum5_0 = svmla_f32_x(pg, sum5_0, q5, k0);
            const svfloat32_t q6 = svdup_n_f32(q[6 * q_stride + (size_t)d]);
            sum6_0 = svmla_f32_x(pg, sum6_0, q6, k0);
            const svfloat32_t q7 = svdup_n_f32(q[7 * q_stride + (size_t)d]);
            sum7_0 = svmla_f32_x(pg, sum7_0, q7, k0);
        }
        svst1_f32(pg, s + t, sum0_0);
        svst1_f32(pg, (s + s_stride) + t, sum1_0);
        svst1_f32(pg, (s + 2 * s_stride) + t, sum2_0);
        svst1_f32(pg, (s + 3 * s_stride) + t, sum3_0);
        svst1_f32(pg, (s + 4 * s_stride) + t, sum4_0);
        svst1_f32(pg, (s + 5 * s_stride) + t, sum5_0);
        svst1_f32(pg, (s + 6 * s_stride) + t, sum6_0);
        svst1_f32(pg, (s + 7 * s_stride) + t, sum7_0);
    }
}

/* 4 queries share the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_4(float *s, size_t s_stride, const float *q, size_t q_stride, const uint16_t *k, int n)
{
    for (int t = 0; t < 64; t += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(t, 64);
        svfloat32_t sum0_0 = svdup_n_f32(0.0f);
        svfloat32_t sum1_0 = svdup_n_f32(0.0f);
        svfloat32_t sum2_0 = svdup_n_f32(0.0f);
        svfloat32_t sum3_0 = svdup_n_f32(0.0f);
        for (int d = 0; d < n; d++) {
            const svfloat32_t k0 = ml_load_f16_sve(pg, (k + d * ML_PAGE) + t);
            const svfloat32_t q0 = svdup_n_f32(q[d]);
            sum0_0 = svmla_f32_x(pg, sum0_0, q0, k0);
            const svfloat32_t q1 = svdup_n_f32(q[q_stride + (size_t)d]);
            sum1_0 = svmla_f32_x(pg, sum1_0, q1, k0);
            const svfloat32_t q2 = svdup_n_f32(q[2 * q_stride + (size_t)d]);
            sum2_0 = svmla_f32_x(pg, sum2_0, q2, k0);
            const svfloat32_t q3 = svdup_n_f32(q[3 * q_stride + (size_t)d]);
            sum3_0 = svmla_f32_x(pg, sum3_0, q3, k0);
        }
        svst1_f32(pg, s + t, sum0_0);
        svst1_f32(pg, (s + s_stride) + t, sum1_0);
        svst1_f32(pg, (s + 2 * s_stride) + t, sum2_0);
        svst1_f32(pg, (s + 3 * s_stride) + t, sum3_0);
    }
}

/* 2 queries share the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_2(float *s, size_t s_stride, const float *q, size_t q_stride, const uint16_t *k, int n)
{
    for (int t = 0; t < 64; t += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(t, 64);
        svfloat32_t sum0_0 = svdup_n_f32(0.0f);
        svfloat32_t sum1_0 = svdup_n_f32(0.0f);
        for (int d = 0; d < n; d++) {
            const svfloat32_t k0 = ml_load_f16_sve(pg, (k + d * ML_PAGE) + t);
            const svfloat32_t q0 = svdup_n_f32(q[d]);
            sum0_0 = svmla_f32_x(pg, sum0_0, q0, k0);
            const svfloat32_t q1 = svdup_n_f32(q[q_stride + (size_t)d]);
            sum1_0 = svmla_f32_x(pg, sum1_0, q1, k0);
        }
        svst1_f32(pg, s + t, sum0_0);
        svst1_f32(pg, (s + s_stride) + t, sum1_0);
    }
}

/* 1 query against the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_1(float *s, const float *q, const uint16_t *k, int n)
{
    for (int t = 0; t < 64; t += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(t, 64);
        svfloat32_t sum0_0 = svdup_n_f32(0.0f);
        for (int d = 0; d < n; d++) {
            const svfloat32_t k0 = ml_load_f16_sve(pg, (k + d * ML_PAGE) + t);
            const svfloat32_t q0 = svdup_n_f32(q[d]);
            sum0_0 = svmla_f32_x(pg, sum0_0, q0, k0);
        }
        svst1_f32(pg, s + t, sum0_0);
    }
}

void ml_k_dot_f16_sve(float *s, size_t s_stride, const float *q, size_t q_stride, int queries,
                      const uint16_t *k, int n)
{
    int i = 0;
    for (; i + 8 <= queries; i += 8)
        queries_8(s + (size_t)i * s_stride, s_stride, q + (size_t)i * q_stride, q_stride, k, n);
    for (; i + 4 <= queries; i += 4)
        queries_4(s + (size_t)i * s_stride, s_stride, q + (size_t)i * q_stride, q_stride, k, n);
    for (; i + 2 <= queries; i += 2)
        queries_2(s + (size_t)i * s_stride, s_stride, q + (size_t)i * q_stride, q_stride, k, n);
    for (; i + 1 <= queries; i += 1)
        queries_1(s + (size_t)i * s_stride, q + (size_t)i * q_stride, k, n);
}
