/*
 * ml_k_widen_f16_rvv
 * o = the f16 elements x as floats, exactly; scales are not applied.
 *
 * Written by krafla-gen from templates/widen.c.j2 and isa_specs/rvv.py (facets: f32, f16); do not edit.
 */
#include "ml_config.h"
#include "core/riscv_common.h"

void ml_k_widen_f16_rvv(float *o, const uint16_t *x, int n)
{
    for (int i = 0; i < n;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(n - i));
        __riscv_vse32_v_f32m4(o + i, ml_load_f16_rvv(vl, x + i), vl);

        i += (int)vl;
    }
}
