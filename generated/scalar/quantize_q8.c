/*
 * ml_k_quantize_q8_scalar
 * Q8_0 activations: blocks of 32 with one scale, by the rule of the file format.
 *
 * Written by krafla-gen from templates/quantize_q8.c.j2 and isa_specs/scalar.py (facets: f32, reduce); do not
 * edit.
 */
#include "ml_config.h"

/* One block: the rule of the file format in exact single-precision operations. */
static void quantize_block(int8_t *q, float *d, const float *x)
{
    float largest = 0.0f;
    for (int i = 0; i < 32; i++) {
        largest = (fabsf(x[i]) > largest ? fabsf(x[i]) : largest);
    }
    if (largest < 1e-30f) { /* 127 / largest would overflow */
        memset(q, 0, ML_BLOCK);
        *d = 0.0f;
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
}

static int32_t sum_of_block(const int8_t *q)
{
    int32_t sum = 0;
    for (int j = 0; j < ML_BLOCK; j++)
        sum += q[j];
    return sum;
}

void ml_k_quantize_q8_scalar(int8_t *q, float *d, int32_t *s, const float *x, int n)
{
    for (int b = 0; b < n / ML_BLOCK; b++)
        quantize_block(q + b * ML_BLOCK, d + b, x + b * ML_BLOCK);
    /* In a pass of its own: to read bytes right after they were written would wait for the stores. */
    for (int b = 0; b < n / ML_BLOCK; b++)
        s[b] = sum_of_block(q + b * ML_BLOCK);
}
