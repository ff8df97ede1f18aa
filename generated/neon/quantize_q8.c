/*
 * ml_k_quantize_q8_neon
 * Q8_0 activations: blocks of 32 with one scale, by the rule of the file format.
 *
 * Written by krafla-gen from templates/quantize_q8.c.j2 and isa_specs/neon.py (facets: f32, reduce); do not
 * edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* One block: the rule of the file format in exact single-precision operations. */
static void quantize_block(int8_t *q, float *d, const float *x)
{
    float32x4_t largest_lanes0 = vdupq_n_f32(0.0f);
    float32x4_t largest_lanes1 = vdupq_n_f32(0.0f);
    float32x4_t largest_lanes2 = vdupq_n_f32(0.0f);
    float32x4_t largest_lanes3 = vdupq_n_f32(0.0f);
    int i = 0;
    for (; i + 16 <= 32; i += 16) { /* in turn, to hide the latency */
        largest_lanes0 = vbslq_f32(vcgtq_f32(vabsq_f32(vld1q_f32(x + i)), largest_lanes0),
                                   vabsq_f32(vld1q_f32(x + i)), largest_lanes0);
        largest_lanes1 = vbslq_f32(vcgtq_f32(vabsq_f32(vld1q_f32(x + (i + 4))), largest_lanes1),
                                   vabsq_f32(vld1q_f32(x + (i + 4))), largest_lanes1);
        largest_lanes2 = vbslq_f32(vcgtq_f32(vabsq_f32(vld1q_f32(x + (i + 8))), largest_lanes2),
                                   vabsq_f32(vld1q_f32(x + (i + 8))), largest_lanes2);
        largest_lanes3 = vbslq_f32(vcgtq_f32(vabsq_f32(vld1q_f32(x + (i + 12))), largest_lanes3),
                                   vabsq_f32(vld1q_f32(x + (i + 12))), largest_lanes3);
    }
    for (; i + 4 <= 32; i += 4)
        largest_lanes0 = vbslq_f32(vcgtq_f32(vabsq_f32(vld1q_f32(x + i)), largest_lanes0),
                                   vabsq_f32(vld1q_f32(x + i)), largest_lanes0);
    largest_lanes0 = vbslq_f32(vcgtq_f32(largest_lanes0, largest_lanes2), largest_lanes0, largest_lanes2);
    largest_lanes1 = vbslq_f32(vcgtq_f32(largest_lanes1, largest_lanes3), largest_lanes1, largest_lanes3);
    largest_lanes0 = vbslq_f32(vcgtq_f32(largest_lanes0, largest_lanes1), largest_lanes0, largest_lanes1);
    float largest = ml_max_neon(largest_lanes0);
    if (largest < 1e-30f) { /* 127 / largest would overflow */
        memset(q, 0, ML_BLOCK);
        *d = 0.0f;
        return;
    }
    *d = largest / 127.0f;
    const float inverse = 127.0f / largest;
    for (int j = 0; j < 32; j += 4) {
        /* Half away from zero, then truncation; the bounds hold before it as well as after. */
        const float32x4_t value = vld1q_f32(x + j);
        float32x4_t level = vaddq_f32(vmulq_f32(value, vdupq_n_f32(inverse)),
                                      vbslq_f32(vdupq_n_u32(0x80000000u), value, vdupq_n_f32(0.5f)));
        level = vbslq_f32(vcgtq_f32(level, vdupq_n_f32(-127.0f)), level, vdupq_n_f32(-127.0f));
        level = vbslq_f32(vcltq_f32(level, vdupq_n_f32(127.0f)), level, vdupq_n_f32(127.0f));
        ml_store_i8_neon(q + j, level);
    }
}

static int32_t sum_of_block(const int8_t *q)
{
    int32_t sum = 0;
    for (int j = 0; j < ML_BLOCK; j++)
        sum += q[j];
    return sum;
}

void ml_k_quantize_q8_neon(int8_t *q, float *d, int32_t *s, const float *x, int n)
{
    for (int b = 0; b < n / ML_BLOCK; b++)
        quantize_block(q + b * ML_BLOCK, d + b, x + b * ML_BLOCK);
    /* In a pass of its own: to read bytes right after they were written would wait for the stores. */
    for (int b = 0; b < n / ML_BLOCK; b++)
        s[b] = sum_of_block(q + b * ML_BLOCK);
}
