/*
 * ml_k_dot_f16_scalar
 * Scores: s[t] = q . k[t] over f16 rows.
 *
 * Written by krafla-gen from templates/dot.c.j2 and isa_specs/scalar.py (facets: f16, f32, reduce); do not
 * edit.
 */
#include "ml_config.h"

static float one_row(const float *q, const uint16_t *k, int n)
{
    float partial[16] = {0};
    for (int i = 0; i < n; i++) {
        partial[i & 15] = ml_madd(q[i], ml_f16_to_f32(k[i]), partial[i & 15]);
    }
    float sum = ml_fold16(partial);
    return sum;
}

void ml_k_dot_f16_scalar(float *s, const float *q, const uint16_t *k, size_t stride, int rows, int n)
{
    for (int t = 0; t < rows; t++)
        s[t] = one_row(q, k + (size_t)t * stride, n);
}
