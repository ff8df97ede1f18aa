/*
 * ml_k_dot_f16_rvv
 * Scores s[query][position] = q[query] . k[position] over one page of f16 keys.
 *
 * Written by krafla-gen from templates/dot.c.j2 and isa_specs/rvv.py (facets: f32, f16); do not edit.
 */
#include "ml_config.h"
#include "core/riscv_common.h"

/* 4 queries share the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_4(float *s, size_t s_stride, const float *q, size_t q_stride, const uint16_t *k, int n)
{
    for (int t = 0; t < 64;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(64 - t));
        vfloat32m4_t sum0_0 = __riscv_vfmv_v_f_f32m4(0.0f, vl);
        vfloat32m4_t sum1_0 = __riscv_vfmv_v_f_f32m4(0.0f, vl);
        vfloat32m4_t sum2_0 = __riscv_vfmv_v_f_f32m4(0.0f, vl);
        vfloat32m4_t sum3_0 = __riscv_vfmv_v_f_f32m4(0.0f, vl);
        for (int d = 0; d < n; d++) {
            const vfloat32m4_t k0 = ml_load_f16_rvv(vl, (k + d * ML_PAGE) + t);
            const vfloat32m4_t q0 = __riscv_vfmv_v_f_f32m4(q[d], vl);
            sum0_0 = __riscv_vfmacc_vv_f32m4(sum0_0, q0, k0, vl);
            const vfloat32m4_t q1 = __riscv_vfmv_v_f_f32m4(q[q_stride + (size_t)d], vl);
            sum1_0 = __riscv_vfmacc_vv_f32m4(sum1_0, q1, k0, vl);
            const vfloat32m4_t q2 = __riscv_vfmv_v_f_f32m4(q[2 * q_stride + (size_t)d], vl);
            sum2_0 = __riscv_vfmacc_vv_f32m4(sum2_0, q2, k0, vl);
            const vfloat32m4_t q3 = __riscv_vfmv_v_f_f32m4(q[3 * q_stride + (size_t)d], vl);
            sum3_0 = __riscv_vfmacc_vv_f32m4(sum3_0, q3, k0, vl);
        }
        __riscv_vse32_v_f32m4(s + t, sum0_0, vl);
        __riscv_vse32_v_f32m4((s + s_stride) + t, sum1_0, vl);
        __riscv_vse32_v_f32m4((s + 2 * s_stride) + t, sum2_0, vl);
        __riscv_vse32_v_f32m4((s + 3 * s_stride) + t, sum3_0, vl);

        t += (int)vl;
    }
}

/* 2 queries share the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_2(float *s, size_t s_stride, const float *q, size_t q_stride, const uint16_t *k, int n)
{
    for (int t = 0; t < 64;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(64 - t));
        vfloat32m4_t sum0_0 = __riscv_vfmv_v_f_f32m4(0.0f, vl);
        vfloat32m4_t sum1_0 = __riscv_vfmv_v_f_f32m4(0.0f, vl);
        for (int d = 0; d < n; d++) {
            const vfloat32m4_t k0 = ml_load_f16_rvv(vl, (k + d * ML_PAGE) + t);
            const vfloat32m4_t q0 = __riscv_vfmv_v_f_f32m4(q[d], vl);
            sum0_0 = __riscv_vfmacc_vv_f32m4(sum0_0, q0, k0, vl);
            const vfloat32m4_t q1 = __riscv_vfmv_v_f_f32m4(q[q_stride + (size_t)d], vl);
            sum1_0 = __riscv_vfmacc_vv_f32m4(sum1_0, q1, k0, vl);
        }
        __riscv_vse32_v_f32m4(s + t, sum0_0, vl);
        __riscv_vse32_v_f32m4((s + s_stride) + t, sum1_0, vl);

        t += (int)vl;
    }
}

/* 1 query against the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_1(float *s, const float *q, const uint16_t *k, int n)
{
    for (int t = 0; t < 64;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(64 - t));
        vfloat32m4_t sum0_0 = __riscv_vfmv_v_f_f32m4(0.0f, vl);
        for (int d = 0; d < n; d++) {
            const vfloat32m4_t k0 = ml_load_f16_rvv(vl, (k + d * ML_PAGE) + t);
            const vfloat32m4_t q0 = __riscv_vfmv_v_f_f32m4(q[d], vl);
            sum0_0 = __riscv_vfmacc_vv_f32m4(sum0_0, q0, k0, vl);
        }
        __riscv_vse32_v_f32m4(s + t, sum0_0, vl);

        t += (int)vl;
    }
}

void ml_k_dot_f16_rvv(float *s, size_t s_stride, const float *q, size_t q_stride, int queries,
                      const uint16_t *k, int n)
{
    int i = 0;
    for (; i + 4 <= queries; i += 4)
        queries_4(s + (size_t)i * s_stride, s_stride, q + (size_t)i * q_stride, q_stride, k, n);
    for (; i + 2 <= queries; i += 2)
        queries_2(s + (size_t)i * s_stride, s_stride, q + (size_t)i * q_stride, q_stride, k, n);
    for (; i + 1 <= queries; i += 1)
        queries_1(s + (size_t)i * s_stride, q + (size_t)i * q_stride, k, n);
}
