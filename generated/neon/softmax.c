/*
 * ml_k_softmax_neon
 * x = exp(x - max) / sum, in place; 1/n everywhere if every x is -inf.
 *
 * Written by krafla-gen from templates/softmax.c.j2 and isa_specs/neon.py (facets: f32, reduce); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"
#include "neon/math_neon.h"
#include "scalar/math_scalar.h"

/* Nothing to choose from: every x is -inf, which gives 1/n, or NaN, which spreads to all. */
static void all_masked(float *x, int n)
{
    float uniform = 1.0f / (float)n;
    for (int i = 0; i < n; i++)
        if (x[i] != x[i])
            uniform = x[i];
    for (int i = 0; i < n; i++)
        x[i] = uniform;
}

void ml_k_softmax_neon(float *x, int n)
{
    float32x4_t maximum_lanes0 = vdupq_n_f32(-INFINITY);
    float32x4_t maximum_lanes1 = vdupq_n_f32(-INFINITY);
    float32x4_t maximum_lanes2 = vdupq_n_f32(-INFINITY);
    float32x4_t maximum_lanes3 = vdupq_n_f32(-INFINITY);
    int i = 0;
    for (; i + 16 <= n; i += 16) { /* in turn, to hide the latency */
        maximum_lanes0 =
            vbslq_f32(vcgtq_f32(vld1q_f32(x + i), maximum_lanes0), vld1q_f32(x + i), maximum_lanes0);
        maximum_lanes1 = vbslq_f32(vcgtq_f32(vld1q_f32(x + (i + 4)), maximum_lanes1), vld1q_f32(x + (i + 4)),
                                   maximum_lanes1);
        maximum_lanes2 = vbslq_f32(vcgtq_f32(vld1q_f32(x + (i + 8)), maximum_lanes2), vld1q_f32(x + (i + 8)),
                                   maximum_lanes2);
        maximum_lanes3 = vbslq_f32(vcgtq_f32(vld1q_f32(x + (i + 12)), maximum_lanes3),
                                   vld1q_f32(x + (i + 12)), maximum_lanes3);
    }
    for (; i + 4 <= n; i += 4)
        maximum_lanes0 =
            vbslq_f32(vcgtq_f32(vld1q_f32(x + i), maximum_lanes0), vld1q_f32(x + i), maximum_lanes0);
    maximum_lanes0 = vbslq_f32(vcgtq_f32(maximum_lanes0, maximum_lanes2), maximum_lanes0, maximum_lanes2);
    maximum_lanes1 = vbslq_f32(vcgtq_f32(maximum_lanes1, maximum_lanes3), maximum_lanes1, maximum_lanes3);
    maximum_lanes0 = vbslq_f32(vcgtq_f32(maximum_lanes0, maximum_lanes1), maximum_lanes0, maximum_lanes1);
    float maximum = ml_max_neon(maximum_lanes0);
    for (; i < n; i++) {
        float value = x[i];
        maximum = (value > maximum ? value : maximum);
    }
    if (maximum == -INFINITY) {
        all_masked(x, n);
        return;
    }
    int j = 0;
    for (; j + 4 <= n; j += 4) {
        vst1q_f32(x + j, ml_exp_neon(vsubq_f32(vld1q_f32(x + j), vdupq_n_f32(maximum))));
    }
    for (; j < n; j++) { /* the rest, one by one */
        x[j] = ml_exp_scalar((x[j] - maximum));
    }
    float32x4_t p0 = vdupq_n_f32(0.0f);
    float32x4_t p1 = vdupq_n_f32(0.0f);
    float32x4_t p2 = vdupq_n_f32(0.0f);
    float32x4_t p3 = vdupq_n_f32(0.0f);
    int k = 0;
    for (; k + 16 <= n; k += 16) {
        p0 = vaddq_f32(p0, vld1q_f32(x + k));
        p1 = vaddq_f32(p1, vld1q_f32(x + (k + 4)));
        p2 = vaddq_f32(p2, vld1q_f32(x + (k + 8)));
        p3 = vaddq_f32(p3, vld1q_f32(x + (k + 12)));
    }
    float sum;
    if (k == n) {
        sum = ml_fold16_neon(p0, p1, p2, p3);
    } else {
        float partial[16];
        vst1q_f32(partial, p0);
        vst1q_f32(partial + 4, p1);
        vst1q_f32(partial + 8, p2);
        vst1q_f32(partial + 12, p3);
        for (; k < n; k++)
            partial[k & 15] = (partial[k & 15] + x[k]);
        sum = ml_fold16(partial);
    }
    const float inverse = 1.0f / sum;
    int l = 0;
    for (; l + 4 <= n; l += 4) {
        vst1q_f32(x + l, vmulq_f32(vld1q_f32(x + l), vdupq_n_f32(inverse)));
    }
    for (; l < n; l++) { /* the rest, one by one */
        x[l] = (x[l] * inverse);
    }
}
