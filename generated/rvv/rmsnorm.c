/*
 * ml_k_rmsnorm_rvv
 * o = x / sqrt(mean(x^2) + eps) * w.
 *
 * Written by krafla-gen from templates/rmsnorm.c.j2 and isa_specs/rvv.py (facets: f32, reduce); do not edit.
 */
#include "ml_config.h"
#include "core/riscv_common.h"

void ml_k_rmsnorm_rvv(float *o, const float *x, const float *w, int n, float eps)
{
    float partial[16] = {0};
    for (int i = 0; i < n; i += 16) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(n - i < 16 ? n - i : 16));
        __riscv_vse32_v_f32m4(partial,
                              __riscv_vfmacc_vv_f32m4(__riscv_vle32_v_f32m4(partial, vl),
                                                      __riscv_vle32_v_f32m4(x + i, vl),
                                                      __riscv_vle32_v_f32m4(x + i, vl), vl),
                              vl);
    }
    float sum = ml_fold16(partial);
    const float inverse = 1.0f / sqrtf(sum / (float)n + eps);
    for (int j = 0; j < n;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(n - j));
        __riscv_vse32_v_f32m4(
            o + j,
            __riscv_vfmul_vv_f32m4(__riscv_vfmul_vv_f32m4(__riscv_vle32_v_f32m4(x + j, vl),
                                                          __riscv_vfmv_v_f_f32m4(inverse, vl), vl),
                                   __riscv_vle32_v_f32m4(w + j, vl), vl),
            vl);

        j += (int)vl;
    }
}
