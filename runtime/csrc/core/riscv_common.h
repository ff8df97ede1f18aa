/* riscv_common.h: idioms of a few vector instructions that deserve a name. Included by the RISC-V kernels
 * only. */
#ifndef ML_RISCV_COMMON_H
#define ML_RISCV_COMMON_H

#include "ml.h"

#include <riscv_vector.h>

/* The larger of a float and the lanes of x; vfredmax passes over NaN. */
ML_ALWAYS_INLINE float ml_max_rvv(size_t vl, float best, vfloat32m4_t x)
{
    vfloat32m1_t start = __riscv_vfmv_s_f_f32m1(best, 1);
    return __riscv_vfmv_f_s_f32m1_f32(__riscv_vfredmax_vs_f32m4_f32m1(x, start, vl));
}

ML_ALWAYS_INLINE vfloat32m4_t ml_pow2_of_rounded_rvv(size_t vl, vfloat32m4_t x)
{
    vuint32m4_t bits = __riscv_vsll_vx_u32m4(__riscv_vreinterpret_v_f32m4_u32m4(x), 23, vl);
    return __riscv_vreinterpret_v_u32m4_f32m4(__riscv_vadd_vx_u32m4(bits, 0x3f800000u, vl));
}

ML_ALWAYS_INLINE vfloat32m4_t ml_load_i8_rvv(size_t vl, const int8_t *p)
{
    return __riscv_vfcvt_f_x_v_f32m4(__riscv_vsext_vf4_i32m4(__riscv_vle8_v_i8m1(p, vl), vl), vl);
}

/* Rounds to nearest, then takes one off what came out larger: QEMU 7 ends at the conversion that truncates.
 */
ML_ALWAYS_INLINE void ml_store_i8_rvv(size_t vl, int8_t *p, vfloat32m4_t x)
{
    vfloat32m4_t magnitude = __riscv_vfabs_v_f32m4(x, vl);
    vint32m4_t near = __riscv_vfcvt_x_f_v_i32m4(magnitude, vl);
    vbool8_t larger = __riscv_vmfgt_vv_f32m4_b8(__riscv_vfcvt_f_x_v_f32m4(near, vl), magnitude, vl);
    vint32m4_t whole = __riscv_vsub_vx_i32m4_mu(larger, near, near, 1, vl);
    vint32m4_t lanes = __riscv_vneg_v_i32m4_mu(__riscv_vmflt_vf_f32m4_b8(x, 0.0f, vl), whole, whole, vl);
    vint16m2_t words = __riscv_vncvt_x_x_w_i16m2(lanes, vl);
    __riscv_vse8_v_i8m1(p, __riscv_vncvt_x_x_w_i8m1(words, vl), vl);
}

ML_ALWAYS_INLINE void ml_load_pairs_rvv(size_t vl, const float *p, vfloat32m4_t *even, vfloat32m4_t *odd)
{
    vfloat32m4x2_t both = __riscv_vlseg2e32_v_f32m4x2(p, vl);
    *even = __riscv_vget_v_f32m4x2_f32m4(both, 0);
    *odd = __riscv_vget_v_f32m4x2_f32m4(both, 1);
}

ML_ALWAYS_INLINE void ml_store_pairs_rvv(size_t vl, float *p, vfloat32m4_t even, vfloat32m4_t odd)
{
    __riscv_vsseg2e32_v_f32m4x2(p, __riscv_vcreate_v_f32m4x2(even, odd), vl);
}

/* Half precision widened: a power-of-two product rebiases the exponent, also of subnormals. */
ML_ALWAYS_INLINE vfloat32m4_t ml_load_f16_rvv(size_t vl, const uint16_t *p)
{
    vuint32m4_t wide = __riscv_vzext_vf2_u32m4(__riscv_vle16_v_u16m2(p, vl), vl);
    vuint32m4_t sign = __riscv_vsll_vx_u32m4(__riscv_vand_vx_u32m4(wide, 0x8000, vl), 16, vl);
    vuint32m4_t magnitude = __riscv_vsll_vx_u32m4(__riscv_vand_vx_u32m4(wide, 0x7fff, vl), 13, vl);
    vbool8_t special = __riscv_vmsgtu_vx_u32m4_b8(magnitude, 0x0f7fffff, vl); /* infinity or NaN */
    vfloat32m4_t scaled = __riscv_vfmul_vf_f32m4(__riscv_vreinterpret_v_u32m4_f32m4(magnitude), 0x1p112f, vl);
    vuint32m4_t infinity = __riscv_vor_vx_u32m4(magnitude, 0x7f800000, vl);
    vuint32m4_t bits =
        __riscv_vmerge_vvm_u32m4(__riscv_vreinterpret_v_f32m4_u32m4(scaled), infinity, special, vl);
    return __riscv_vreinterpret_v_u32m4_f32m4(__riscv_vor_vv_u32m4(bits, sign, vl));
}

/* The sum of n products of signed bytes. */
ML_ALWAYS_INLINE int32_t ml_dot_i8_rvv(const int8_t *a, const int8_t *b, int n)
{
    vint32m1_t sum = __riscv_vmv_s_x_i32m1(0, 1);
    for (int i = 0; i < n;) {
        size_t vl = __riscv_vsetvl_e8m2((size_t)(n - i));
        vint16m4_t products =
            __riscv_vwmul_vv_i16m4(__riscv_vle8_v_i8m2(a + i, vl), __riscv_vle8_v_i8m2(b + i, vl), vl);
        sum = __riscv_vwredsum_vs_i16m4_i32m1(products, sum, vl);
        i += (int)vl;
    }
    return __riscv_vmv_x_s_i32m1_i32(sum);
}

/* The same for a Q4 block: nibble - 8 of sixteen bytes, low halves first. */
ML_ALWAYS_INLINE int32_t ml_dot32_q4_rvv(const uint8_t *w, const int8_t *x)
{
    const size_t vl = 16;
    vuint8m1_t packed = __riscv_vle8_v_u8m1(w, vl);
    vuint8m1_t low_nibbles = __riscv_vand_vx_u8m1(packed, 0x0f, vl);
    vuint8m1_t high_nibbles = __riscv_vsrl_vx_u8m1(packed, 4, vl);
    vint8m1_t low = __riscv_vsub_vx_i8m1(__riscv_vreinterpret_v_u8m1_i8m1(low_nibbles), 8, vl);
    vint8m1_t high = __riscv_vsub_vx_i8m1(__riscv_vreinterpret_v_u8m1_i8m1(high_nibbles), 8, vl);
    vint16m2_t products = __riscv_vwmul_vv_i16m2(low, __riscv_vle8_v_i8m1(x, vl), vl);
    products = __riscv_vwmacc_vv_i16m2(products, high, __riscv_vle8_v_i8m1(x + 16, vl), vl);
    vint32m1_t sum = __riscv_vwredsum_vs_i16m2_i32m1(products, __riscv_vmv_s_x_i32m1(0, 1), vl);
    return __riscv_vmv_x_s_i32m1_i32(sum);
}

#endif
