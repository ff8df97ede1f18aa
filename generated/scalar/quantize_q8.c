/*
 * ml_k_quantize_q8_scalar
 * Q8_0 activations: blocks of 32 with one scale, by the rule of the file format.
 *
 * Written by krafla-gen from templates/quantize_q8.c.j2 and isa_specs/scalar.py (facets: f32, reduce); do not
 * edit.
 */
#include "ml_config.h"

/* One block: the rule of the file format in exact single-precision operations. */
static void quantize_block(int8_t *q, float *d, int32_t *s, const float *x)
{
    float largest = 0.0f;
    for (int i = 0; i < 32; i++) {
        largest = (fabsf(x[i]) > largest ? fabsf(x[i]) : largest);
    }
    if (largest < 1e-30f) { /* 127 / largest would overflow */
        memset(q, 0, ML_BLOCK);
        *d = 0.0f;
        *s = 0;
        return;
    }
    *d = largest / 127.0f;
    const float inverse = 127.0f / largest;
    for (int j = 0; j < 32; j++) {
        /* Half away from zero, then truncation; the bounds hold before it as well as after. */
        const float value = x[j];
        float level = ((value * inverse) + copysignf(0.5f, value));
        level = (level > -127.0f ? level : -127.0f);
        level = (level < 127.0f ? level : 127.0f);
        q[j] = (int8_t)(level);
    }
    int32_t sum = 0;
    for (int j = 0; j < ML_BLOCK; j++)
        sum += q[j];
    *s = sum;
}

void ml_k_quantize_q8_scalar(int8_t *q, float *d, int32_t *s, const float *x, int n)
{
    for (int b = 0; b < n / ML_BLOCK; b++)
        quantize_block(q + b * ML_BLOCK, d + b, s + b, x + b * ML_BLOCK);
}
