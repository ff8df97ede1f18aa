/*
 * ml_k_widen_q8_sve
 * o = the q8 elements x as floats, exactly; scales are not applied.
 *
 * Written by krafla-gen from templates/widen.c.j2 and isa_specs/sve.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

void ml_k_widen_q8_sve(float *o, const int8_t *x, int n)
{
    for (int i = 0; i < n; i += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(i, n);
        svst1_f32(pg, o + i, svcvt_f32_s32_x(pg, svld1sb_s32(pg, x + i)));
    }
}
