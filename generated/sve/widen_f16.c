/*
 * ml_k_widen_f16_sve
 * o = the f16 elements x as floats, exactly; scales are not applied.
 *
 * Written by krafla-gen from templates/widen.c.j2 and isa_specs/sve.py (facets: f32, f16); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

void ml_k_widen_f16_sve(float *o, const uint16_t *x, int n)
{
    for (int i = 0; i < n; i += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(i, n);
        svst1_f32(pg, o + i, ml_load_f16_sve(pg, x + i));
    }
}
