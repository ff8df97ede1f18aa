/* arm_common.h: idioms of a few NEON and SVE instructions that deserve a name. Included by the ARM kernels
 * only. */
#ifndef ML_ARM_COMMON_H
#define ML_ARM_COMMON_H

#include "ml.h"

#include <arm_neon.h>
#if defined(__ARM_FEATURE_SVE)
#include <arm_sve.h>
#endif

/* ---- NEON: ARMv7 and AArch64 ---- */

/* a * b + c in the class of this build; ARMv7 is always unfused. */
ML_ALWAYS_INLINE float32x4_t ml_madd_neon(float32x4_t a, float32x4_t b, float32x4_t c)
{
#if ML_FUSED
    return vfmaq_f32(c, a, b);
#else
    return vaddq_f32(vmulq_f32(a, b), c);
#endif
}

/* Correctly rounded division; ARMv7 NEON has none, its scalar unit has. */
ML_ALWAYS_INLINE float32x4_t ml_div_neon(float32x4_t a, float32x4_t b)
{
#if defined(__aarch64__)
    return vdivq_f32(a, b);
#else
    float x[4], y[4];
    vst1q_f32(x, a);
    vst1q_f32(y, b);
    for (int i = 0; i < 4; i++)
        x[i] = x[i] / y[i];
    return vld1q_f32(x);
#endif
}

/* Canonical fold of sixteen partials in four registers: by 8, by 4, then inside the last register by 2 and 1.
 */
ML_ALWAYS_INLINE float ml_fold16_neon(float32x4_t p0, float32x4_t p1, float32x4_t p2, float32x4_t p3)
{
    float32x4_t p = vaddq_f32(vaddq_f32(p0, p2), vaddq_f32(p1, p3));
    float32x2_t halves = vadd_f32(vget_low_f32(p), vget_high_f32(p));
    return vget_lane_f32(halves, 0) + vget_lane_f32(halves, 1);
}

ML_ALWAYS_INLINE float ml_max_neon(float32x4_t x)
{
    float32x2_t halves = vpmax_f32(vget_low_f32(x), vget_high_f32(x));
    return vget_lane_f32(vpmax_f32(halves, halves), 0);
}

ML_ALWAYS_INLINE float32x4_t ml_load_i8_neon(const int8_t *p)
{
    int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(ml_load_i32(p)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
}

ML_ALWAYS_INLINE void ml_store_i8_neon(int8_t *p, float32x4_t x)
{
    int16x4_t words = vmovn_s32(vcvtq_s32_f32(x));
    int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
    int32_t lanes = vget_lane_s32(vreinterpret_s32_s8(bytes), 0);
    memcpy(p, &lanes, sizeof lanes);
}

ML_ALWAYS_INLINE void ml_load_pairs_neon(const float *p, float32x4_t *even, float32x4_t *odd)
{
    float32x4x2_t both = vld2q_f32(p);
    *even = both.val[0];
    *odd = both.val[1];
}

ML_ALWAYS_INLINE void ml_store_pairs_neon(float *p, float32x4_t even, float32x4_t odd)
{
    float32x4x2_t both = {{even, odd}};
    vst2q_f32(p, both);
}

/* Half precision widened. ARMv7 NEON may lack the conversion and flushes subnormals, so it goes through
 * integers. */
ML_ALWAYS_INLINE float32x4_t ml_load_f16_neon(const uint16_t *p)
{
#if defined(__aarch64__)
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
#else
    uint32x4_t half = vmovl_u16(vld1_u16(p));
    uint32x4_t sign = vshlq_n_u32(vandq_u32(half, vdupq_n_u32(0x8000)), 16);
    uint32x4_t magnitude = vandq_u32(half, vdupq_n_u32(0x7fff));
    uint32x4_t normal = vaddq_u32(vshlq_n_u32(magnitude, 13), vdupq_n_u32(112u << 23));
    uint32x4_t special = vorrq_u32(vshlq_n_u32(magnitude, 13), vdupq_n_u32(0x7f800000));
    float32x4_t tiny = vmulq_f32(vcvtq_f32_u32(magnitude), vdupq_n_f32(0x1p-24f));
    uint32x4_t bits =
        vbslq_u32(vcltq_u32(magnitude, vdupq_n_u32(0x400)), vreinterpretq_u32_f32(tiny), normal);
    bits = vbslq_u32(vcgeq_u32(magnitude, vdupq_n_u32(0x7c00)), special, bits);
    return vreinterpretq_f32_u32(vorrq_u32(bits, sign));
#endif
}

ML_ALWAYS_INLINE int32_t ml_sum_i32_neon(int32x4_t x)
{
    int32x2_t halves = vadd_s32(vget_low_s32(x), vget_high_s32(x));
    return vget_lane_s32(vpadd_s32(halves, halves), 0);
}

/* Sixteen products of signed bytes added to four lanes; two products (at most 32258) fit into 16 bits. */
ML_ALWAYS_INLINE int32x4_t ml_mul_i8_neon(int32x4_t sum, int8x16_t w, int8x16_t x)
{
    int16x8_t pairs = vmull_s8(vget_low_s8(w), vget_low_s8(x));
    pairs = vmlal_s8(pairs, vget_high_s8(w), vget_high_s8(x));
    return vpadalq_s16(sum, pairs);
}

/* Low and high nibbles as the signed values nibble - 8. */
ML_ALWAYS_INLINE int8x16_t ml_low_nibbles_neon(const uint8_t *p)
{
    return vsubq_s8(vreinterpretq_s8_u8(vandq_u8(vld1q_u8(p), vdupq_n_u8(0x0f))), vdupq_n_s8(8));
}

ML_ALWAYS_INLINE int8x16_t ml_high_nibbles_neon(const uint8_t *p)
{
    return vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(vld1q_u8(p), 4)), vdupq_n_s8(8));
}

