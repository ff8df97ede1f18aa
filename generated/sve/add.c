/*
 * ml_k_add_sve
 * y += x.
 *
 * Written by krafla-gen from templates/add.c.j2 and isa_specs/sve.py (facets: f32); do not edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

void ml_k_add_sve(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(i, n);
        svst1_f32(pg, y + i, svadd_f32_x(pg, svld1_f32(pg, y + i), svld1_f32(pg, x + i)));
    }
}
