/*
 * ml_k_softmax_avx512vnni
 * x = exp(x - max) / sum, in place; 1/n everywhere if every x is -inf.
 *
 * Written by krafla-gen from templates/softmax.c.j2 and isa_specs/avx512vnni.py (facets: f32, reduce); do not
 * edit.
 */
#include "ml_config.h"
#include "core/x86_common.h"
#include "avx512vnni/math_avx512vnni.h"
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

void ml_k_softmax_avx512vnni(float *x, int n)
{
    __m512 maximum_lanes0 = _mm512_set1_ps(-INFINITY);
    __m512 maximum_lanes1 = _mm512_set1_ps(-INFINITY);
    __m512 maximum_lanes2 = _mm512_set1_ps(-INFINITY);
    __m512 maximum_lanes3 = _mm512_set1_ps(-INFINITY);
    int i = 0;
    for (; i + 64 <= n; i += 64) { /* in turn, to hide the latency */
        maximum_lanes0 = _mm512_max_ps(_mm512_loadu_ps(x + i), maximum_lanes0);
        maximum_lanes1 = _mm512_max_ps(_mm512_loadu_ps(x + (i + 16)), maximum_lanes1);
        maximum_lanes2 = _mm512_max_ps(_mm512_loadu_ps(x + (i + 32)), maximum_lanes2);
        maximum_lanes3 = _mm512_max_ps(_mm512_loadu_ps(x + (i + 48)), maximum_lanes3);
    }
    for (; i + 16 <= n; i += 16)
        maximum_lanes0 = _mm512_max_ps(_mm512_loadu_ps(x + i), maximum_lanes0);
    maximum_lanes0 = _mm512_max_ps(maximum_lanes0, maximum_lanes2);
    maximum_lanes1 = _mm512_max_ps(maximum_lanes1, maximum_lanes3);
    maximum_lanes0 = _mm512_max_ps(maximum_lanes0, maximum_lanes1);
    float maximum = ml_max_512(maximum_lanes0);
    for (; i < n; i++) {
        float value = x[i];
        maximum = (value > maximum ? value : maximum);
    }
    if (maximum == -INFINITY) {
        all_masked(x, n);
        return;
    }
    int j = 0;
    for (; j + 16 <= n; j += 16) {
        _mm512_storeu_ps(x + j,
                         ml_exp_avx512vnni(_mm512_sub_ps(_mm512_loadu_ps(x + j), _mm512_set1_ps(maximum))));
    }
    for (; j < n; j++) { /* the rest, one by one */
        x[j] = ml_exp_scalar((x[j] - maximum));
    }
    __m512 p0 = _mm512_set1_ps(0.0f);
    int k = 0;
    for (; k + 16 <= n; k += 16) {
        p0 = _mm512_add_ps(p0, _mm512_loadu_ps(x + k));
    }
    float sum;
    if (k == n) {
        sum = ml_fold16_512(p0);
    } else {
        float partial[16];
        _mm512_storeu_ps(partial, p0);
        for (; k < n; k++)
            partial[k & 15] = (partial[k & 15] + x[k]);
        sum = ml_fold16(partial);
    }
    const float inverse = 1.0f / sum;
    int l = 0;
    for (; l + 16 <= n; l += 16) {
        _mm512_storeu_ps(x + l, _mm512_mul_ps(_mm512_loadu_ps(x + l), _mm512_set1_ps(inverse)));
    }
    for (; l < n; l++) { /* the rest, one by one */
        x[l] = (x[l] * inverse);
    }
}
