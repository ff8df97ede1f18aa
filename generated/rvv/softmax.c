/*
 * ml_k_softmax_rvv
 * x = exp(x - max) / sum, in place; 1/n everywhere if every x is -inf.
 *
 * Written by krafla-gen from templates/softmax.c.j2 and isa_specs/rvv.py (facets: f32, reduce); do not edit.
 */
#include "ml_config.h"
#include "core/riscv_common.h"
#include "rvv/math_rvv.h"
#include "scalar/math_scalar.h"

/* Nothing to choose from: every x is -inf, which gives 1/n, or NaN, which spreads to all. */
static void all_masked(float *x, int n)
{
    float uniform = 1.0f / (float)n;
    for (int i = 0; i < n; i++)
        if (x[i] != x[i])
            uniform = x[i];
    for (int i = 0; i < n; i++)
        x[i] = uniform;
}

void ml_k_softmax_rvv(float *x, int n)
{
    float maximum = -INFINITY;
    for (int i = 0; i < n;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(n - i));
        maximum = ml_max_rvv(vl, maximum, __riscv_vle32_v_f32m4(x + i, vl));
        i += (int)vl;
    }
    if (maximum == -INFINITY) {
        all_masked(x, n);
        return;
    }
    for (int j = 0; j < n;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(n - j));
        __riscv_vse32_v_f32m4(x + j,
                              ml_exp_rvv(vl, __riscv_vfsub_vv_f32m4(__riscv_vle32_v_f32m4(x + j, vl),
                                                                    __riscv_vfmv_v_f_f32m4(maximum, vl), vl)),
                              vl);

        j += (int)vl;
    }
    float partial[16] = {0};
    for (int k = 0; k < n; k += 16) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(n - k < 16 ? n - k : 16));
        __riscv_vse32_v_f32m4(
            partial,
            __riscv_vfadd_vv_f32m4(__riscv_vle32_v_f32m4(partial, vl), __riscv_vle32_v_f32m4(x + k, vl), vl),
            vl);
    }
    float sum = ml_fold16(partial);
    const float inverse = 1.0f / sum;
    for (int l = 0; l < n;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(n - l));
        __riscv_vse32_v_f32m4(
            x + l,
            __riscv_vfmul_vv_f32m4(__riscv_vle32_v_f32m4(x + l, vl), __riscv_vfmv_v_f_f32m4(inverse, vl), vl),
            vl);

        l += (int)vl;
    }
}
