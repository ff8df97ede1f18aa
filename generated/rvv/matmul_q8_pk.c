/*
 * ml_k_matmul_q8_pk_rvv
 * y[token][r0..r1) = W x[token] for packed Q8_0 weights with f32 scales.
 *
 * Written by krafla-gen from templates/matmul_pk.c.j2 and isa_specs/rvv.py (facets: pack, tile); do not edit.
 *
 * No byte dot product, but bytes times a scalar: a step is one byte of each of sixteen rows, so the
 * activation is a scalar operand. Two products (at most 32258) fit into 16 bits before they are widened.
 * Q4 bytes are stored XOR 0x88, so that a nibble is the signed value q - 8; all 32 products of a block (at
 * most 32512) fit into 16 bits.
 */
#include "ml_config.h"
#include "core/riscv_common.h"

/* One group of 16 rows against 2 tokens; sums stay in registers over all blocks. */
static void tile_2(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd, const int8_t *x,
                   const float *xd, const int32_t *xs, size_t blocks)
{
    const size_t vl = 16; /* rows of a group */
    (void)xs;             /* sums of signed products need no correction */
    vfloat32m4_t sum0 = __riscv_vfmv_v_f_f32m4(0.0f, vl);
    vfloat32m4_t sum1 = __riscv_vfmv_v_f_f32m4(0.0f, vl);
    for (size_t b = 0; b < blocks; b++) {
#if ML_USE_PREFETCH
        if (b < 2) { /* this token's results come from outer caches meanwhile */
            ml_prefetch(y + b * y_stride);
        }
#endif

        vint32m4_t isum0 = __riscv_vmv_v_x_i32m4(0, vl);
        vint32m4_t isum1 = __riscv_vmv_v_x_i32m4(0, vl);
#pragma GCC unroll 32
        for (int step = 0; step < 32; step += 2) {

            const vint8m1_t w0_0 = __riscv_vle8_v_i8m1((const int8_t *)(w + step * 16), vl);
            const vint8m1_t w0_1 = __riscv_vle8_v_i8m1((const int8_t *)(w + step * 16 + 16), vl);
            isum0 = __riscv_vwadd_wv_i32m4(
                isum0,
                __riscv_vwmacc_vx_i16m2(__riscv_vwmul_vx_i16m2(w0_0, (x + step * 2)[0], vl),
                                        (x + step * 2)[1], w0_1, vl),
                vl);
            isum1 = __riscv_vwadd_wv_i32m4(
                isum1,
                __riscv_vwmacc_vx_i16m2(__riscv_vwmul_vx_i16m2(w0_0, (x + step * 2)[2], vl),
                                        (x + step * 2)[3], w0_1, vl),
                vl);
        }
        const vfloat32m4_t w_scale = __riscv_vle32_v_f32m4(wd, vl);
        sum0 = __riscv_vfmacc_vv_f32m4(sum0, __riscv_vfcvt_f_x_v_f32m4(isum0, vl),
                                       __riscv_vfmul_vv_f32m4(w_scale, __riscv_vfmv_v_f_f32m4(xd[0], vl), vl),
                                       vl);
        sum1 = __riscv_vfmacc_vv_f32m4(sum1, __riscv_vfcvt_f_x_v_f32m4(isum1, vl),
                                       __riscv_vfmul_vv_f32m4(w_scale, __riscv_vfmv_v_f_f32m4(xd[1], vl), vl),
                                       vl);
        w += 512;
        wd += 16;
        x += 64;
        xd += 2;
    }
    if (rows >= 16) {
        __riscv_vse32_v_f32m4(y, sum0, vl);
        __riscv_vse32_v_f32m4((y + y_stride), sum1, vl);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[16];
    __riscv_vse32_v_f32m4(out, sum0, vl);
    memcpy(y, out, (size_t)rows * sizeof(float));
    __riscv_vse32_v_f32m4(out, sum1, vl);
    memcpy(y + y_stride, out, (size_t)rows * sizeof(float));
}

/* One group of 16 rows against 1 token; sums stay in registers over all blocks. */
static void tile_1(float *y, int rows, const uint8_t *w, const float *wd, const int8_t *x, const float *xd,
                   const int32_t *xs, size_t blocks)
{
    const size_t vl = 16; /* rows of a group */
    (void)xs;             /* sums of signed products need no correction */
    vfloat32m4_t sum0 = __riscv_vfmv_v_f_f32m4(0.0f, vl);
    for (size_t b = 0; b < blocks; b++) {
        vint32m4_t isum0 = __riscv_vmv_v_x_i32m4(0, vl);
#pragma GCC unroll 32
        for (int step = 0; step < 32; step += 2) {

            const vint8m1_t w0_0 = __riscv_vle8_v_i8m1((const int8_t *)(w + step * 16), vl);
            const vint8m1_t w0_1 = __riscv_vle8_v_i8m1((const int8_t *)(w + step * 16 + 16), vl);
            isum0 = __riscv_vwadd_wv_i32m4(
                isum0,
                __riscv_vwmacc_vx_i16m2(__riscv_vwmul_vx_i16m2(w0_0, (x + step * 1)[0], vl),
                                        (x + step * 1)[1], w0_1, vl),
                vl);
        }
        const vfloat32m4_t w_scale = __riscv_vle32_v_f32m4(wd, vl);
        sum0 = __riscv_vfmacc_vv_f32m4(sum0, __riscv_vfcvt_f_x_v_f32m4(isum0, vl),
                                       __riscv_vfmul_vv_f32m4(w_scale, __riscv_vfmv_v_f_f32m4(xd[0], vl), vl),
                                       vl);
        w += 512;
        wd += 16;
        x += 32;
        xd += 1;
    }
    if (rows >= 16) {
        __riscv_vse32_v_f32m4(y, sum0, vl);
        return;
    }
    /* The last group: fewer rows than lanes. */
    float out[16];
    __riscv_vse32_v_f32m4(out, sum0, vl);
    memcpy(y, out, (size_t)rows * sizeof(float));
}

/* One row group against the tokens from `t` on; its weights stay in cache across the token tiles. */
static void row_group(float *y, size_t y_stride, int rows, const uint8_t *w, const float *wd,
                      const int8_t *xt, const float *xd, const int32_t *xs, size_t blocks, size_t t,
                      size_t tokens)
{
    for (; t + 2 <= tokens; t += 2)
        tile_2(y + t * y_stride, y_stride, rows, w, wd, xt + t * blocks * 32, xd + t * blocks,
               xs + t * blocks * 2, blocks);
    for (; t + 1 <= tokens; t += 1)
        tile_1(y + t * y_stride, rows, w, wd, xt + t * blocks * 32, xd + t * blocks, xs + t * blocks * 2,
               blocks);
}

void ml_k_matmul_q8_pk_rvv(float *y, size_t y_stride, const uint8_t *wq, const float *wd, const int8_t *xt,
                           const float *xd, const int32_t *xs, int cols, int tokens, int r0, int r1)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    for (int r = r0; r < r1; r += 16)
        row_group(y + r, y_stride, r1 - r, wq + (size_t)r * blocks * 32, wd + (size_t)r * blocks, xt, xd, xs,
                  blocks, 0, (size_t)tokens);
}
