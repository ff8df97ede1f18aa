/*
 * ml_k_dot_f16_rvv
 * Scores: s[t] = q . k[t] over f16 rows.
 *
 * Written by krafla-gen from templates/dot.c.j2 and isa_specs/rvv.py (facets: f16, f32, reduce); do not edit.
 */
#include "ml_config.h"
#include "core/riscv_common.h"

static float one_row(const float *q, const uint16_t *k, int n)
{
    float partial[16] = {0};
    for (int i = 0; i < n; i += 16) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(n - i < 16 ? n - i : 16));
        __riscv_vse32_v_f32m4(partial,
                              __riscv_vfmacc_vv_f32m4(__riscv_vle32_v_f32m4(partial, vl),
                                                      __riscv_vle32_v_f32m4(q + i, vl),
                                                      ml_load_f16_rvv(vl, k + i), vl),
                              vl);
    }
    float sum = ml_fold16(partial);
    return sum;
}

void ml_k_dot_f16_rvv(float *s, const float *q, const uint16_t *k, size_t stride, int rows, int n)
{
    for (int t = 0; t < rows; t++)
        s[t] = one_row(q, k + (size_t)t * stride, n);
}
