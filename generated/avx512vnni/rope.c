/*
 * ml_k_rope_avx512vnni
 * Rotates interleaved pairs of the first rot_dim dimensions of every query and key head.
 *
 * Written by krafla-gen from templates/rope.c.j2 and isa_specs/avx512vnni.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* Rotates `pairs` interleaved pairs of one head. */
static void rotate(float *x, const float *cos_t, const float *sin_t, int pairs)
{
    int i = 0;
    for (; i + 16 <= pairs; i += 16) {
        __m512 a, b;
        ml_load_pairs_512(x + 2 * i, &a, &b);
        const __m512 cosine = _mm512_loadu_ps(cos_t + i);
        const __m512 sine = _mm512_loadu_ps(sin_t + i);
        const __m512 turned_a =
            _mm512_fmadd_ps(a, cosine, _mm512_xor_ps(_mm512_mul_ps(b, sine), _mm512_set1_ps(-0.0f)));
        const __m512 turned_b = _mm512_fmadd_ps(a, sine, _mm512_mul_ps(b, cosine));
        ml_store_pairs_512(x + 2 * i, turned_a, turned_b);
    }
    for (; i < pairs; i++) { /* the rest, one by one */
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

void ml_k_rope_avx512vnni(float *q, float *k, const float *cos_t, const float *sin_t, int head_dim,
                          int rot_dim, int n_heads, int n_kv_heads)
{
    for (int h = 0; h < n_heads; h++)
        rotate(q + (size_t)h * (size_t)head_dim, cos_t, sin_t, rot_dim / 2);
    for (int h = 0; h < n_kv_heads; h++)
        rotate(k + (size_t)h * (size_t)head_dim, cos_t, sin_t, rot_dim / 2);
}
