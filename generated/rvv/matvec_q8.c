/*
 * ml_k_matvec_q8_rvv
 * y[r0..r1) = W x for row-major Q8_0 weights and Q8_0 activations.
 *
 * Written by krafla-gen from templates/matvec.c.j2 and isa_specs/rvv.py (facets: rowdot); do not edit.
 *
 * Products in 16 bits, reduced to one 32-bit sum. Nibbles become signed bytes, nibble - 8.
 */
#include "ml_config.h"
#include "core/riscv_common.h"

/* 4 rows share each block of activations. */
static void rows_4(float *y, const int8_t *w, const float *wd, const int8_t *xq, const float *xd,
                   const int32_t *xs, size_t blocks)
{

    float sum0 = 0.0f;
    float sum1 = 0.0f;
    float sum2 = 0.0f;
    float sum3 = 0.0f;
    for (size_t b = 0; b < blocks; b++) {
        const int8_t *xb = xq + b * ML_BLOCK;
        const int32_t isum0 = ml_dot_i8_rvv(w + b * 32, xb, 32);
        const int32_t isum1 = ml_dot_i8_rvv(w + (1 * blocks + b) * 32, xb, 32);
        const int32_t isum2 = ml_dot_i8_rvv(w + (2 * blocks + b) * 32, xb, 32);
        const int32_t isum3 = ml_dot_i8_rvv(w + (3 * blocks + b) * 32, xb, 32);
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
        const int8_t *xb = xq + b * ML_BLOCK;
        const int32_t isum0 = ml_dot_i8_rvv(w + b * 32, xb, 32);
        sum0 = ml_madd((float)isum0, wd[b] * xd[b], sum0);
    }
    (void)xs; /* sums of signed products need no correction */
    y[0] = sum0;
}

void ml_k_matvec_q8_rvv(float *y, const int8_t *wq, const float *wd, const int8_t *xq, const float *xd,
                        const int32_t *xs, int cols, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    const size_t row_bytes = blocks * 32;
    int r = r0;
    for (; r + 4 <= r1; r += 4)
        rows_4(y + r, wq + (size_t)r * row_bytes, wd + (size_t)r * blocks, xq, xd, xs, blocks);
    for (; r < r1; r++)
        rows_1(y + r, wq + (size_t)r * row_bytes, wd + (size_t)r * blocks, xq, xd, xs, blocks);
}
