/*
 * ml_k_add_sse2
 * y += x.
 *
 * Written by krafla-gen from templates/add.c.j2 and isa_specs/sse2.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

void ml_k_add_sse2(float *y, const float *x, int n)
{
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        _mm_storeu_ps(y + i, _mm_add_ps(_mm_loadu_ps(y + i), _mm_loadu_ps(x + i)));
    }
    for (; i < n; i++) { /* the rest, one by one */
        y[i] = (y[i] + x[i]);
    }
}
