/*
 * ml_k_dot_q8_rvv
 * Scores s[query][position] = q[query] . k[position] over one page of q8 keys.
 *
 * Written by krafla-gen from templates/dot_q8.c.j2 and isa_specs/rvv.py (facets: f32, pack); do not edit.
 *
 * No byte dot product, but bytes times a scalar: a step is one byte of each of sixteen rows, so the
 * activation is a scalar operand. Two products (at most 32258) fit into 16 bits before they are widened.
 * Q4 bytes are stored XOR 0x88, so that a nibble is the signed value q - 8; all 32 products of a block (at
 * most 32512) fit into 16 bits.
 */
#include "ml_config.h"
#include "core/riscv_common.h"

/* 4 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_4(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{
    const size_t vl = 16; /* rows of a group */
    (void)xs;             /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 16) {
        vint32m4_t isum0_0 = __riscv_vmv_v_x_i32m4(0, vl);
        vint32m4_t isum1_0 = __riscv_vmv_v_x_i32m4(0, vl);
        vint32m4_t isum2_0 = __riscv_vmv_v_x_i32m4(0, vl);
        vint32m4_t isum3_0 = __riscv_vmv_v_x_i32m4(0, vl);
        for (int step = 0; step < n / 1; step += 2) {
            {
                const vint8m1_t w0_0 = __riscv_vle8_v_i8m1((const int8_t *)(k + step * 16), vl);
                const vint8m1_t w0_1 = __riscv_vle8_v_i8m1((const int8_t *)(k + step * 16 + 16), vl);
                isum0_0 = __riscv_vwadd_wv_i32m4(
                    isum0_0,
                    __riscv_vwmacc_vx_i16m2(__riscv_vwmul_vx_i16m2(w0_0, (x + step * 1)[0], vl),
                                            (x + step * 1)[1], w0_1, vl),
                    vl);
                isum1_0 = __riscv_vwadd_wv_i32m4(
                    isum1_0,
                    __riscv_vwmacc_vx_i16m2(__riscv_vwmul_vx_i16m2(w0_0, (x + x_stride + step * 1)[0], vl),
                                            (x + x_stride + step * 1)[1], w0_1, vl),
                    vl);
                isum2_0 = __riscv_vwadd_wv_i32m4(
                    isum2_0,
                    __riscv_vwmacc_vx_i16m2(
                        __riscv_vwmul_vx_i16m2(w0_0, (x + 2 * x_stride + step * 1)[0], vl),
                        (x + 2 * x_stride + step * 1)[1], w0_1, vl),
                    vl);
                isum3_0 = __riscv_vwadd_wv_i32m4(
                    isum3_0,
                    __riscv_vwmacc_vx_i16m2(
                        __riscv_vwmul_vx_i16m2(w0_0, (x + 3 * x_stride + step * 1)[0], vl),
                        (x + 3 * x_stride + step * 1)[1], w0_1, vl),
                    vl);
            }
        }
        const vfloat32m4_t k_scale0 = __riscv_vle32_v_f32m4(dk + t, vl);
        __riscv_vse32_v_f32m4(
            s + t,
            __riscv_vfmul_vv_f32m4(__riscv_vfcvt_f_x_v_f32m4(isum0_0, vl),
                                   __riscv_vfmul_vv_f32m4(__riscv_vfmv_v_f_f32m4(dq[0], vl), k_scale0, vl),
                                   vl),
            vl);
        __riscv_vse32_v_f32m4(
            (s + s_stride) + t,
            __riscv_vfmul_vv_f32m4(__riscv_vfcvt_f_x_v_f32m4(isum1_0, vl),
                                   __riscv_vfmul_vv_f32m4(__riscv_vfmv_v_f_f32m4(dq[1], vl), k_scale0, vl),
                                   vl),
            vl);
        __riscv_vse32_v_f32m4(
            (s + 2 * s_stride) + t,
            __riscv_vfmul_vv_f32m4(__riscv_vfcvt_f_x_v_f32m4(isum2_0, vl),
                                   __riscv_vfmul_vv_f32m4(__riscv_vfmv_v_f_f32m4(dq[2], vl), k_scale0, vl),
                                   vl),
            vl);
        __riscv_vse32_v_f32m4(
            (s + 3 * s_stride) + t,
            __riscv_vfmul_vv_f32m4(__riscv_vfcvt_f_x_v_f32m4(isum3_0, vl),
                                   __riscv_vfmul_vv_f32m4(__riscv_vfmv_v_f_f32m4(dq[3], vl), k_scale0, vl),
                                   vl),
            vl);
        k += n * 16;
    }
}

