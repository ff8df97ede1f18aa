/*
 * ml_k_silu_mul_rvv
 * g = g / (1 + exp(-g)) * u.
 *
 * Written by krafla-gen from templates/silu_mul.c.j2 and isa_specs/rvv.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/riscv_common.h"
#include "rvv/math_rvv.h"
#include "scalar/math_scalar.h"

void ml_k_silu_mul_rvv(float *g, const float *u, int n)
{
    for (int i = 0; i < n;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(n - i));
        const vfloat32m4_t x = __riscv_vle32_v_f32m4(g + i, vl);
        const vfloat32m4_t denominator = __riscv_vfadd_vv_f32m4(
            __riscv_vfmv_v_f_f32m4(1.0f, vl), ml_exp_rvv(vl, __riscv_vfneg_v_f32m4(x, vl)), vl);
        __riscv_vse32_v_f32m4(g + i,
                              __riscv_vfmul_vv_f32m4(__riscv_vfdiv_vv_f32m4(x, denominator, vl),
                                                     __riscv_vle32_v_f32m4(u + i, vl), vl),
                              vl);

        i += (int)vl;
    }
}
