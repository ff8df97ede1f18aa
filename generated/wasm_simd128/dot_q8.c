/*
 * ml_k_dot_q8_wasm_simd128
 * Scores s[query][position] = q[query] . k[position] over one page of q8 keys.
 *
 * Written by krafla-gen from templates/dot_q8.c.j2 and isa_specs/wasm_simd128.py (facets: rowdot); do not
 * edit.
 *
 * There is no 8-bit multiply: bytes are split into sign-extended even and odd 16-bit lanes for pair sums.
 * Q4 nibbles stay unsigned; 8 * sum(x) is subtracted per block.
 */
#include "ml_config.h"
#include "core/wasm_common.h"

static int32_t one_key(const int8_t *q, const int8_t *k, int n)
{

    v128_t lanes = wasm_i32x4_splat(0);
    int i = 0;
    for (; i + 16 <= n; i += 16)
        lanes = wasm_i32x4_add(lanes, ml_madd_i8_wasm(wasm_v128_load(q + i), wasm_v128_load(k + i)));
    int32_t sum = ml_sum_i32_wasm(lanes);
    for (; i < n; i++)
        sum += q[i] * k[i];
    return sum;
}

void ml_k_dot_q8_wasm_simd128(float *s, size_t s_stride, const int8_t *q, const float *dq, size_t q_stride,
                              int queries, const int8_t *k, const float *dk, int n)
{
    for (int t = 0; t < ML_PAGE;
         t++) /* a key stays in registers or in the first-level cache for all queries */
        for (int i = 0; i < queries; i++)
            s[(size_t)i * s_stride + (size_t)t] =
                (float)one_key(q + (size_t)i * q_stride, k + t * n, n) * (dq[i] * dk[t]);
}
