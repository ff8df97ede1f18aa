/*
 * ml_k_axpy_q8_rvv
 * Weighted sums y[query] += p[query][t] v[t] over rows of q8 values, in increasing t.
 *
 * Written by krafla-gen from templates/axpy.c.j2 and isa_specs/rvv.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/riscv_common.h"

/* 4 queries share the values; sums stay in registers across the rows. */
static void queries_4(float *y, size_t y_stride, const float *p, size_t p_stride, const int8_t *v, int rows,
                      int n)
{
    for (int j = 0; j < n;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(n - j));
        vfloat32m4_t sum0_0 = __riscv_vle32_v_f32m4(y + j, vl);
        vfloat32m4_t sum1_0 = __riscv_vle32_v_f32m4((y + y_stride) + j, vl);
        vfloat32m4_t sum2_0 = __riscv_vle32_v_f32m4((y + 2 * y_stride) + j, vl);
        vfloat32m4_t sum3_0 = __riscv_vle32_v_f32m4((y + 3 * y_stride) + j, vl);
        for (int t = 0; t < rows; t++) {
            const vfloat32m4_t v0 = ml_load_i8_rvv(vl, (v + t * n) + j);
            const vfloat32m4_t p0 = __riscv_vfmv_v_f_f32m4(p[t], vl);
            sum0_0 = __riscv_vfmacc_vv_f32m4(sum0_0, p0, v0, vl);
            const vfloat32m4_t p1 = __riscv_vfmv_v_f_f32m4(p[p_stride + (size_t)t], vl);
            sum1_0 = __riscv_vfmacc_vv_f32m4(sum1_0, p1, v0, vl);
            const vfloat32m4_t p2 = __riscv_vfmv_v_f_f32m4(p[2 * p_stride + (size_t)t], vl);
            sum2_0 = __riscv_vfmacc_vv_f32m4(sum2_0, p2, v0, vl);
            const vfloat32m4_t p3 = __riscv_vfmv_v_f_f32m4(p[3 * p_stride + (size_t)t], vl);
            sum3_0 = __riscv_vfmacc_vv_f32m4(sum3_0, p3, v0, vl);
        }
        __riscv_vse32_v_f32m4(y + j, sum0_0, vl);
        __riscv_vse32_v_f32m4((y + y_stride) + j, sum1_0, vl);
        __riscv_vse32_v_f32m4((y + 2 * y_stride) + j, sum2_0, vl);
        __riscv_vse32_v_f32m4((y + 3 * y_stride) + j, sum3_0, vl);

        j += (int)vl;
    }
}

/* 2 queries share the values; sums stay in registers across the rows. */
static void queries_2(float *y, size_t y_stride, const float *p, size_t p_stride, const int8_t *v, int rows,
                      int n)
{
    for (int j = 0; j < n;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(n - j));
        vfloat32m4_t sum0_0 = __riscv_vle32_v_f32m4(y + j, vl);
        vfloat32m4_t sum1_0 = __riscv_vle32_v_f32m4((y + y_stride) + j, vl);
        for (int t = 0; t < rows; t++) {
            const vfloat32m4_t v0 = ml_load_i8_rvv(vl, (v + t * n) + j);
            const vfloat32m4_t p0 = __riscv_vfmv_v_f_f32m4(p[t], vl);
            sum0_0 = __riscv_vfmacc_vv_f32m4(sum0_0, p0, v0, vl);
            const vfloat32m4_t p1 = __riscv_vfmv_v_f_f32m4(p[p_stride + (size_t)t], vl);
            sum1_0 = __riscv_vfmacc_vv_f32m4(sum1_0, p1, v0, vl);
        }
        __riscv_vse32_v_f32m4(y + j, sum0_0, vl);
        __riscv_vse32_v_f32m4((y + y_stride) + j, sum1_0, vl);

        j += (int)vl;
    }
}

/* 1 query weighs the values; sums stay in registers across the rows. */
static void queries_1(float *y, const float *p, const int8_t *v, int rows, int n)
{
    for (int j = 0; j < n;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(n - j));
        vfloat32m4_t sum0_0 = __riscv_vle32_v_f32m4(y + j, vl);
        for (int t = 0; t < rows; t++) {
            const vfloat32m4_t v0 = ml_load_i8_rvv(vl, (v + t * n) + j);
            const vfloat32m4_t p0 = __riscv_vfmv_v_f_f32m4(p[t], vl);
            sum0_0 = __riscv_vfmacc_vv_f32m4(sum0_0, p0, v0, vl);
        }
        __riscv_vse32_v_f32m4(y + j, sum0_0, vl);

        j += (int)vl;
    }
}

void ml_k_axpy_q8_rvv(float *y, size_t y_stride, const float *p, size_t p_stride, int queries,
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
