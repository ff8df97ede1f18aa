/*
 * ml_k_add_neon
 * y += x.
 *
 * Written by krafla-gen from templates/add.c.j2 and isa_specs/neon.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

void ml_k_add_neon(float *y, const float *x, int n)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        vst1q_f32(y + i, vaddq_f32(vld1q_f32(y + i), vld1q_f32(x + i)));
    }
    for (; i < n; i++) { /* the rest, one by one */
        y[i] = (y[i] + x[i]);
    }
}
