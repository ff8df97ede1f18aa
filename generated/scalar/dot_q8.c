/*
 * ml_k_dot_q8_scalar
 * Scores: s[t] = q . k[t] over q8 rows.
 *
 * Written by krafla-gen from templates/dot_q8.c.j2 and isa_specs/scalar.py (facets: rowdot); do not edit.
 *
 * Plain products; a nibble is an element's weight + 8.
 */
#include "ml_config.h"

static int32_t one_row(const int8_t *q, const int8_t *k, int n)
{

    int32_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += q[i] * k[i];
    return sum;
}

void ml_k_dot_q8_scalar(float *s, const int8_t *q, float dq, const int8_t *k, const float *dk, size_t stride,
                        int rows, int n)
{
    for (int t = 0; t < rows; t++)
        s[t] = (float)one_row(q, k + (size_t)t * stride, n) * (dq * dk[t]);
}
