/*
 * ml_k_add_scalar
 * y += x.
 *
 * Written by krafla-gen from templates/add.c.j2 and isa_specs/scalar.py (facets: f32); do not edit.
 */
#include "ml_config.h"

void ml_k_add_scalar(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i++) {
        y[i] = (y[i] + x[i]);
    }
}
