/*
 * ml_k_dot_q8_rvv
 * Scores: s[t] = q . k[t] over q8 rows.
 *
 * Written by krafla-gen from templates/dot_q8.c.j2 and isa_specs/rvv.py (facets: rowdot); do not edit.
 *
 * Products in 16 bits, reduced to one 32-bit sum. Nibbles become signed bytes, nibble - 8.
 */
#include "ml_config.h"
#include "core/riscv_common.h"

static int32_t one_row(const int8_t *q, const int8_t *k, int n)
{

    int32_t sum = ml_dot_i8_rvv(q, k, n);
    return sum;
}

void ml_k_dot_q8_rvv(float *s, const int8_t *q, float dq, const int8_t *k, const float *dk, size_t stride,
                     int rows, int n)
{
    for (int t = 0; t < rows; t++)
        s[t] = (float)one_row(q, k + (size_t)t * stride, n) * (dq * dk[t]);
}
