/*
 * ml_k_gelu_mul_rvv
 * g = gelu(g) * u, with the tanh approximation.
 *
 * Written by krafla-gen from templates/gelu_mul.c.j2 and isa_specs/rvv.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/riscv_common.h"
#include "rvv/math_rvv.h"
#include "scalar/math_scalar.h"

void ml_k_gelu_mul_rvv(float *g, const float *u, int n)
{
    /* 0.5 x (1 + tanh(c z)) is x / (1 + exp(-2 c z)), with z = x + 0.044715 x^3 and c = sqrt(2 / pi). */
    for (int i = 0; i < n;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(n - i));
        const vfloat32m4_t x = __riscv_vle32_v_f32m4(g + i, vl);
        const vfloat32m4_t square = __riscv_vfmul_vv_f32m4(x, x, vl);
        const vfloat32m4_t z = __riscv_vfmacc_vv_f32m4(
            x, __riscv_vfmul_vv_f32m4(square, __riscv_vfmv_v_f_f32m4(0.044715f, vl), vl), x, vl);
        const vfloat32m4_t denominator = __riscv_vfadd_vv_f32m4(
            __riscv_vfmv_v_f_f32m4(1.0f, vl),
            ml_exp_rvv(vl, __riscv_vfmul_vv_f32m4(z, __riscv_vfmv_v_f_f32m4(-1.5957691216057308f, vl), vl)),
            vl);
        __riscv_vse32_v_f32m4(g + i,
                              __riscv_vfmul_vv_f32m4(__riscv_vfdiv_vv_f32m4(x, denominator, vl),
                                                     __riscv_vle32_v_f32m4(u + i, vl), vl),
                              vl);

        i += (int)vl;
    }
}
