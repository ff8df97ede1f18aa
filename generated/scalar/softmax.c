/*
 * ml_k_softmax_scalar
 * x = exp(x - max) / sum, in place; 1/n everywhere if every x is -inf.
 *
 * Written by krafla-gen from templates/softmax.c.j2 and isa_specs/scalar.py (facets: f32, reduce); do not
 * edit.
 */
#include "ml_config.h"
#include "scalar/math_scalar.h"

/* Nothing to choose from: every x is -inf, which gives 1/n, or NaN, which spreads to all. */
static void all_masked(float *x, int n)
{
    float uniform = 1.0f / (float)n;
    for (int i = 0; i < n; i++)
        if (x[i] != x[i])
            uniform = x[i];
    for (int i = 0; i < n; i++)
        x[i] = uniform;
}

void ml_k_softmax_scalar(float *x, int n)
{
    float maximum = -INFINITY;
    for (int i = 0; i < n; i++) {
        maximum = (x[i] > maximum ? x[i] : maximum);
    }
    if (maximum == -INFINITY) {
        all_masked(x, n);
        return;
    }
    for (int j = 0; j < n; j++) {
        x[j] = ml_exp_scalar((x[j] - maximum));
    }
    float partial[16] = {0};
    for (int k = 0; k < n; k++) {
        partial[k & 15] = (partial[k & 15] + x[k]);
    }
    float sum = ml_fold16(partial);
    const float inverse = 1.0f / sum;
    for (int l = 0; l < n; l++) {
        x[l] = (x[l] * inverse);
    }
}