/* Lanes of rows 0, 0, 1, 1 and of rows 2, 2, 3, 3 added to rows 0 to 3. */
ML_ALWAYS_INLINE int32x4_t ml_rows_neon(int32x4_t first, int32x4_t second)
{
#if defined(__aarch64__)
    return vpaddq_s32(first, second);
#else
    return vcombine_s32(vpadd_s32(vget_low_s32(first), vget_high_s32(first)),
                        vpadd_s32(vget_low_s32(second), vget_high_s32(second)));
#endif
}

/* Two steps of four rows: rows 0 and 1 of both, rows 2 and 3 of both. */
ML_ALWAYS_INLINE int8x16x2_t ml_load_halves_neon(const uint8_t *p)
{
    const int8_t *steps = (const int8_t *)p;
#if defined(__aarch64__)
    int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(steps));
    int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(steps + 16));
    int8x16x2_t rows = {{vreinterpretq_s8_s64(vzip1q_s64(a, b)), vreinterpretq_s8_s64(vzip2q_s64(a, b))}};
#else
    int8x16x2_t rows = {{vcombine_s8(vld1_s8(steps), vld1_s8(steps + 16)),
                         vcombine_s8(vld1_s8(steps + 8), vld1_s8(steps + 24))}};
#endif
    return rows;
}

/* Eight bytes: the first four twice, then the other four twice. */
ML_ALWAYS_INLINE void ml_store_twice_neon(int8_t *to, const int8_t *from)
{
    int32x2_t both = vreinterpret_s32_s8(vld1_s8(from));
    int32x2x2_t twice = vzip_s32(both, both);
    vst1q_s8(to, vreinterpretq_s8_s32(vcombine_s32(twice.val[0], twice.val[1])));
}

#if defined(__aarch64__)
/* Two steps of four rows zipped to eight consecutive bytes per row: rows 0 and 1, rows 2 and 3. */
ML_ALWAYS_INLINE int8x16x2_t ml_zip_steps_neon(int8x16_t first, int8x16_t second)
{
    int32x4_t a = vreinterpretq_s32_s8(first);
    int32x4_t b = vreinterpretq_s32_s8(second);
    int8x16x2_t rows = {{vreinterpretq_s8_s32(vzip1q_s32(a, b)), vreinterpretq_s8_s32(vzip2q_s32(a, b))}};
    return rows;
}

/* The same pointer, but the compiler no longer knows what is there: it loads, and does not copy registers. */
ML_ALWAYS_INLINE const float *ml_opaque_neon(const float *p)
{
    __asm__ volatile("" : "+r"(p));
    return p;
}

/* Two floats, twice. */
ML_ALWAYS_INLINE float32x4_t ml_pair_neon(const float *p)
{
    return vreinterpretq_f32_u64(vld1q_dup_u64((const void *)p));
}
#endif

/* ---- SVE ---- */
#if defined(__ARM_FEATURE_SVE)

/* The smaller of a vector's float lanes and sixteen. */
ML_ALWAYS_INLINE int ml_partials_sve(void)
{
    int lanes = (int)svcntw();
    return lanes < 16 ? lanes : 16;
}

ML_ALWAYS_INLINE svfloat32_t ml_load_f16_sve(svbool_t pg, const uint16_t *p)
{
    return svcvt_f32_f16_x(pg, svreinterpret_f16_u32(svld1uh_u32(pg, p)));
}

ML_ALWAYS_INLINE void ml_load_pairs_sve(svbool_t pg, const float *p, svfloat32_t *even, svfloat32_t *odd)
{
    svfloat32x2_t both = svld2_f32(pg, p);
    *even = svget2_f32(both, 0);
    *odd = svget2_f32(both, 1);
}

/* The sum of 32 products of signed bytes, whatever the vector length. */
ML_ALWAYS_INLINE int32_t ml_dot32_sve(const int8_t *w, const int8_t *x)
{
    svint32_t sum = svdup_n_s32(0);
    for (int i = 0; i < 32; i += (int)svcntb()) {
        svbool_t pg = svwhilelt_b8_s32(i, 32);
        sum = svdot_s32(sum, svld1_s8(pg, w + i), svld1_s8(pg, x + i));
    }
    return (int32_t)svaddv_s32(svptrue_b32(), sum);
}

/* The same for a Q4 block: nibble - 8 of sixteen bytes, low halves first. */
ML_ALWAYS_INLINE int32_t ml_dot32_q4_sve(const uint8_t *w, const int8_t *x)
{
    svint32_t sum = svdup_n_s32(0);
    for (int i = 0; i < 16; i += (int)svcntb()) {
        svbool_t pg = svwhilelt_b8_s32(i, 16);
        svuint8_t packed = svld1_u8(pg, w + i);
        svint8_t low = svsub_n_s8_x(pg, svreinterpret_s8_u8(svand_n_u8_x(pg, packed, 0x0f)), 8);
        svint8_t high = svsub_n_s8_x(pg, svreinterpret_s8_u8(svlsr_n_u8_x(pg, packed, 4)), 8);
        sum = svdot_s32(sum, low, svld1_s8(pg, x + i));
        sum = svdot_s32(sum, high, svld1_s8(pg, x + 16 + i));
    }
    return (int32_t)svaddv_s32(svptrue_b32(), sum);
}

#endif

#endif
