/*
 * ml_k_add_avx512vnni
 * y += x.
 *
 * Written by krafla-gen from templates/add.c.j2 and isa_specs/avx512vnni.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

void ml_k_add_avx512vnni(float *y, const float *x, int n)
{
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        _mm512_storeu_ps(y + i, _mm512_add_ps(_mm512_loadu_ps(y + i), _mm512_loadu_ps(x + i)));
    }
    for (; i < n; i++) { /* the rest, one by one */
        y[i] = (y[i] + x[i]);
    }
}