/* 2 queries share the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_2(float *s, size_t s_stride, const int8_t *x, size_t x_stride, const float *dq,
                      const int32_t *xs, const uint8_t *k, const float *dk, int n)
{
    const size_t vl = 16; /* rows of a group */
    (void)xs;             /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 32) {
        vint32m4_t isum0_0 = __riscv_vmv_v_x_i32m4(0, vl);
        vint32m4_t isum0_1 = __riscv_vmv_v_x_i32m4(0, vl);
        vint32m4_t isum1_0 = __riscv_vmv_v_x_i32m4(0, vl);
        vint32m4_t isum1_1 = __riscv_vmv_v_x_i32m4(0, vl);
        for (int step = 0; step < n / 1; step += 2) {
            {
                const vint8m1_t w0_0 = __riscv_vle8_v_i8m1((const int8_t *)(k + step * 16), vl);
                const vint8m1_t w0_1 = __riscv_vle8_v_i8m1((const int8_t *)(k + step * 16 + 16), vl);
                isum0_0 = __riscv_vwadd_wv_i32m4(
                    isum0_0,
                    __riscv_vwmacc_vx_i16m2(__riscv_vwmul_vx_i16m2(w0_0, (x + step * 1)[0], vl),
                                            (x + step * 1)[1], w0_1, vl),
                    vl);
                isum1_0 = __riscv_vwadd_wv_i32m4(
                    isum1_0,
                    __riscv_vwmacc_vx_i16m2(__riscv_vwmul_vx_i16m2(w0_0, (x + x_stride + step * 1)[0], vl),
                                            (x + x_stride + step * 1)[1], w0_1, vl),
                    vl);
            }
            {
                const vint8m1_t w0_0 = __riscv_vle8_v_i8m1((const int8_t *)(k + n * 16 + step * 16), vl);
                const vint8m1_t w0_1 = __riscv_vle8_v_i8m1((const int8_t *)(k + n * 16 + step * 16 + 16), vl);
                isum0_1 = __riscv_vwadd_wv_i32m4(
                    isum0_1,
                    __riscv_vwmacc_vx_i16m2(__riscv_vwmul_vx_i16m2(w0_0, (x + step * 1)[0], vl),
                                            (x + step * 1)[1], w0_1, vl),
                    vl);
                isum1_1 = __riscv_vwadd_wv_i32m4(
                    isum1_1,
                    __riscv_vwmacc_vx_i16m2(__riscv_vwmul_vx_i16m2(w0_0, (x + x_stride + step * 1)[0], vl),
                                            (x + x_stride + step * 1)[1], w0_1, vl),
                    vl);
            }
        }
        const vfloat32m4_t k_scale0 = __riscv_vle32_v_f32m4(dk + t, vl);
        __riscv_vse32_v_f32m4(
            s + t,
            __riscv_vfmul_vv_f32m4(__riscv_vfcvt_f_x_v_f32m4(isum0_0, vl),
                                   __riscv_vfmul_vv_f32m4(__riscv_vfmv_v_f_f32m4(dq[0], vl), k_scale0, vl),
                                   vl),
            vl);
        __riscv_vse32_v_f32m4(
            (s + s_stride) + t,
            __riscv_vfmul_vv_f32m4(__riscv_vfcvt_f_x_v_f32m4(isum1_0, vl),
                                   __riscv_vfmul_vv_f32m4(__riscv_vfmv_v_f_f32m4(dq[1], vl), k_scale0, vl),
                                   vl),
            vl);
        const vfloat32m4_t k_scale1 = __riscv_vle32_v_f32m4(dk + (t + 16), vl);
        __riscv_vse32_v_f32m4(
            s + (t + 16),
            __riscv_vfmul_vv_f32m4(__riscv_vfcvt_f_x_v_f32m4(isum0_1, vl),
                                   __riscv_vfmul_vv_f32m4(__riscv_vfmv_v_f_f32m4(dq[0], vl), k_scale1, vl),
                                   vl),
            vl);
        __riscv_vse32_v_f32m4(
            (s + s_stride) + (t + 16),
            __riscv_vfmul_vv_f32m4(__riscv_vfcvt_f_x_v_f32m4(isum1_1, vl),
                                   __riscv_vfmul_vv_f32m4(__riscv_vfmv_v_f_f32m4(dq[1], vl), k_scale1, vl),
                                   vl),
            vl);
        k += n * 32;
    }
}

