/* Written by krafla-gen from isa_specs/; do not edit. */

#ifndef ML_K_SSE2_H
#define ML_K_SSE2_H

#include "core/ml.h"

/* y[r0..r1) = W x for row-major Q8_0 weights and Q8_0 activations. */
void ml_k_matvec_q8_sse2(float *y, const int8_t *wq, const float *wd, const int8_t *xq, const float *xd,
                         const int32_t *xs, int cols, int r0, int r1);
#define ML_HAS_MATVEC_Q8_SSE2 1

/* y[r0..r1) = W x for row-major Q4_0 weights and Q8_0 activations. */
void ml_k_matvec_q4_sse2(float *y, const uint8_t *wq, const float *wd, const int8_t *xq, const float *xd,
                         const int32_t *xs, int cols, int r0, int r1);
#define ML_HAS_MATVEC_Q4_SSE2 1

/* y[r0..r1) = W x for packed Q8_0 weights with f32 scales. */
void ml_k_matvec_q8_pk_sse2(float *y, const uint8_t *wq, const float *wd, const int8_t *xt, const float *xd,
                            const int32_t *xs, int cols, int r0, int r1);
#define ML_HAS_MATVEC_Q8_PK_SSE2 1

/* y[r0..r1) = W x for packed Q4_0 weights with f32 scales. */
void ml_k_matvec_q4_pk_sse2(float *y, const uint8_t *wq, const float *wd, const int8_t *xt, const float *xd,
                            const int32_t *xs, int cols, int r0, int r1);
#define ML_HAS_MATVEC_Q4_PK_SSE2 1

/* y[token][r0..r1) = W x[token] for packed Q8_0 weights with f32 scales. */
void ml_k_matmul_q8_pk_sse2(float *y, size_t y_stride, const uint8_t *wq, const float *wd, const int8_t *xt,
                            const float *xd, const int32_t *xs, int cols, int tokens, int r0, int r1);
#define ML_HAS_MATMUL_Q8_PK_SSE2 1

/* y[token][r0..r1) = W x[token] for packed Q4_0 weights with f32 scales. */
void ml_k_matmul_q4_pk_sse2(float *y, size_t y_stride, const uint8_t *wq, const float *wd, const int8_t *xt,
                            const float *xd, const int32_t *xs, int cols, int tokens, int r0, int r1);
#define ML_HAS_MATMUL_Q4_PK_SSE2 1

/* Arranges quantized activations of some tokens as this ISA's packed kernels read them. */
void ml_k_tile_q8_sse2(int8_t *xt, float *xdt, int32_t *xst, const int8_t *xq, const float *xd,
                       const int32_t *xs, int cols, int tokens);
#define ML_HAS_TILE_Q8_SSE2 1

/* Q8_0 activations: blocks of 32 with one scale, by the rule of the file format. */
void ml_k_quantize_q8_sse2(int8_t *q, float *d, int32_t *s, const float *x, int n);
#define ML_HAS_QUANTIZE_Q8_SSE2 1

/* o = x / sqrt(mean(x^2) + eps) * w. */
void ml_k_rmsnorm_sse2(float *o, const float *x, const float *w, int n, float eps);
#define ML_HAS_RMSNORM_SSE2 1

/* x = exp(x - max) / sum, in place; 1/n everywhere if every x is -inf. */
void ml_k_softmax_sse2(float *x, int n);
#define ML_HAS_SOFTMAX_SSE2 1

/* g = g / (1 + exp(-g)) * u. */
void ml_k_silu_mul_sse2(float *g, const float *u, int n);
#define ML_HAS_SILU_MUL_SSE2 1

/* g = gelu(g) * u, with the tanh approximation. */
void ml_k_gelu_mul_sse2(float *g, const float *u, int n);
#define ML_HAS_GELU_MUL_SSE2 1

/* y += x. */
void ml_k_add_sse2(float *y, const float *x, int n);
#define ML_HAS_ADD_SSE2 1

/* Rotates interleaved pairs of the first rot_dim dimensions of every query and key head. */
void ml_k_rope_sse2(float *q, float *k, const float *cos_t, const float *sin_t, int head_dim, int rot_dim,
                    int n_heads, int n_kv_heads);
#define ML_HAS_ROPE_SSE2 1

/* Scores s[query][position] = q[query] . k[position] over one page of f32 keys. */
void ml_k_dot_f32_sse2(float *s, size_t s_stride, const float *q, size_t q_stride, int queries,
                       const float *k, int n);
#define ML_HAS_DOT_F32_SSE2 1

/* Weighted sums y[query] += p[query][t] v[t] over rows of f32 values, in increasing t. */
void ml_k_axpy_f32_sse2(float *y, size_t y_stride, const float *p, size_t p_stride, int queries,
                        const float *v, int rows, int n);
#define ML_HAS_AXPY_F32_SSE2 1

/* Scores s[query][position] = q[query] . k[position] over one page of f16 keys. */
void ml_k_dot_f16_sse2(float *s, size_t s_stride, const float *q, size_t q_stride, int queries,
                       const uint16_t *k, int n);
#define ML_HAS_DOT_F16_SSE2 1

/* Weighted sums y[query] += p[query][t] v[t] over rows of f16 values, in increasing t. */
void ml_k_axpy_f16_sse2(float *y, size_t y_stride, const float *p, size_t p_stride, int queries,
                        const uint16_t *v, int rows, int n);
#define ML_HAS_AXPY_F16_SSE2 1

/* Scores s[query][position] = q[query] . k[position] over one page of q8 keys. */
void ml_k_dot_q8_sse2(float *s, size_t s_stride, const int8_t *xt, const float *dq, const int32_t *xs,
                      int queries, const uint8_t *k, const float *dk, int n);
#define ML_HAS_DOT_Q8_SSE2 1

/* Weighted sums y[query] += p[query][t] v[t] over rows of q8 values, in increasing t. */
void ml_k_axpy_q8_sse2(float *y, size_t y_stride, const float *p, size_t p_stride, int queries,
                       const int8_t *v, int rows, int n);
#define ML_HAS_AXPY_Q8_SSE2 1

/* o = the f16 elements x as floats, exactly; scales are not applied. */
void ml_k_widen_f16_sse2(float *o, const uint16_t *x, int n);
#define ML_HAS_WIDEN_F16_SSE2 1

/* o = the q8 elements x as floats, exactly; scales are not applied. */
void ml_k_widen_q8_sse2(float *o, const int8_t *x, int n);
#define ML_HAS_WIDEN_Q8_SSE2 1

#endif
