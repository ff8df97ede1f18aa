/*
 * elementary.h: single-precision functions that the engine computes outside of kernels, in plain C: the
 * shared exponential in the build's class, everything else unfused.
 */
#ifndef ML_ELEMENTARY_H
#define ML_ELEMENTARY_H

#include "scalar/math_scalar.h"

ML_ALWAYS_INLINE float ml_sigmoid(float x)
{
    return 1.0f / (1.0f + ml_exp_scalar(-x));
}

ML_ALWAYS_INLINE float ml_silu(float x)
{
    return x / (1.0f + ml_exp_scalar(-x));
}

/* cap * tanh(x / cap) */
ML_ALWAYS_INLINE float ml_softcap(float x, float cap)
{
    float e = ml_exp_scalar(x / cap * 2.0f);
    return cap * (1.0f - 2.0f / (e + 1.0f));
}

/* Natural logarithm of a positive normal number: the Cephes polynomial on mantissas around 1. */
ML_ALWAYS_INLINE float ml_log_single(float x)
{
    /* The exponent that leaves a mantissa between the square roots of 1/2 and 2. */
    uint32_t shifted = ml_bits_of(x) - 0x3f3504f3u;
    float n = (float)((int32_t)(shifted & 0xff800000u) / 0x800000);
    float m = ml_float_of((shifted & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    float y = 7.0376836292e-2f;
    y = y * m + -1.1514610310e-1f;
    y = y * m + 1.1676998740e-1f;
    y = y * m + -1.2420140846e-1f;
    y = y * m + 1.4249322787e-1f;
    y = y * m + -1.6668057665e-1f;
    y = y * m + 2.0000714765e-1f;
    y = y * m + -2.4999993993e-1f;
    y = y * m + 3.3333331174e-1f;
    float z = m * m;
    y = y * m * z;
    y = y + n * -2.12194440e-4f;
    y = y - z * 0.5f;
    return (m + y) + n * 0.693359375f;
}

/* log(1 + exp(x)) */
ML_ALWAYS_INLINE float ml_softplus(float x)
{
    if (x > 20.0f)
        return x;
    float e = ml_exp_scalar(x), u = 1.0f + e;
    /* What the sum lost to rounding comes back as a factor. */
    return u == 1.0f ? e : ml_log_single(u) * (e / (u - 1.0f));
}

#endif
