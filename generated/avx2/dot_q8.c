/*
 * ml_k_dot_q8_avx2
 * Scores: s[t] = q . k[t] over q8 rows.
 *
 * Written by krafla-gen from templates/dot_q8.c.j2 and isa_specs/avx2.py (facets: rowdot); do not edit.
 *
 * pmaddubsw wants one unsigned operand: |w| times x with w's sign (psignb) is w times x. Q4 nibbles are
 * unsigned already; 8 * sum(x) is subtracted per block.
 */
#include "ml_config.h"
#include "core/x86_common.h"

static int32_t one_row(const int8_t *q, const int8_t *k, int n)
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

void ml_k_dot_q8_avx2(float *s, const int8_t *q, float dq, const int8_t *k, const float *dk, size_t stride,
                      int rows, int n)
{
    for (int t = 0; t < rows; t++)
        s[t] = (float)one_row(q, k + (size_t)t * stride, n) * (dq * dk[t]);
}
