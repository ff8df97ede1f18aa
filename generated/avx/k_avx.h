/* Written by krafla-gen from isa_specs/; do not edit. */

#ifndef ML_K_AVX_H
#define ML_K_AVX_H

#include "core/ml.h"

/* Q8_0 activations: blocks of 32 with one scale, by the rule of the file format. */
void ml_k_quantize_q8_avx(int8_t *q, float *d, int32_t *s, const float *x, int n);
#define ML_HAS_QUANTIZE_Q8_AVX 1

/* o = x / sqrt(mean(x^2) + eps) * w. */
void ml_k_rmsnorm_avx(float *o, const float *x, const float *w, int n, float eps);
#define ML_HAS_RMSNORM_AVX 1

/* x = exp(x - max) / sum, in place; 1/n everywhere if every x is -inf. */
void ml_k_softmax_avx(float *x, int n);
#define ML_HAS_SOFTMAX_AVX 1

/* g = g / (1 + exp(-g)) * u. */
void ml_k_silu_mul_avx(float *g, const float *u, int n);
#define ML_HAS_SILU_MUL_AVX 1

/* g = gelu(g) * u, with the tanh approximation. */
void ml_k_gelu_mul_avx(float *g, const float *u, int n);
#define ML_HAS_GELU_MUL_AVX 1

/* y += x. */
void ml_k_add_avx(float *y, const float *x, int n);
#define ML_HAS_ADD_AVX 1

/* Rotates interleaved pairs of the first rot_dim dimensions of every query and key head. */
void ml_k_rope_avx(float *q, float *k, const float *cos_t, const float *sin_t, int head_dim, int rot_dim,
                   int n_heads, int n_kv_heads);
#define ML_HAS_ROPE_AVX 1

/* Scores s[query][position] = q[query] . k[position] over one page of f32 keys. */
void ml_k_dot_f32_avx(float *s, size_t s_stride, const float *q, size_t q_stride, int queries, const float *k,
                      int n);
#define ML_HAS_DOT_F32_AVX 1

/* Weighted sums y[query] += p[query][t] v[t] over rows of f32 values, in increasing t. */
void ml_k_axpy_f32_avx(float *y, size_t y_stride, const float *p, size_t p_stride, int queries,
                       const float *v, int rows, int n);
#define ML_HAS_AXPY_F32_AVX 1

/* Scores s[query][position] = q[query] . k[position] over one page of f16 keys. */
void ml_k_dot_f16_avx(float *s, size_t s_stride, const float *q, size_t q_stride, int queries,
                      const uint16_t *k, int n);
#define ML_HAS_DOT_F16_AVX 1

/* Weighted sums y[query] += p[query][t] v[t] over rows of f16 values, in increasing t. */
void ml_k_axpy_f16_avx(float *y, size_t y_stride, const float *p, size_t p_stride, int queries,
                       const uint16_t *v, int rows, int n);
#define ML_HAS_AXPY_F16_AVX 1

/* Scores s[query][position] = q[query] . k[position] over one page of q8 keys. */
void ml_k_dot_q8_avx(float *s, size_t s_stride, const int8_t *xt, const float *dq, const int32_t *xs,
                     int queries, const uint8_t *k, const float *dk, int n);
#define ML_HAS_DOT_Q8_AVX 1

/* Weighted sums y[query] += p[query][t] v[t] over rows of q8 values, in increasing t. */
void ml_k_axpy_q8_avx(float *y, size_t y_stride, const float *p, size_t p_stride, int queries,
                      const int8_t *v, int rows, int n);
#define ML_HAS_AXPY_Q8_AVX 1

/* o = the f16 elements x as floats, exactly; scales are not applied. */
void ml_k_widen_f16_avx(float *o, const uint16_t *x, int n);
#define ML_HAS_WIDEN_F16_AVX 1

/* o = the q8 elements x as floats, exactly; scales are not applied. */
void ml_k_widen_q8_avx(float *o, const int8_t *x, int n);
#define ML_HAS_WIDEN_Q8_AVX 1

#endif
