/*
 * ml.h: what every part of Krafla shares: status codes, the error sentence, block sizes, and the two scalar
 * operations on which all kernels agree (multiply-add in the build's class, half to single precision).
 * Kernels include this header and their own intrinsics, nothing else.
 */
#ifndef ML_H
#define ML_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Marks what the shared library exports. */
#if defined(_WIN32)
#define ML_API __declspec(dllexport)
#elif defined(__GNUC__)
#define ML_API __attribute__((visibility("default")))
#else
#define ML_API
#endif

#if defined(__GNUC__)
#define ML_ALWAYS_INLINE static inline __attribute__((always_inline))
#define ML_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))
#else
#define ML_ALWAYS_INLINE static inline
#define ML_PRINTF(format_index, first_argument)
#endif

/* Weights and activations are quantized in blocks of this many consecutive values. */
#define ML_BLOCK 32
/* Positions per page of the KV cache: also the block in which attention walks it. */
#define ML_PAGE 64
/* Arrays in files and buffers start at multiples of this many bytes. */
#define ML_ALIGN 64

typedef enum ml_status {
    ML_OK = 0,
    ML_E_IO,          /* cannot open, read or write */
    ML_E_FORMAT,      /* the file is not what it should be */
    ML_E_SHAPE,       /* a dimension is out of bounds or does not fit another */
    ML_E_NOMEM,       /* does not fit into memory or the address space */
    ML_E_ISA,         /* the CPU lacks what this build needs */
    ML_E_UNSUPPORTED, /* the file asks for a feature that this version does not have */
    ML_E_ARGUMENT,    /* the caller passed a value outside its range */
} ml_status;

/* One sentence that names the file, the field and the value. */
typedef struct ml_error {
    ml_status status;
    char message[1020];
} ml_error;

/* Writes the sentence (if `error` is not NULL) and returns `status`, so that callers can `return
 * ml_fail(...)`. */
ml_status ml_fail(ml_error *error, ml_status status, const char *format, ...) ML_PRINTF(3, 4);

/* Multiply-add in the class of this build: one rounding (fused) or two. ml_config.h decides ML_FUSED. */
ML_ALWAYS_INLINE float ml_madd_fused(float a, float b, float c)
{
    return fmaf(a, b, c);
}

ML_ALWAYS_INLINE float ml_madd_unfused(float a, float b, float c)
{
    return a * b + c;
}

ML_ALWAYS_INLINE uint32_t ml_bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

ML_ALWAYS_INLINE float ml_float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* IEEE half to single precision, exact. Subnormals go through an integer, so that a unit which flushes them
 * (ARMv7) agrees. */
ML_ALWAYS_INLINE float ml_f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = half & 0x7fffu;
    uint32_t bits = (magnitude << 13) + (112u << 23); /* the exponent with its other bias */
    if (magnitude < 0x400u)
        bits = ml_bits_of((float)magnitude * 0x1p-24f);
    else if (magnitude >= 0x7c00u)
        bits |= 0x7f800000u; /* infinity and NaN keep their payload */
    return ml_float_of(bits | sign);
}

/* Single to half precision, round to nearest even; overflow gives infinity. */
ML_ALWAYS_INLINE uint16_t ml_f32_to_f16(float x)
{
    uint32_t bits = ml_bits_of(x);
    uint32_t sign = (bits >> 16) & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u); /* NaN */
    if (bits >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00u); /* rounds to infinity */
    if (bits < 0x38800000u) {
        /* Subnormal half: adding 0.5 leaves the rounded value in the low mantissa bits. */
        float shifted = ml_float_of(bits) + 0.5f;
        return (uint16_t)(sign | (ml_bits_of(shifted) - 0x3f000000u));
    }
    uint32_t round = 0xfffu + ((bits >> 13) & 1u);
    return (uint16_t)(sign | ((bits - 0x38000000u + round) >> 13));
}

/* Four bytes from any address as one 32-bit value. */
ML_ALWAYS_INLINE int32_t ml_load_i32(const void *p)
{
    int32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

/* Two 16-bit values in one 32-bit lane, the first in the low half. */
ML_ALWAYS_INLINE int32_t ml_pair_i16(int first, int second)
{
    return (int32_t)(((uint32_t)first & 0xffffu) | ((uint32_t)second << 16));
}

/* The exact sum of one block's products: Q8 quants, or Q4 nibbles (low: elements 0 to 15, high: 16 to 31). */
ML_ALWAYS_INLINE int32_t ml_dot32_q8(const int8_t *w, const int8_t *x)
{
    int32_t sum = 0;
    for (int j = 0; j < ML_BLOCK; j++)
        sum += w[j] * x[j];
    return sum;
}

ML_ALWAYS_INLINE int32_t ml_dot32_q4(const uint8_t *w, const int8_t *x)
{
    int32_t sum = 0;
    for (int j = 0; j < ML_BLOCK / 2; j++)
        sum += ((w[j] & 0x0f) - 8) * x[j] + ((w[j] >> 4) - 8) * x[j + ML_BLOCK / 2];
    return sum;
}

/* Asks for the cache line at p; ML_USE_PREFETCH comes from ml_config.h and can be overridden with -D. */
#if defined(__GNUC__)
#define ml_prefetch(p) __builtin_prefetch(p)
#else
#define ml_prefetch(p) ((void)(p))
#endif

/* Sum of the 16 partials of a canonical reduction, folded by halves; `p` is overwritten. */
ML_ALWAYS_INLINE float ml_fold16(float *p)
{
    for (int half = 8; half >= 1; half /= 2)
        for (int j = 0; j < half; j++)
            p[j] += p[j + half];
    return p[0];
}

#endif
