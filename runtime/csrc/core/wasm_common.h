/* wasm_common.h: idioms of a few SIMD instructions that deserve a name. Included by the WebAssembly kernels
 * only. */
#ifndef ML_WASM_COMMON_H
#define ML_WASM_COMMON_H

#include "ml.h"

#include <wasm_simd128.h>

/* Canonical fold of sixteen partials in four registers: by 8, by 4, then inside the last register by 2 and 1.
 */
ML_ALWAYS_INLINE float ml_fold16_wasm(v128_t p0, v128_t p1, v128_t p2, v128_t p3)
{
    v128_t p = wasm_f32x4_add(wasm_f32x4_add(p0, p2), wasm_f32x4_add(p1, p3));
    p = wasm_f32x4_add(p, wasm_i32x4_shuffle(p, p, 2, 3, 2, 3));
    return wasm_f32x4_extract_lane(p, 0) + wasm_f32x4_extract_lane(p, 1);
}

ML_ALWAYS_INLINE float ml_max_wasm(v128_t x)
{
    x = wasm_f32x4_pmax(x, wasm_i32x4_shuffle(x, x, 2, 3, 2, 3));
    return wasm_f32x4_extract_lane(wasm_f32x4_pmax(x, wasm_i32x4_shuffle(x, x, 1, 1, 1, 1)), 0);
}

ML_ALWAYS_INLINE v128_t ml_load_i8_wasm(const int8_t *p)
{
    v128_t words = wasm_i16x8_extend_low_i8x16(wasm_v128_load32_zero(p));
    return wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(words));
}

ML_ALWAYS_INLINE void ml_store_i8_wasm(int8_t *p, v128_t x)
{
    v128_t lanes = wasm_i32x4_trunc_sat_f32x4(x);
    v128_t words = wasm_i16x8_narrow_i32x4(lanes, lanes);
    int32_t bytes = wasm_i32x4_extract_lane(wasm_i8x16_narrow_i16x8(words, words), 0);
    memcpy(p, &bytes, sizeof bytes);
}

ML_ALWAYS_INLINE void ml_load_pairs_wasm(const float *p, v128_t *even, v128_t *odd)
{
    v128_t low = wasm_v128_load(p);
    v128_t high = wasm_v128_load(p + 4);
    *even = wasm_i32x4_shuffle(low, high, 0, 2, 4, 6);
    *odd = wasm_i32x4_shuffle(low, high, 1, 3, 5, 7);
}

ML_ALWAYS_INLINE void ml_store_pairs_wasm(float *p, v128_t even, v128_t odd)
{
    wasm_v128_store(p, wasm_i32x4_shuffle(even, odd, 0, 4, 1, 5));
    wasm_v128_store(p + 4, wasm_i32x4_shuffle(even, odd, 2, 6, 3, 7));
}

/* Half precision widened: a power-of-two product rebiases the exponent, also of subnormals. */
ML_ALWAYS_INLINE v128_t ml_load_f16_wasm(const uint16_t *p)
{
    v128_t wide = wasm_u32x4_extend_low_u16x8(wasm_v128_load64_zero(p));
    v128_t sign = wasm_i32x4_shl(wasm_v128_and(wide, wasm_i32x4_splat(0x8000)), 16);
    v128_t magnitude = wasm_i32x4_shl(wasm_v128_and(wide, wasm_i32x4_splat(0x7fff)), 13);
    v128_t special = wasm_i32x4_gt(magnitude, wasm_i32x4_splat(0x0f7fffff)); /* infinity or NaN */
    v128_t scaled = wasm_f32x4_mul(magnitude, wasm_f32x4_splat(0x1p112f));
    v128_t infinity = wasm_v128_or(magnitude, wasm_i32x4_splat(0x7f800000));
    return wasm_v128_or(wasm_v128_bitselect(infinity, scaled, special), sign);
}

ML_ALWAYS_INLINE int32_t ml_sum_i32_wasm(v128_t x)
{
    x = wasm_i32x4_add(x, wasm_i32x4_shuffle(x, x, 2, 3, 2, 3));
    return wasm_i32x4_extract_lane(x, 0) + wasm_i32x4_extract_lane(x, 1);
}

/* Sixteen signed byte products summed to four int32 lanes. */
ML_ALWAYS_INLINE v128_t ml_madd_i8_wasm(v128_t w, v128_t x)
{
    v128_t low = wasm_i32x4_dot_i16x8(wasm_i16x8_extend_low_i8x16(w), wasm_i16x8_extend_low_i8x16(x));
    v128_t high = wasm_i32x4_dot_i16x8(wasm_i16x8_extend_high_i8x16(w), wasm_i16x8_extend_high_i8x16(x));
    return wasm_i32x4_add(low, high);
}

#endif
