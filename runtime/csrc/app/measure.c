/* measure.c: timing loops; which instructions are the fastest follows from what the compiler may use. */
#include "measure.h"

#include "ml_config.h"
#include "model/profile.h"

enum { CHAINS = 12, TURNS = 1000 }; /* independent sums, enough for any latency; turns of a loop per round */

/* The compiler must take the value as changed, so that it repeats work on it. */
#if defined(__x86_64__) || defined(__i386__)
#define HIDE_LANES(value) __asm__ volatile("" : "+v"(value))
#define HIDE_FLOAT(value) __asm__ volatile("" : "+v"(value))
#elif defined(__ARM_NEON)
#define HIDE_LANES(value) __asm__ volatile("" : "+w"(value))
#define HIDE_FLOAT(value) __asm__ volatile("" : "+w"(value))
#elif defined(__riscv)
#define HIDE_FLOAT(value) __asm__ volatile("" : "+f"(value))
#else
#define HIDE_FLOAT(value) __asm__ volatile("" : "+r"(value))
#endif
#define HIDE_INT(value) __asm__ volatile("" : "+r"(value))

#if defined(__AVX512VNNI__)
#include <immintrin.h>
typedef __m512i int8_lanes;
typedef __m512i int32_lanes;
#define INT8_NAME "vpdpbusd, 512 bit"
#define INT8_OPERATIONS 128
#define INT8_DOT(sum, a, b) _mm512_dpbusd_epi32(sum, a, b)
#elif defined(__AVXVNNI__)
#include <immintrin.h>
typedef __m256i int8_lanes;
typedef __m256i int32_lanes;
#define INT8_NAME "vpdpbusd, 256 bit"
#define INT8_OPERATIONS 64
#define INT8_DOT(sum, a, b) _mm256_dpbusd_avx_epi32(sum, a, b)
#elif defined(__AVX2__)
#include <immintrin.h>
typedef __m256i int8_lanes;
typedef __m256i int32_lanes;
#define INT8_NAME "vpmaddubsw + vpmaddwd + vpaddd, 256 bit"
#define INT8_OPERATIONS 64
#define INT8_DOT(sum, a, b)                                                                                  \
    _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)))
#elif defined(__SSSE3__)
#include <tmmintrin.h>
typedef __m128i int8_lanes;
typedef __m128i int32_lanes;
#define INT8_NAME "pmaddubsw + pmaddwd + paddd, 128 bit"
#define INT8_OPERATIONS 32
#define INT8_DOT(sum, a, b) _mm_add_epi32(sum, _mm_madd_epi16(_mm_maddubs_epi16(a, b), _mm_set1_epi16(1)))
#elif defined(__SSE2__)
#include <emmintrin.h>
typedef __m128i int8_lanes;
typedef __m128i int32_lanes;
#define INT8_NAME "pmaddwd + paddd, 128 bit (on values widened to 16 bits)"
#define INT8_OPERATIONS 16
#define INT8_DOT(sum, a, b) _mm_add_epi32(sum, _mm_madd_epi16(a, b))
#elif defined(__ARM_FEATURE_MATMUL_INT8)
#include <arm_neon.h>
typedef int8x16_t int8_lanes;
typedef int32x4_t int32_lanes;
#define INT8_NAME "smmla"
#define INT8_OPERATIONS 64
#define INT8_DOT(sum, a, b) vmmlaq_s32(sum, a, b)
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
typedef int8x16_t int8_lanes;
typedef int32x4_t int32_lanes;
#define INT8_NAME "sdot"
#define INT8_OPERATIONS 32
#define INT8_DOT(sum, a, b) vdotq_s32(sum, a, b)
#elif defined(__ARM_NEON)
#include <arm_neon.h>
typedef int8x16_t int8_lanes;
typedef int32x4_t int32_lanes;
#define INT8_NAME "smull + sadalp"
#define INT8_OPERATIONS 16
#define INT8_DOT(sum, a, b) vpadalq_s16(sum, vmull_s8(vget_low_s8(a), vget_low_s8(b)))
#else
typedef int32_t int8_lanes;
typedef int32_t int32_lanes;
#define INT8_NAME "plain C, one product at a time"
#define INT8_OPERATIONS 2
#define INT8_DOT(sum, a, b) ((sum) + (a) * (b))
#undef HIDE_LANES
#define HIDE_LANES HIDE_INT
#endif

