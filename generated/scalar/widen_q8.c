/*
 * ml_k_widen_q8_scalar
 * o = the q8 elements x as floats, exactly; scales are not applied.
 *
 * Written by krafla-gen from templates/widen.c.j2 and isa_specs/scalar.py (facets: f32); do not edit.
 */
#include "ml_config.h"

void ml_k_widen_q8_scalar(float *o, const int8_t *x, int n)
{
    for (int i = 0; i < n; i++) {
        o[i] = (float)x[i];
    }
}
