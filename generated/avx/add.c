/*
 * ml_k_add_avx
 * y += x.
 *
 * Written by krafla-gen from templates/add.c.j2 and isa_specs/avx.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

void ml_k_add_avx(float *y, const float *x, int n)
{
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(y + i), _mm256_loadu_ps(x + i)));
    }
    for (; i < n; i++) { /* the rest, one by one */
        y[i] = (y[i] + x[i]);
    }
}
