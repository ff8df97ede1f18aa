/*
 * ml_k_dot_f32_neon
 * Scores s[query][position] = q[query] . k[position] over one page of f32 keys.
 *
 * Written by krafla-gen from templates/dot.c.j2 and isa_specs/neon.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* 4 queries share the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_4(float *s, size_t s_stride, const float *q, size_t q_stride, const float *k, int n)
{
#if defined(__aarch64__)
    for (int t = 0; t < 64; t += 16) {
        float32x4_t sum0_0 = vdupq_n_f32(0.0f);
        float32x4_t sum0_1 = vdupq_n_f32(0.0f);
        float32x4_t sum0_2 = vdupq_n_f32(0.0f);
        float32x4_t sum0_3 = vdupq_n_f32(0.0f);
        float32x4_t sum1_0 = vdupq_n_f32(0.0f);
        float32x4_t sum1_1 = vdupq_n_f32(0.0f);
        float32x4_t sum1_2 = vdupq_n_f32(0.0f);
        float32x4_t sum1_3 = vdupq_n_f32(0.0f);
        float32x4_t sum2_0 = vdupq_n_f32(0.0f);
        float32x4_t sum2_1 = vdupq_n_f32(0.0f);
        float32x4_t sum2_2 = vdupq_n_f32(0.0f);
        float32x4_t sum2_3 = vdupq_n_f32(0.0f);
        float32x4_t sum3_0 = vdupq_n_f32(0.0f);
        float32x4_t sum3_1 = vdupq_n_f32(0.0f);
        float32x4_t sum3_2 = vdupq_n_f32(0.0f);
        float32x4_t sum3_3 = vdupq_n_f32(0.0f);
        for (int d = 0; d < n; d++) {
            const float32x4_t k0 = vld1q_f32((k + d * ML_PAGE) + t);
            const float32x4_t k1 = vld1q_f32((k + d * ML_PAGE) + (t + 4));
            const float32x4_t k2 = vld1q_f32((k + d * ML_PAGE) + (t + 8));
            const float32x4_t k3 = vld1q_f32((k + d * ML_PAGE) + (t + 12));
            const float32x4_t q0 = vdupq_n_f32(q[d]);
            sum0_0 = ml_madd_neon(q0, k0, sum0_0);
            sum0_1 = ml_madd_neon(q0, k1, sum0_1);
            sum0_2 = ml_madd_neon(q0, k2, sum0_2);
            sum0_3 = ml_madd_neon(q0, k3, sum0_3);
            const float32x4_t q1 = vdupq_n_f32(q[q_stride + (size_t)d]);
            sum1_0 = ml_madd_neon(q1, k0, sum1_0);
            sum1_1 = ml_madd_neon(q1, k1, sum1_1);
            sum1_2 = ml_madd_neon(q1, k2, sum1_2);
            sum1_3 = ml_madd_neon(q1, k3, sum1_3);
            const float32x4_t q2 = vdupq_n_f32(q[2 * q_stride + (size_t)d]);
            sum2_0 = ml_madd_neon(q2, k0, sum2_0);
            sum2_1 = ml_madd_neon(q2, k1, sum2_1);
            sum2_2 = ml_madd_neon(q2, k2, sum2_2);
            sum2_3 = ml_madd_neon(q2, k3, sum2_3);
            const float32x4_t q3 = vdupq_n_f32(q[3 * q_stride + (size_t)d]);
            sum3_0 = ml_madd_neon(q3, k0, sum3_0);
            sum3_1 = ml_madd_neon(q3, k1, sum3_1);
            sum3_2 = ml_madd_neon(q3, k2, sum3_2);
            sum3_3 = ml_madd_neon(q3, k3, sum3_3);
        }
        vst1q_f32(s + t, sum0_0);
        vst1q_f32(s + (t + 4), sum0_1);
        vst1q_f32(s + (t + 8), sum0_2);
        vst1q_f32(s + (t + 12), sum0_3);
        vst1q_f32((s + s_stride) + t, sum1_0);
        vst1q_f32((s + s_stride) + (t + 4), sum1_1);
        vst1q_f32((s + s_stride) + (t + 8), sum1_2);
        vst1q_f32((s + s_stride) + (t + 12), sum1_3);
        vst1q_f32((s + 2 * s_stride) + t, sum2_0);
        vst1q_f32((s + 2 * s_stride) + (t + 4), sum2_1);
        vst1q_f32((s + 2 * s_stride) + (t + 8), sum2_2);
        vst1q_f32((s + 2 * s_stride) + (t + 12), sum2_3);
        vst1q_f32((s + 3 * s_stride) + t, sum3_0);
        vst1q_f32((s + 3 * s_stride) + (t + 4), sum3_1);
        vst1q_f32((s + 3 * s_stride) + (t + 8), sum3_2);
        vst1q_f32((s + 3 * s_stride) + (t + 12), sum3_3);
    }
#else
    for (int t = 0; t < 64; t += 8) {
        float32x4_t sum0_0 = vdupq_n_f32(0.0f);
        float32x4_t sum0_1 = vdupq_n_f32(0.0f);
        float32x4_t sum1_0 = vdupq_n_f32(0.0f);
        float32x4_t sum1_1 = vdupq_n_f32(0.0f);
        float32x4_t sum2_0 = vdupq_n_f32(0.0f);
        float32x4_t sum2_1 = vdupq_n_f32(0.0f);
        float32x4_t sum3_0 = vdupq_n_f32(0.0f);
        float32x4_t sum3_1 = vdupq_n_f32(0.0f);
        for (int d = 0; d < n; d++) {
            const float32x4_t k0 = vld1q_f32((k + d * ML_PAGE) + t);
            const float32x4_t k1 = vld1q_f32((k + d * ML_PAGE) + (t + 4));
            const float32x4_t q0 = vdupq_n_f32(q[d]);
            sum0_0 = ml_madd_neon(q0, k0, sum0_0);
            sum0_1 = ml_madd_neon(q0, k1, sum0_1);
            const float32x4_t q1 = vdupq_n_f32(q[q_stride + (size_t)d]);
            sum1_0 = ml_madd_neon(q1, k0, sum1_0);
            sum1_1 = ml_madd_neon(q1, k1, sum1_1);
            const float32x4_t q2 = vdupq_n_f32(q[2 * q_stride + (size_t)d]);
            sum2_0 = ml_madd_neon(q2, k0, sum2_0);
            sum2_1 = ml_madd_neon(q2, k1, sum2_1);
            const float32x4_t q3 = vdupq_n_f32(q[3 * q_stride + (size_t)d]);
            sum3_0 = ml_madd_neon(q3, k0, sum3_0);
            sum3_1 = ml_madd_neon(q3, k1, sum3_1);
        }
        vst1q_f32(s + t, sum0_0);
        vst1q_f32(s + (t + 4), sum0_1);
        vst1q_f32((s + s_stride) + t, sum1_0);
        vst1q_f32((s + s_stride) + (t + 4), sum1_1);
        vst1q_f32((s + 2 * s_stride) + t, sum2_0);
        vst1q_f32((s + 2 * s_stride) + (t + 4), sum2_1);
        vst1q_f32((s + 3 * s_stride) + t, sum3_0);
        vst1q_f32((s + 3 * s_stride) + (t + 4), sum3_1);
    }
#endif
}

/* 2 queries share the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_2(float *s, size_t s_stride, const float *q, size_t q_stride, const float *k, int n)
{
#if defined(__aarch64__)
    for (int t = 0; t < 64; t += 16) {
        float32x4_t sum0_0 = vdupq_n_f32(0.0f);
        float32x4_t sum0_1 = vdupq_n_f32(0.0f);
        float32x4_t sum0_2 = vdupq_n_f32(0.0f);
        float32x4_t sum0_3 = vdupq_n_f32(0.0f);
        float32x4_t sum1_0 = vdupq_n_f32(0.0f);
        float32x4_t sum1_1 = vdupq_n_f32(0.0f);
        float32x4_t sum1_2 = vdupq_n_f32(0.0f);
        float32x4_t sum1_3 = vdupq_n_f32(0.0f);
        for (int d = 0; d < n; d++) {
            const float32x4_t k0 = vld1q_f32((k + d * ML_PAGE) + t);
            const float32x4_t k1 = vld1q_f32((k + d * ML_PAGE) + (t + 4));
            const float32x4_t k2 = vld1q_f32((k + d * ML_PAGE) + (t + 8));
            const float32x4_t k3 = vld1q_f32((k + d * ML_PAGE) + (t + 12));
            const float32x4_t q0 = vdupq_n_f32(q[d]);
            sum0_0 = ml_madd_neon(q0, k0, sum0_0);
            sum0_1 = ml_madd_neon(q0, k1, sum0_1);
            sum0_2 = ml_madd_neon(q0, k2, sum0_2);
            sum0_3 = ml_madd_neon(q0, k3, sum0_3);
            const float32x4_t q1 = vdupq_n_f32(q[q_stride + (size_t)d]);
            sum1_0 = ml_madd_neon(q1, k0, sum1_0);
            sum1_1 = ml_madd_neon(q1, k1, sum1_1);
            sum1_2 = ml_madd_neon(q1, k2, sum1_2);
            sum1_3 = ml_madd_neon(q1, k3, sum1_3);
        }
        vst1q_f32(s + t, sum0_0);
        vst1q_f32(s + (t + 4), sum0_1);
        vst1q_f32(s + (t + 8), sum0_2);
        vst1q_f32(s + (t + 12), sum0_3);
        vst1q_f32((s + s_stride) + t, sum1_0);
        vst1q_f32((s + s_stride) + (t + 4), sum1_1);
        vst1q_f32((s + s_stride) + (t + 8), sum1_2);
        vst1q_f32((s + s_stride) + (t + 12), sum1_3);
    }
#else
    for (int t = 0; t < 64; t += 8) {
        float32x4_t sum0_0 = vdupq_n_f32(0.0f);
        float32x4_t sum0_1 = vdupq_n_f32(0.0f);
        float32x4_t sum1_0 = vdupq_n_f32(0.0f);
        float32x4_t sum1_1 = vdupq_n_f32(0.0f);
        for (int d = 0; d < n; d++) {
            const float32x4_t k0 = vld1q_f32((k + d * ML_PAGE) + t);
            const float32x4_t k1 = vld1q_f32((k + d * ML_PAGE) + (t + 4));
            const float32x4_t q0 = vdupq_n_f32(q[d]);
            sum0_0 = ml_madd_neon(q0, k0, sum0_0);
            sum0_1 = ml_madd_neon(q0, k1, sum0_1);
            const float32x4_t q1 = vdupq_n_f32(q[q_stride + (size_t)d]);
            sum1_0 = ml_madd_neon(q1, k0, sum1_0);
            sum1_1 = ml_madd_neon(q1, k1, sum1_1);
        }
        vst1q_f32(s + t, sum0_0);
        vst1q_f32(s + (t + 4), sum0_1);
        vst1q_f32((s + s_stride) + t, sum1_0);
        vst1q_f32((s + s_stride) + (t + 4), sum1_1);
    }
#endif
}

/* 1 query against the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_1(float *s, const float *q, const float *k, int n)
{
#if defined(__aarch64__)
    for (int t = 0; t < 64; t += 16) {
        float32x4_t sum0_0 = vdupq_n_f32(0.0f);
        float32x4_t sum0_1 = vdupq_n_f32(0.0f);
        float32x4_t sum0_2 = vdupq_n_f32(0.0f);
        float32x4_t sum0_3 = vdupq_n_f32(0.0f);
        for (int d = 0; d < n; d++) {
            const float32x4_t k0 = vld1q_f32((k + d * ML_PAGE) + t);
            const float32x4_t k1 = vld1q_f32((k + d * ML_PAGE) + (t + 4));
            const float32x4_t k2 = vld1q_f32((k + d * ML_PAGE) + (t + 8));
            const float32x4_t k3 = vld1q_f32((k + d * ML_PAGE) + (t + 12));
            const float32x4_t q0 = vdupq_n_f32(q[d]);
            sum0_0 = ml_madd_neon(q0, k0, sum0_0);
            sum0_1 = ml_madd_neon(q0, k1, sum0_1);
            sum0_2 = ml_madd_neon(q0, k2, sum0_2);
            sum0_3 = ml_madd_neon(q0, k3, sum0_3);
        }
        vst1q_f32(s + t, sum0_0);
        vst1q_f32(s + (t + 4), sum0_1);
        vst1q_f32(s + (t + 8), sum0_2);
        vst1q_f32(s + (t + 12), sum0_3);
    }
#else
    for (int t = 0; t < 64; t += 8) {
        float32x4_t sum0_0 = vdupq_n_f32(0.0f);
        float32x4_t sum0_1 = vdupq_n_f32(0.0f);
        for (int d = 0; d < n; d++) {
            const float32x4_t k0 = vld1q_f32((k + d * ML_PAGE) + t);
            const float32x4_t k1 = vld1q_f32((k + d * ML_PAGE) + (t + 4));
            const float32x4_t q0 = vdupq_n_f32(q[d]);
            sum0_0 = ml_madd_neon(q0, k0, sum0_0);
            sum0_1 = ml_madd_neon(q0, k1, sum0_1);
        }
        vst1q_f32(s + t, sum0_0);
        vst1q_f32(s + (t + 4), sum0_1);
    }
#endif
}

void ml_k_dot_f32_neon(float *s, size_t s_stride, const float *q, size_t q_stride, int queries,
                       const float *k, int n)
{
    int i = 0;
    for (; i + 4 <= queries; i += 4)
        queries_4(s + (size_t)i * s_stride, s_stride, q + (size_t)i * q_stride, q_stride, k, n);
    for (; i + 2 <= queries; i += 2)
        queries_2(s + (size_t)i * s_stride, s_stride, q + (size_t)i * q_stride, q_stride, k, n);
    for (; i + 1 <= queries; i += 1)
        queries_1(s + (size_t)i * s_stride, q + (size_t)i * q_stride, k, n);
}
