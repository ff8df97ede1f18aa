/*
 * ml_k_dot_f16_neon
 * Scores: s[t] = q . k[t] over f16 rows.
 *
 * Written by krafla-gen from templates/dot.c.j2 and isa_specs/neon.py (facets: f16, f32, reduce); do not
 * edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

static float one_row(const float *q, const uint16_t *k, int n)
{
    float32x4_t p0 = vdupq_n_f32(0.0f);
    float32x4_t p1 = vdupq_n_f32(0.0f);
    float32x4_t p2 = vdupq_n_f32(0.0f);
    float32x4_t p3 = vdupq_n_f32(0.0f);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        p0 = ml_madd_neon(vld1q_f32(q + i), ml_load_f16_neon(k + i), p0);
        p1 = ml_madd_neon(vld1q_f32(q + (i + 4)), ml_load_f16_neon(k + (i + 4)), p1);
        p2 = ml_madd_neon(vld1q_f32(q + (i + 8)), ml_load_f16_neon(k + (i + 8)), p2);
        p3 = ml_madd_neon(vld1q_f32(q + (i + 12)), ml_load_f16_neon(k + (i + 12)), p3);
    }
    float sum;
    if (i == n) {
        sum = ml_fold16_neon(p0, p1, p2, p3);
    } else {
        float partial[16];
        vst1q_f32(partial, p0);
        vst1q_f32(partial + 4, p1);
        vst1q_f32(partial + 8, p2);
        vst1q_f32(partial + 12, p3);
        for (; i < n; i++)
            partial[i & 15] = ml_madd(q[i], ml_f16_to_f32(k[i]), partial[i & 15]);
        sum = ml_fold16(partial);
    }
    return sum;
}

void ml_k_dot_f16_neon(float *s, const float *q, const uint16_t *k, size_t stride, int rows, int n)
{
    for (int t = 0; t < rows; t++)
        s[t] = one_row(q, k + (size_t)t * stride, n);
}
