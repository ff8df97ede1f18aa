/*
 * ml_k_matvec_q8_wasm_simd128
 * y[r0..r1) = W x for row-major Q8_0 weights and Q8_0 activations.
 *
 * Written by krafla-gen from templates/matvec.c.j2 and isa_specs/wasm_simd128.py (facets: rowdot); do not
 * edit.
 *
 * There is no 8-bit multiply: bytes are split into sign-extended even and odd 16-bit lanes for pair sums.
 * Q4 nibbles stay unsigned; 8 * sum(x) is subtracted per block.
 */
#include "ml_config.h"
#include "core/wasm_common.h"

/* 4 rows share each block of activations. */
static void rows_4(float *y, const int8_t *w, const float *wd, const int8_t *xq, const float *xd,
                   const int32_t *xs, size_t blocks)
{

    float sum0 = 0.0f;
    float sum1 = 0.0f;
    float sum2 = 0.0f;
    float sum3 = 0.0f;
    for (size_t b = 0; b < blocks; b++) {
        const v128_t x0 = wasm_v128_load(xq + b * ML_BLOCK);
        const v128_t x1 = wasm_v128_load(xq + b * ML_BLOCK + 16);
        const int32_t isum0 = ml_sum_i32_wasm(wasm_i32x4_add(
            wasm_i32x4_add(wasm_i32x4_splat(0), ml_madd_i8_wasm(wasm_v128_load(w + b * 32), x0)),
            ml_madd_i8_wasm(wasm_v128_load(w + b * 32 + 16), x1)));
        const int32_t isum1 = ml_sum_i32_wasm(
            wasm_i32x4_add(wasm_i32x4_add(wasm_i32x4_splat(0),
                                          ml_madd_i8_wasm(wasm_v128_load(w + (1 * blocks + b) * 32), x0)),
                           ml_madd_i8_wasm(wasm_v128_load(w + (1 * blocks + b) * 32 + 16), x1)));
        const int32_t isum2 = ml_sum_i32_wasm(
            wasm_i32x4_add(wasm_i32x4_add(wasm_i32x4_splat(0),
                                          ml_madd_i8_wasm(wasm_v128_load(w + (2 * blocks + b) * 32), x0)),
                           ml_madd_i8_wasm(wasm_v128_load(w + (2 * blocks + b) * 32 + 16), x1)));
        const int32_t isum3 = ml_sum_i32_wasm(
            wasm_i32x4_add(wasm_i32x4_add(wasm_i32x4_splat(0),
                                          ml_madd_i8_wasm(wasm_v128_load(w + (3 * blocks + b) * 32), x0)),
                           ml_madd_i8_wasm(wasm_v128_load(w + (3 * blocks + b) * 32 + 16), x1)));
        sum0 = ml_madd((float)isum0, wd[b] * xd[b], sum0);
        sum1 = ml_madd((float)isum1, wd[1 * blocks + b] * xd[b], sum1);
        sum2 = ml_madd((float)isum2, wd[2 * blocks + b] * xd[b], sum2);
        sum3 = ml_madd((float)isum3, wd[3 * blocks + b] * xd[b], sum3);
    }
    (void)xs; /* sums of signed products need no correction */
    y[0] = sum0;
    y[1] = sum1;
    y[2] = sum2;
    y[3] = sum3;
}

/* 1 row reads each block of activations. */
static void rows_1(float *y, const int8_t *w, const float *wd, const int8_t *xq, const float *xd,
                   const int32_t *xs, size_t blocks)
{

    float sum0 = 0.0f;
    for (size_t b = 0; b < blocks; b++) {
        const v128_t x0 = wasm_v128_load(xq + b * ML_BLOCK);
        const v128_t x1 = wasm_v128_load(xq + b * ML_BLOCK + 16);
        const int32_t isum0 = ml_sum_i32_wasm(wasm_i32x4_add(
            wasm_i32x4_add(wasm_i32x4_splat(0), ml_madd_i8_wasm(wasm_v128_load(w + b * 32), x0)),
            ml_madd_i8_wasm(wasm_v128_load(w + b * 32 + 16), x1)));
        sum0 = ml_madd((float)isum0, wd[b] * xd[b], sum0);
    }
    (void)xs; /* sums of signed products need no correction */
    y[0] = sum0;
}

void ml_k_matvec_q8_wasm_simd128(float *y, const int8_t *wq, const float *wd, const int8_t *xq,
                                 const float *xd, const int32_t *xs, int cols, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    const size_t row_bytes = blocks * 32;
    int r = r0;
    for (; r + 4 <= r1; r += 4)
        rows_4(y + r, wq + (size_t)r * row_bytes, wd + (size_t)r * blocks, xq, xd, xs, blocks);
    for (; r < r1; r++)
        rows_1(y + r, wq + (size_t)r * row_bytes, wd + (size_t)r * blocks, xq, xd, xs, blocks);
}
