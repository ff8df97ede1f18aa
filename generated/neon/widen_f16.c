/*
 * ml_k_widen_f16_neon
 * o = the f16 elements x as floats, exactly; scales are not applied.
 *
 * Written by krafla-gen from templates/widen.c.j2 and isa_specs/neon.py (facets: f32, f16); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

void ml_k_widen_f16_neon(float *o, const uint16_t *x, int n)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        vst1q_f32(o + i, ml_load_f16_neon(x + i));
    }
    for (; i < n; i++) { /* the rest, one by one */
        o[i] = ml_f16_to_f32(x[i]);
    }
}
