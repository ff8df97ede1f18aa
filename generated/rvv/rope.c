/*
 * ml_k_rope_rvv
 * Rotates interleaved pairs of the first rot_dim dimensions of every query and key head.
 *
 * Written by krafla-gen from templates/rope.c.j2 and isa_specs/rvv.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/riscv_common.h"

/* Rotates `pairs` interleaved pairs of one head. */
static void rotate(float *x, const float *cos_t, const float *sin_t, int pairs)
{
    for (int i = 0; i < pairs;) {
        const size_t vl = __riscv_vsetvl_e32m4((size_t)(pairs - i));
        vfloat32m4_t a, b;
        ml_load_pairs_rvv(vl, x + 2 * i, &a, &b);
        const vfloat32m4_t cosine = __riscv_vle32_v_f32m4(cos_t + i, vl);
        const vfloat32m4_t sine = __riscv_vle32_v_f32m4(sin_t + i, vl);
        const vfloat32m4_t turned_a = __riscv_vfmacc_vv_f32m4(
            __riscv_vfneg_v_f32m4(__riscv_vfmul_vv_f32m4(b, sine, vl), vl), a, cosine, vl);
        const vfloat32m4_t turned_b =
            __riscv_vfmacc_vv_f32m4(__riscv_vfmul_vv_f32m4(b, cosine, vl), a, sine, vl);
        ml_store_pairs_rvv(vl, x + 2 * i, turned_a, turned_b);

        i += (int)vl;
    }
}

void ml_k_rope_rvv(float *q, float *k, const float *cos_t, const float *sin_t, int head_dim, int rot_dim,
                   int n_heads, int n_kv_heads)
{
    for (int h = 0; h < n_heads; h++)
        rotate(q + (size_t)h * (size_t)head_dim, cos_t, sin_t, rot_dim / 2);
    for (int h = 0; h < n_kv_heads; h++)
        rotate(k + (size_t)h * (size_t)head_dim, cos_t, sin_t, rot_dim / 2);
}
