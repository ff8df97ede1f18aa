/*
 * ml_k_rmsnorm_neon
 * o = x / sqrt(mean(x^2) + eps) * w.
 *
 * Written by krafla-gen from templates/rmsnorm.c.j2 and isa_specs/neon.py (facets: f32, reduce); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

void ml_k_rmsnorm_neon(float *o, const float *x, const float *w, int n, float eps)
{
    float32x4_t p0 = vdupq_n_f32(0.0f);
    float32x4_t p1 = vdupq_n_f32(0.0f);
    float32x4_t p2 = vdupq_n_f32(0.0f);
    float32x4_t p3 = vdupq_n_f32(0.0f);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        p0 = ml_madd_neon(vld1q_f32(x + i), vld1q_f32(x + i), p0);
        p1 = ml_madd_neon(vld1q_f32(x + (i + 4)), vld1q_f32(x + (i + 4)), p1);
        p2 = ml_madd_neon(vld1q_f32(x + (i + 8)), vld1q_f32(x + (i + 8)), p2);
        p3 = ml_madd_neon(vld1q_f32(x + (i + 12)), vld1q_f32(x + (i + 12)), p3);
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
            partial[i & 15] = ml_madd(x[i], x[i], partial[i & 15]);
        sum = ml_fold16(partial);
    }
    const float inverse = 1.0f / sqrtf(sum / (float)n + eps);
    int j = 0;
    for (; j + 4 <= n; j += 4) {
        vst1q_f32(o + j, vmulq_f32(vmulq_f32(vld1q_f32(x + j), vdupq_n_f32(inverse)), vld1q_f32(w + j)));
    }
    for (; j < n; j++) { /* the rest, one by one */
        o[j] = ((x[j] * inverse) * w[j]);
    }
}
