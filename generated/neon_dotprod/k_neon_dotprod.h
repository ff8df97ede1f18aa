/* Written by krafla-gen from isa_specs/; do not edit. */

#ifndef ML_K_NEON_DOTPROD_H
#define ML_K_NEON_DOTPROD_H

#include "core/ml.h"

/* y[r0..r1) = W x for row-major Q8_0 weights and Q8_0 activations. */
void ml_k_matvec_q8_neon_dotprod(float *y, const int8_t *wq, const float *wd, const int8_t *xq,
                                 const float *xd, const int32_t *xs, int cols, int r0, int r1);
#define ML_HAS_MATVEC_Q8_NEON_DOTPROD 1

/* y[r0..r1) = W x for row-major Q4_0 weights and Q8_0 activations. */
void ml_k_matvec_q4_neon_dotprod(float *y, const uint8_t *wq, const float *wd, const int8_t *xq,
                                 const float *xd, const int32_t *xs, int cols, int r0, int r1);
#define ML_HAS_MATVEC_Q4_NEON_DOTPROD 1

/* y[r0..r1) = W x for packed Q8_0 weights with f32 scales. */
void ml_k_matvec_q8_pk_neon_dotprod(float *y, const uint8_t *wq, const float *wd, const int8_t *xt,
                                    const float *xd, const int32_t *xs, int cols, int r0, int r1);
#define ML_HAS_MATVEC_Q8_PK_NEON_DOTPROD 1

/* y[r0..r1) = W x for packed Q8_0 weights with f16 scales. */
void ml_k_matvec_q8_pk_f16_neon_dotprod(float *y, const uint8_t *wq, const uint16_t *wd, const int8_t *xt,
                                        const float *xd, const int32_t *xs, int cols, int r0, int r1);
#define ML_HAS_MATVEC_Q8_PK_F16_NEON_DOTPROD 1

/* y[r0..r1) = W x for packed Q4_0 weights with f32 scales. */
void ml_k_matvec_q4_pk_neon_dotprod(float *y, const uint8_t *wq, const float *wd, const int8_t *xt,
                                    const float *xd, const int32_t *xs, int cols, int r0, int r1);
#define ML_HAS_MATVEC_Q4_PK_NEON_DOTPROD 1

/* y[r0..r1) = W x for packed Q4_0 weights with f16 scales. */
void ml_k_matvec_q4_pk_f16_neon_dotprod(float *y, const uint8_t *wq, const uint16_t *wd, const int8_t *xt,
                                        const float *xd, const int32_t *xs, int cols, int r0, int r1);
#define ML_HAS_MATVEC_Q4_PK_F16_NEON_DOTPROD 1

/* y[token][r0..r1) = W x[token] for packed Q8_0 weights with f32 scales. */
void ml_k_matmul_q8_pk_neon_dotprod(float *y, size_t y_stride, const uint8_t *wq, const float *wd,
                                    const int8_t *xt, const float *xd, const int32_t *xs, int cols,
                                    int tokens, int r0, int r1);
#define ML_HAS_MATMUL_Q8_PK_NEON_DOTPROD 1

/* y[token][r0..r1) = W x[token] for packed Q8_0 weights with f16 scales. */
void ml_k_matmul_q8_pk_f16_neon_dotprod(float *y, size_t y_stride, const uint8_t *wq, const uint16_t *wd,
                                        const int8_t *xt, const float *xd, const int32_t *xs, int cols,
                                        int tokens, int r0, int r1);
#define ML_HAS_MATMUL_Q8_PK_F16_NEON_DOTPROD 1

/* y[token][r0..r1) = W x[token] for packed Q4_0 weights with f32 scales. */
void ml_k_matmul_q4_pk_neon_dotprod(float *y, size_t y_stride, const uint8_t *wq, const float *wd,
                                    const int8_t *xt, const float *xd, const int32_t *xs, int cols,
                                    int tokens, int r0, int r1);
#define ML_HAS_MATMUL_Q4_PK_NEON_DOTPROD 1

/* y[token][r0..r1) = W x[token] for packed Q4_0 weights with f16 scales. */
void ml_k_matmul_q4_pk_f16_neon_dotprod(float *y, size_t y_stride, const uint8_t *wq, const uint16_t *wd,
                                        const int8_t *xt, const float *xd, const int32_t *xs, int cols,
                                        int tokens, int r0, int r1);
#define ML_HAS_MATMUL_Q4_PK_F16_NEON_DOTPROD 1

/* Arranges quantized activations of some tokens as this ISA's packed kernels read them. */
void ml_k_tile_q8_neon_dotprod(int8_t *xt, float *xdt, int32_t *xst, const int8_t *xq, const float *xd,
                               const int32_t *xs, int cols, int tokens);
#define ML_HAS_TILE_Q8_NEON_DOTPROD 1

/* Scores s[query][position] = q[query] . k[position] over one page of q8 keys. */
void ml_k_dot_q8_neon_dotprod(float *s, size_t s_stride, const int8_t *xt, const float *dq, const int32_t *xs,
                              int queries, const uint8_t *k, const float *dk, int n);
#define ML_HAS_DOT_Q8_NEON_DOTPROD 1

#endif
