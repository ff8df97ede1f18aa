/*
 * ml_k_widen_q8_neon
 * o = the q8 elements x as floats, exactly; scales are not applied.
 *
 * Written by krafla-gen from templates/widen.c.j2 and isa_specs/neon.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

void ml_k_widen_q8_neon(float *o, const int8_t *x, int n)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        vst1q_f32(o + i, ml_load_i8_neon(x + i));
    }
    for (; i < n; i++) { /* the rest, one by one */
        o[i] = (float)x[i];
    }
}
