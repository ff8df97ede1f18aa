/*
 * ml_k_add_rvv
 * y += x.
 *
 * Written by krafla-gen from templates/add.c.j2 and isa_specs/rvv.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/riscv_common.h"

void ml_k_add_rvv(float *y, const float *x, int n)
{
    for (int i = 0; i < n;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(n - i));
        __riscv_vse32_v_f32m4(
            y + i,
            __riscv_vfadd_vv_f32m4(__riscv_vle32_v_f32m4(y + i, vl), __riscv_vle32_v_f32m4(x + i, vl), vl),
            vl);

        i += (int)vl;
    }
}
