/*
 * ml_k_dot_q8_scalar
 * Scores s[query][position] = q[query] . k[position] over one page of q8 keys.
 *
 * Written by krafla-gen from templates/dot_q8.c.j2 and isa_specs/scalar.py (facets: f32); do not edit.
 */
#include "ml_config.h"

static int32_t one_key(const int8_t *q, const int8_t *k, int n)
{
    int32_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += q[i] * k[i];
    return sum;
}

void ml_k_dot_q8_scalar(float *s, size_t s_stride, const int8_t *xt, const float *dq, const int32_t *xs,
                        int queries, const uint8_t *k, const float *dk, int n)
{
    (void)xs; /* not needed on this machine */
    for (int t = 0; t < ML_PAGE; t++)
        for (int i = 0; i < queries; i++)
            s[(size_t)i * s_stride + (size_t)t] =
                (float)one_key(xt + i * n, (const int8_t *)k + t * n, n) * (dq[i] * dk[t]);
}
