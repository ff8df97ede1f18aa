/*
 * ml_k_widen_q8_avx512vnni
 * o = the q8 elements x as floats, exactly; scales are not applied.
 *
 * Written by krafla-gen from templates/widen.c.j2 and isa_specs/avx512vnni.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

void ml_k_widen_q8_avx512vnni(float *o, const int8_t *x, int n)
{
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        _mm512_storeu_ps(o + i, ml_load_i8_512(x + i));
    }
    for (; i < n; i++) { /* the rest, one by one */
        o[i] = (float)x[i];
    }
}