#if defined(__AVX512F__)
typedef __m512 float_lanes;
#define FLOAT_LANES 16
#define FLOAT_MADD(sum, a, b) _mm512_fmadd_ps(a, b, sum)
#define FLOAT_NAME "vfmadd, 512 bit"
#elif defined(__FMA__)
typedef __m256 float_lanes;
#define FLOAT_LANES 8
#define FLOAT_MADD(sum, a, b) _mm256_fmadd_ps(a, b, sum)
#define FLOAT_NAME "vfmadd, 256 bit"
#elif defined(__SSE2__)
typedef __m128 float_lanes;
#define FLOAT_LANES 4
#define FLOAT_MADD(sum, a, b) _mm_add_ps(sum, _mm_mul_ps(a, b))
#define FLOAT_NAME "mulps + addps, 128 bit"
#elif defined(__aarch64__)
typedef float32x4_t float_lanes;
#define FLOAT_LANES 4
#define FLOAT_MADD(sum, a, b) vfmaq_f32(sum, a, b)
#define FLOAT_NAME "fmla, 128 bit"
#elif defined(__ARM_NEON)
typedef float32x4_t float_lanes;
#define FLOAT_LANES 4
#define FLOAT_MADD(sum, a, b) vaddq_f32(sum, vmulq_f32(a, b))
#define FLOAT_NAME "vmul + vadd, 128 bit"
#else
typedef float float_lanes;
#define FLOAT_LANES 1
#define FLOAT_MADD(sum, a, b) ml_madd(a, b, sum)
#define FLOAT_NAME "plain C, one lane"
#endif

double ml_measure_calls(ml_measured kernel, const ml_measured_call *calls, int count, int repeats)
{
    double start = ml_clock();
    for (int i = 0, next = 0; i < repeats; i++) {
        kernel(&calls[next]);
        next = next + 1 < count ? next + 1 : 0;
    }
    return ml_clock() - start;
}

double ml_measure_read(const void *data, size_t bytes, int passes)
{
    typedef uint32_t line __attribute__((vector_size(64)));
    double start = ml_clock();
    for (int pass = 0; pass < passes; pass++) {
        line sums[2] = {{0}};
        const char *end = (const char *)data + bytes;
        for (const char *at = data; at < end; at += 1024) {
#pragma GCC unroll 8
            for (size_t i = 0; i < 1024; i += sizeof sums) {
                line values[2];
                memcpy(values, at + i, sizeof values);
                sums[0] ^= values[0];
                sums[1] ^= values[1];
            }
        }
        __asm__ volatile("" : : "r"(&sums) : "memory"); /* they are wanted, and memory may have changed */
    }
    return ml_clock() - start;
}

#if defined(__AMX_INT8__)
const char *ml_measure_int8_name(void)
{
    return "tdpbssd, 16 x 64 x 16";
}

double ml_measure_int8(int rounds, double *operations)
{
    static const uint8_t layout[64] = {
        1,  0,  0,  0,  0,  0,  0,  0,  0,  0, 0,  0, 0,  0, 0,  0, /* palette 1 */
        64, 0,  64, 0,  64, 0,  64, 0,  64, 0, 64, 0, 64, 0, 64, 0, /* bytes per row */
        0,  0,  0,  0,  0,  0,  0,  0,  0,  0, 0,  0, 0,  0, 0,  0, /* of all eight tiles */
        16, 16, 16, 16, 16, 16, 16, 16,
    };
    _tile_loadconfig(layout);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    double start = ml_clock();
    for (int64_t turn = 0; turn < (int64_t)rounds * TURNS; turn++) {
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    double seconds = ml_clock() - start;
    _tile_release();
    *operations = (double)rounds * (TURNS * 4 * 2 * 16 * 16 * 64);
    return seconds;
}
#else
const char *ml_measure_int8_name(void)
{
    return INT8_NAME;
}

double ml_measure_int8(int rounds, double *operations)
{
    int8_lanes a, b;
    int32_lanes sums[CHAINS];
    memset(&a, 1, sizeof a);
    memset(&b, 1, sizeof b);
    memset(sums, 0, sizeof sums);
    double start = ml_clock();
    for (int64_t turn = 0; turn < (int64_t)rounds * TURNS; turn++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            HIDE_LANES(a);
            sums[i] = INT8_DOT(sums[i], a, b);
            HIDE_LANES(sums[i]);
        }
    }
    *operations = (double)rounds * (TURNS * CHAINS * INT8_OPERATIONS);
    return ml_clock() - start;
}
#endif

const char *ml_measure_float_name(void)
{
    return FLOAT_NAME;
}

double ml_measure_float(int rounds, double *operations)
{
    float_lanes a, b, sums[CHAINS];
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    memset(sums, 0, sizeof sums);
    double start = ml_clock();
    for (int64_t turn = 0; turn < (int64_t)rounds * TURNS; turn++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            HIDE_FLOAT(a);
            sums[i] = FLOAT_MADD(sums[i], a, b);
            HIDE_FLOAT(sums[i]);
        }
    }
    *operations = (double)rounds * (TURNS * CHAINS * 2 * FLOAT_LANES);
    return ml_clock() - start;
}
