/*
 * ml_k_dot_f16_scalar
 * Scores s[query][position] = q[query] . k[position] over one page of f16 keys.
 *
 * Written by krafla-gen from templates/dot.c.j2 and isa_specs/scalar.py (facets: f32, f16); do not edit.
 */
#include "ml_config.h"

/* 1 query against the page's keys; a lane owns a position, so there are no horizontal sums. */
static void queries_1(float *s, const float *q, const uint16_t *k, int n)
{
    for (int t = 0; t < 64; t++) {
        float sum0_0 = 0.0f;
        for (int d = 0; d < n; d++) {
            const float k0 = ml_f16_to_f32((k + d * ML_PAGE)[t]);
            const float q0 = q[d];
            sum0_0 = ml_madd(q0, k0, sum0_0);
        }
        s[t] = sum0_0;
    }
}

void ml_k_dot_f16_scalar(float *s, size_t s_stride, const float *q, size_t q_stride, int queries,
                         const uint16_t *k, int n)
{
    int i = 0;
    for (; i + 1 <= queries; i += 1)
        queries_1(s + (size_t)i * s_stride, q + (size_t)i * q_stride, k, n);
}
