/*
 * ml_k_rmsnorm_scalar
 * o = x / sqrt(mean(x^2) + eps) * w.
 *
 * Written by krafla-gen from templates/rmsnorm.c.j2 and isa_specs/scalar.py (facets: f32, reduce); do not
 * edit.
 */
#include "ml_config.h"

void ml_k_rmsnorm_scalar(float *o, const float *x, const float *w, int n, float eps)
{
    float partial[16] = {0};
    for (int i = 0; i < n; i++) {
        partial[i & 15] = ml_madd(x[i], x[i], partial[i & 15]);
    }
    float sum = ml_fold16(partial);
    const float inverse = 1.0f / sqrtf(sum / (float)n + eps);
    for (int j = 0; j < n; j++) {
        o[j] = ((x[j] * inverse) * w[j]);
    }
}
