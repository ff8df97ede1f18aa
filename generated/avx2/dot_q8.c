/*
 * ml_k_dot_q8_avx2
 * Scores s[query][position] = q[query] . k[position] over one page of q8 keys.
 *
 * Written by krafla-gen from templates/dot_q8.c.j2 and isa_specs/avx2.py (facets: rowdot); do not edit.
 *
 * pmaddubsw wants one unsigned operand: |w| times x with w's sign (psignb) is w times x. Q4 nibbles are
 * unsigned already; 8 * sum(x) is subtracted per block.
 */
#include "ml_config.h"
#include "core/x86_common.h"

static int32_t one_key(const int8_t *q, const int8_t *k, int n)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i lanes = _mm256_setzero_si256();
    int i = 0;
    for (; i + 32 <= n; i += 32)
        lanes = _mm256_add_epi32(
            lanes, _mm256_madd_epi16(
                       _mm256_maddubs_epi16(_mm256_abs_epi8(_mm256_loadu_si256((const void *)(q + i))),
                                            _mm256_sign_epi8(_mm256_loadu_si256((const void *)(k + i)),
                                                             _mm256_loadu_si256((const void *)(q + i)))),
                       ones));
    int32_t sum = ml_sum_i32_256(lanes);
    for (; i < n; i++)
        sum += q[i] * k[i];
    return sum;
}

void ml_k_dot_q8_avx2(float *s, size_t s_stride, const int8_t *q, const float *dq, size_t q_stride,
                      int queries, const int8_t *k, const float *dk, int n)
{
    for (int t = 0; t < ML_PAGE;
         t++) /* a key stays in registers or in the first-level cache for all queries */
        for (int i = 0; i < queries; i++)
            s[(size_t)i * s_stride + (size_t)t] =
                (float)one_key(q + (size_t)i * q_stride, k + t * n, n) * (dq[i] * dk[t]);
}
