/*
 * ml_k_rope_sve
 * Rotates interleaved pairs of the first rot_dim dimensions of every query and key head.
 *
 * Written by krafla-gen from templates/rope.c.j2 and isa_specs/sve.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* Rotates `pairs` interleaved pairs of one head. */
static void rotate(float *x, const float *cos_t, const float *sin_t, int pairs)
{
    for (int i = 0; i < pairs; i += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(i, pairs);
        svfloat32_t a, b;
        ml_load_pairs_sve(pg, x + 2 * i, &a, &b);
        const svfloat32_t cosine = svld1_f32(pg, cos_t + i);
        const svfloat32_t sine = svld1_f32(pg, sin_t + i);
        const svfloat32_t turned_a = svmla_f32_x(pg, svneg_f32_x(pg, svmul_f32_x(pg, b, sine)), a, cosine);
        const svfloat32_t turned_b = svmla_f32_x(pg, svmul_f32_x(pg, b, cosine), a, sine);
        svst2_f32(pg, x + 2 * i, svcreate2_f32(turned_a, turned_b));
    }
}

void ml_k_rope_sve(float *q, float *k, const float *cos_t, const float *sin_t, int head_dim, int rot_dim,
                   int n_heads, int n_kv_heads)
{
    for (int h = 0; h < n_heads; h++)
        rotate(q + (size_t)h * (size_t)head_dim, cos_t, sin_t, rot_dim / 2);
    for (int h = 0; h < n_kv_heads; h++)
        rotate(k + (size_t)h * (size_t)head_dim, cos_t, sin_t, rot_dim / 2);
}
