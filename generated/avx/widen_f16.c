/*
 * ml_k_widen_f16_avx
 * o = the f16 elements x as floats, exactly; scales are not applied.
 *
 * Written by krafla-gen from templates/widen.c.j2 and isa_specs/avx.py (facets: f32, f16); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

void ml_k_widen_f16_avx(float *o, const uint16_t *x, int n)
{
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(o + i, ml_load_f16_avx(x + i));
    }
    for (; i < n; i++) { /* the rest, one by one */
        o[i] = ml_f16_to_f32(x[i]);
    }
}
