/*
 * ml_k_rope_avx
 * Rotates interleaved pairs of the first rot_dim dimensions of every query and key head.
 *
 * Written by krafla-gen from templates/rope.c.j2 and isa_specs/avx.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* Rotates `pairs` interleaved pairs of one head. */
static void rotate(float *x, const float *cos_t, const float *sin_t, int pairs)
{
    int i = 0;
    for (; i + 8 <= pairs; i += 8) {
        __m256 a, b;
        ml_load_pairs_avx(x + 2 * i, &a, &b);
        const __m256 cosine = _mm256_loadu_ps(cos_t + i);
        const __m256 sine = _mm256_loadu_ps(sin_t + i);
        const __m256 turned_a = _mm256_add_ps(_mm256_mul_ps(a, cosine),
                                              _mm256_xor_ps(_mm256_mul_ps(b, sine), _mm256_set1_ps(-0.0f)));
        const __m256 turned_b = _mm256_add_ps(_mm256_mul_ps(a, sine), _mm256_mul_ps(b, cosine));
        ml_store_pairs_256(x + 2 * i, turned_a, turned_b);
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

void ml_k_rope_avx(float *q, float *k, const float *cos_t, const float *sin_t, int head_dim, int rot_dim,
                   int n_heads, int n_kv_heads)
{
    for (int h = 0; h < n_heads; h++)
        rotate(q + (size_t)h * (size_t)head_dim, cos_t, sin_t, rot_dim / 2);
    for (int h = 0; h < n_kv_heads; h++)
        rotate(k + (size_t)h * (size_t)head_dim, cos_t, sin_t, rot_dim / 2);
}
