/*
 * ml_k_widen_f16_scalar
 * o = the f16 elements x as floats, exactly; scales are not applied.
 *
 * Written by krafla-gen from templates/widen.c.j2 and isa_specs/scalar.py (facets: f32, f16); do not edit.
 */
#include "ml_config.h"

void ml_k_widen_f16_scalar(float *o, const uint16_t *x, int n)
{
    for (int i = 0; i < n; i++) {
        o[i] = ml_f16_to_f32(x[i]);
    }
}
