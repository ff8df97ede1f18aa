/*
 * ml_k_rope_scalar
 * Rotates interleaved pairs of the first rot_dim dimensions of every query and key head.
 *
 * Written by krafla-gen from templates/rope.c.j2 and isa_specs/scalar.py (facets: f32); do not edit.
 */
#include "ml_config.h"

/* Rotates `pairs` interleaved pairs of one head. */
static void rotate(float *x, const float *cos_t, const float *sin_t, int pairs)
{
    for (int i = 0; i < pairs; i++) {
        float a, b;
        a = x[2 * i];
        b = x[2 * i + 1];
        const float cosine = cos_t[i];
        const float sine = sin_t[i];
        const float turned_a = ml_madd(a, cosine, (-(b * sine)));
        const float turned_b = ml_madd(a, sine, (b * cosine));
        x[2 * i] = turned_a;
        x[2 * i + 1] = turned_b;
    }
}

void ml_k_rope_scalar(float *q, float *k, const float *cos_t, const float *sin_t, int head_dim, int rot_dim,
                      int n_heads, int n_kv_heads)
{
    for (int h = 0; h < n_heads; h++)
        rotate(q + (size_t)h * (size_t)head_dim, cos_t, sin_t, rot_dim / 2);
    for (int h = 0; h < n_kv_heads; h++)
        rotate(k + (size_t)h * (size_t)head_dim, cos_t, sin_t, rot_dim / 2);
}