/* 1 query against the page's keys, which are packed like rows of weights: a lane owns a position. */
static void queries_1(float *s, const int8_t *x, const float *dq, const int32_t *xs, const uint8_t *k,
                      const float *dk, int n)
{
    const size_t vl = 16; /* rows of a group */
    (void)xs;             /* sums of signed products need no correction */
    for (int t = 0; t < ML_PAGE; t += 64) {
        vint32m4_t isum0_0 = __riscv_vmv_v_x_i32m4(0, vl);
        vint32m4_t isum0_1 = __riscv_vmv_v_x_i32m4(0, vl);
        vint32m4_t isum0_2 = __riscv_vmv_v_x_i32m4(0, vl);
        vint32m4_t isum0_3 = __riscv_vmv_v_x_i32m4(0, vl);
        for (int step = 0; step < n / 1; step += 2) {
            {
                const vint8m1_t w0_0 = __riscv_vle8_v_i8m1((const int8_t *)(k + step * 16), vl);
                const vint8m1_t w0_1 = __riscv_vle8_v_i8m1((const int8_t *)(k + step * 16 + 16), vl);
                isum0_0 = __riscv_vwadd_wv_i32m4(
                    isum0_0,
                    __riscv_vwmacc_vx_i16m2(__riscv_vwmul_vx_i16m2(w0_0, (x + step * 1)[0], vl),
                                            (x + step * 1)[1], w0_1, vl),
                    vl);
            }
            {
                const vint8m1_t w0_0 = __riscv_vle8_v_i8m1((const int8_t *)(k + n * 16 + step * 16), vl);
                const vint8m1_t w0_1 = __riscv_vle8_v_i8m1((const int8_t *)(k + n * 16 + step * 16 + 16), vl);
                isum0_1 = __riscv_vwadd_wv_i32m4(
                    isum0_1,
                    __riscv_vwmacc_vx_i16m2(__riscv_vwmul_vx_i16m2(w0_0, (x + step * 1)[0], vl),
                                            (x + step * 1)[1], w0_1, vl),
                    vl);
            }
            {
                const vint8m1_t w0_0 = __riscv_vle8_v_i8m1((const int8_t *)(k + n * 32 + step * 16), vl);
                const vint8m1_t w0_1 = __riscv_vle8_v_i8m1((const int8_t *)(k + n * 32 + step * 16 + 16), vl);
                isum0_2 = __riscv_vwadd_wv_i32m4(
                    isum0_2,
                    __riscv_vwmacc_vx_i16m2(__riscv_vwmul_vx_i16m2(w0_0, (x + step * 1)[0], vl),
                                            (x + step * 1)[1], w0_1, vl),
                    vl);
            }
            {
                const vint8m1_t w0_0 = __riscv_vle8_v_i8m1((const int8_t *)(k + n * 48 + step * 16), vl);
                const vint8m1_t w0_1 = __riscv_vle8_v_i8m1((const int8_t *)(k + n * 48 + step * 16 + 16), vl);
                isum0_3 = __riscv_vwadd_wv_i32m4(
                    isum0_3,
                    __riscv_vwmacc_vx_i16m2(__riscv_vwmul_vx_i16m2(w0_0, (x + step * 1)[0], vl),
                                            (x + step * 1)[1], w0_1, vl),
                    vl);
            }
        }
        const vfloat32m4_t k_scale0 = __riscv_vle32_v_f32m4(dk + t, vl);
        __riscv_vse32_v_f32m4(
            s + t,
            __riscv_vfmul_vv_f32m4(__riscv_vfcvt_f_x_v_f32m4(isum0_0, vl),
                                   __riscv_vfmul_vv_f32m4(__riscv_vfmv_v_f_f32m4(dq[0], vl), k_scale0, vl),
                                   vl),
            vl);
        const vfloat32m4_t k_scale1 = __riscv_vle32_v_f32m4(dk + (t + 16), vl);
        __riscv_vse32_v_f32m4(
            s + (t + 16),
            __riscv_vfmul_vv_f32m4(__riscv_vfcvt_f_x_v_f32m4(isum0_1, vl),
                                   __riscv_vfmul_vv_f32m4(__riscv_vfmv_v_f_f32m4(dq[0], vl), k_scale1, vl),
                                   vl),
            vl);
        const vfloat32m4_t k_scale2 = __riscv_vle32_v_f32m4(dk + (t + 32), vl);
        __riscv_vse32_v_f32m4(
            s + (t + 32),
            __riscv_vfmul_vv_f32m4(__riscv_vfcvt_f_x_v_f32m4(isum0_2, vl),
                                   __riscv_vfmul_vv_f32m4(__riscv_vfmv_v_f_f32m4(dq[0], vl), k_scale2, vl),
                                   vl),
            vl);
        const vfloat32m4_t k_scale3 = __riscv_vle32_v_f32m4(dk + (t + 48), vl);
        __riscv_vse32_v_f32m4(
            s + (t + 48),
            __riscv_vfmul_vv_f32m4(__riscv_vfcvt_f_x_v_f32m4(isum0_3, vl),
                                   __riscv_vfmul_vv_f32m4(__riscv_vfmv_v_f_f32m4(dq[0], vl), k_scale3, vl),
                                   vl),
            vl);
        k += n * 64;
    }
}

void ml_k_dot_q8_rvv(float *s, size_t s_stride, const int8_t *xt, const float *dq, const int32_t *xs,
                     int queries, const uint8_t *k, const float *dk, int n)
{
    const size_t x_stride = (size_t)n / ML_BLOCK * 32;
    int i = 0;
    for (; i + 4 <= queries; i += 4)
        queries_4(s + (size_t)i * s_stride, s_stride, xt + (size_t)i * x_stride, x_stride, dq + i, xs + i, k,
                  dk, n);
    for (; i + 2 <= queries; i += 2)
        queries_2(s + (size_t)i * s_stride, s_stride, xt + (size_t)i * x_stride, x_stride, dq + i, xs + i, k,
                  dk, n);
    for (; i + 1 <= queries; i += 1)
        queries_1(s + (size_t)i * s_stride, xt + (size_t)i * x_stride, dq + i, xs + i, k, dk, n);
}
