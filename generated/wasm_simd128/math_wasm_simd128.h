/*
 * e^x on wasm_simd128: the Cephes polynomial, with multiply-add in the machine's class.
 * Written by krafla-gen from templates/simd_math.h.j2 and isa_specs/wasm_simd128.py; do not edit.
 */
#ifndef ML_MATH_WASM_SIMD128_H
#define ML_MATH_WASM_SIMD128_H

#include "ml_config.h"
#include "core/wasm_common.h"

/*
 * x = n * ln 2 + r with |r| <= ln 2 / 2, then e^r by a polynomial and 2^n by exponent bits. Beyond 127.5 * ln
 * 2 the result is infinity, and below the logarithm of the smallest normal number it is 0.
 */
ML_ALWAYS_INLINE v128_t ml_exp_wasm_simd128(v128_t x)
{
    /* Adding 1.5 * 2^23 rounds to an integer, which the low mantissa bits then hold. */
    v128_t rounded = wasm_f32x4_add(wasm_f32x4_mul(x, wasm_f32x4_splat(1.44269504088896341f)),
                                    wasm_f32x4_splat(12582912.0f));
    v128_t n = wasm_f32x4_sub(rounded, wasm_f32x4_splat(12582912.0f));
    /* ln 2 in two parts, the first of which multiplies n exactly. */
    v128_t r = wasm_f32x4_add(wasm_f32x4_mul(n, wasm_f32x4_splat(-0.693359375f)), x);
    r = wasm_f32x4_add(wasm_f32x4_mul(n, wasm_f32x4_splat(2.12194440e-4f)), r);
    v128_t y = wasm_f32x4_splat(1.9875691500e-4f);
    y = wasm_f32x4_add(wasm_f32x4_mul(y, r), wasm_f32x4_splat(1.3981999507e-3f));
    y = wasm_f32x4_add(wasm_f32x4_mul(y, r), wasm_f32x4_splat(8.3334519073e-3f));
    y = wasm_f32x4_add(wasm_f32x4_mul(y, r), wasm_f32x4_splat(4.1665795894e-2f));
    y = wasm_f32x4_add(wasm_f32x4_mul(y, r), wasm_f32x4_splat(1.6666665459e-1f));
    y = wasm_f32x4_add(wasm_f32x4_mul(y, r), wasm_f32x4_splat(5.0000001201e-1f));
    y = wasm_f32x4_add(wasm_f32x4_mul(y, wasm_f32x4_mul(r, r)), r);
    y = wasm_f32x4_add(y, wasm_f32x4_splat(1.0f));
    y = wasm_f32x4_mul(y, wasm_i32x4_add(wasm_i32x4_shl(rounded, 23), wasm_i32x4_splat(0x3f800000)));
    y = wasm_v128_bitselect(wasm_f32x4_splat(INFINITY), y,
                            wasm_f32x4_gt(x, wasm_f32x4_splat(88.3762626647949f)));
    return wasm_v128_bitselect(wasm_f32x4_splat(0.0f), y, wasm_f32x4_gt(wasm_f32x4_splat(-87.33654f), x));
}

#endif
