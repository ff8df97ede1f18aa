/*
 * ml_k_axpy_f32_rvv
 * Weighted sum: y += sum of p[t] v[t] over f32 rows, in increasing t.
 *
 * Written by krafla-gen from templates/axpy.c.j2 and isa_specs/rvv.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/riscv_common.h"

void ml_k_axpy_f32_rvv(float *y, const float *p, const float *v, size_t stride, int rows, int n)
{
    for (int j = 0; j < n;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(n - j));
        vfloat32m4_t sum = __riscv_vle32_v_f32m4(y + j, vl); /* stays in a register across the rows */
        for (int t = 0; t < rows; t++)
            sum = __riscv_vfmacc_vv_f32m4(sum, __riscv_vfmv_v_f_f32m4(p[t], vl),
                                          __riscv_vle32_v_f32m4((v + (size_t)t * stride) + j, vl), vl);
        __riscv_vse32_v_f32m4(y + j, sum, vl);

        j += (int)vl;
    }
}
