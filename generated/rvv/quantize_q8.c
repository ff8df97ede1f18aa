/*
 * ml_k_quantize_q8_rvv
 * Q8_0 activations: blocks of 32 with one scale, by the rule of the file format.
 *
 * Written by krafla-gen from templates/quantize_q8.c.j2 and isa_specs/rvv.py (facets: f32, reduce); do not
 * edit.
 */
#include "ml_config.h"
#include "core/riscv_common.h"

/* One block: the rule of the file format in exact single-precision operations. */
static void quantize_block(int8_t *q, float *d, const float *x)
{
    float largest = 0.0f;
    for (int i = 0; i < 32;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(32 - i));
        largest = ml_max_rvv(vl, largest, __riscv_vfabs_v_f32m4(__riscv_vle32_v_f32m4(x + i, vl), vl));
        i += (int)vl;
    }
    if (largest < 1e-30f) { /* 127 / largest would overflow */
        memset(q, 0, ML_BLOCK);
        *d = 0.0f;
        return;
    }
    *d = largest / 127.0f;
    const float inverse = 127.0f / largest;
    for (int j = 0; j < 32;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(32 - j));
        /* Half away from zero, then truncation; the bounds hold before it as well as after. */
        const vfloat32m4_t value = __riscv_vle32_v_f32m4(x + j, vl);
        vfloat32m4_t level =
            __riscv_vfadd_vv_f32m4(__riscv_vfmul_vv_f32m4(value, __riscv_vfmv_v_f_f32m4(inverse, vl), vl),
                                   __riscv_vfsgnj_vv_f32m4(__riscv_vfmv_v_f_f32m4(0.5f, vl), value, vl), vl);
        level = __riscv_vmerge_vvm_f32m4(
            __riscv_vfmv_v_f_f32m4(-127.0f, vl), level,
            __riscv_vmfgt_vv_f32m4_b8(level, __riscv_vfmv_v_f_f32m4(-127.0f, vl), vl), vl);
        level = __riscv_vmerge_vvm_f32m4(
            __riscv_vfmv_v_f_f32m4(127.0f, vl), level,
            __riscv_vmflt_vv_f32m4_b8(level, __riscv_vfmv_v_f_f32m4(127.0f, vl), vl), vl);
        ml_store_i8_rvv(vl, q + j, level);

        j += (int)vl;
    }
}

static int32_t sum_of_block(const int8_t *q)
{
    int32_t sum = 0;
    for (int j = 0; j < ML_BLOCK; j++)
        sum += q[j];
    return sum;
}

void ml_k_quantize_q8_rvv(int8_t *q, float *d, int32_t *s, const float *x, int n)
{
    for (int b = 0; b < n / ML_BLOCK; b++)
        quantize_block(q + b * ML_BLOCK, d + b, x + b * ML_BLOCK);
    /* In a pass of its own: to read bytes right after they were written would wait for the stores. */
    for (int b = 0; b < n / ML_BLOCK; b++)
        s[b] = sum_of_block(q + b * ML_BLOCK);
}
