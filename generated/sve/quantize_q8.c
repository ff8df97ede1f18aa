/*
 * ml_k_quantize_q8_sve
 * Q8_0 activations: blocks of 32 with one scale, by the rule of the file format.
 *
 * Written by krafla-gen from templates/quantize_q8.c.j2 and isa_specs/sve.py (facets: f32, reduce); do not
 * edit.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* One block: the rule of the file format in exact single-precision operations. */
static void quantize_block(int8_t *q, float *d, const float *x)
{
    svfloat32_t largest_lanes = svdup_n_f32(0.0f);
    for (int i = 0; i < 32; i += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(i, 32);
        largest_lanes = svsel_f32(svcmpgt_f32(pg, svabs_f32_x(pg, svld1_f32(pg, x + i)), largest_lanes),
                                  svabs_f32_x(pg, svld1_f32(pg, x + i)), largest_lanes);
    }
    float largest = svmaxv_f32(svptrue_b32(), largest_lanes);
    if (largest < 1e-30f) { /* 127 / largest would overflow */
        memset(q, 0, ML_BLOCK);
        *d = 0.0f;
        return;
    }
    *d = largest / 127.0f;
    const float inverse = 127.0f / largest;
    for (int j = 0; j < 32; j += (int)svcntw()) {
        const svbool_t pg = svwhilelt_b32_s32(j, 32);
        /* Half away from zero, then truncation; the bounds hold before it as well as after. */
        const svfloat32_t value = svld1_f32(pg, x + j);
        svfloat32_t level =
            svadd_f32_x(pg, svmul_f32_x(pg, value, svdup_n_f32(inverse)),
                        svreinterpret_f32_u32(svorr_n_u32_x(
                            pg, svand_n_u32_x(pg, svreinterpret_u32_f32(value), 0x80000000u), 0x3f000000u)));
        level = svsel_f32(svcmpgt_f32(pg, level, svdup_n_f32(-127.0f)), level, svdup_n_f32(-127.0f));
        level = svsel_f32(svcmplt_f32(pg, level, svdup_n_f32(127.0f)), level, svdup_n_f32(127.0f));
        svst1b_s32(pg, q + j, svcvt_s32_f32_x(pg, level));
    }
}

static int32_t sum_of_block(const int8_t *q)
{
    int32_t sum = 0;
    for (int j = 0; j < ML_BLOCK; j++)
        sum += q[j];
    return sum;
}

void ml_k_quantize_q8_sve(int8_t *q, float *d, int32_t *s, const float *x, int n)
{
    for (int b = 0; b < n / ML_BLOCK; b++)
        quantize_block(q + b * ML_BLOCK, d + b, x + b * ML_BLOCK);
    /* In a pass of its own: to read bytes right after they were written would wait for the stores. */
    for (int b = 0; b < n / ML_BLOCK; b++)
        s[b] = sum_of_block(q + b * ML_BLOCK);
}
