/*
 * ml_k_widen_f16_avx512vnni
 * o = the f16 elements x as floats, exactly; scales are not applied.
 *
 * Written by krafla-gen from templates/widen.c.j2 and isa_specs/avx512vnni.py (facets: f32, f16); do not
 * edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"

void ml_k_widen_f16_avx512vnni(float *o, const uint16_t *x, int n)
{
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        _mm512_storeu_ps(o + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(x + i))));
    }
    for (; i < n; i++) { /* the rest, one by one */
        o[i] = ml_f16_to_f32(x[i]);
    }
}
