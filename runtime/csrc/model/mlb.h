/* mlb.h: the .mlb model file: its header, its arrays, and the checks that a file must pass. */
#ifndef ML_MLB_H
#define ML_MLB_H

#include "../core/file.h"

enum { ML_WTYPE_Q8_0 = 1, ML_WTYPE_Q4_0 = 2 };
enum { ML_ROPE_PLAIN = 0, ML_ROPE_LLAMA3 = 1, ML_ROPE_LINEAR = 2, ML_ROPE_YARN = 3 };
enum { ML_ACT_SILU = 0, ML_ACT_GELU = 1 };
/* Bits of a layer's flags. */
enum { ML_LAYER_WINDOW = 1, ML_LAYER_LOCAL_ROPE = 2, ML_LAYER_NO_ROPE = 4, ML_LAYER_LINEAR = 8 };

/* The header's fields in file order (offset 4 onwards), with zeros replaced by what they stand for. */
typedef struct ml_config {
    uint32_t version;
    uint32_t dim;
    uint32_t n_layers;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t hidden_dim;
    uint32_t vocab;
    uint32_t max_seq;
    float rope_theta;
    float norm_eps;
    uint32_t wtype;
    uint32_t shared_classifier;
    uint32_t rope_type;
    float rope_factor;
    float rope_low_freq_factor;  /* yarn: beta_fast */
    float rope_high_freq_factor; /* yarn: beta_slow */
    uint32_t rope_orig_max_seq;
    uint32_t q8_mask;
    uint32_t qkv_bias;
    uint32_t head_dim; /* never 0 here */
    uint32_t qk_norm;
    float rope_attn_factor; /* 1 unless yarn says otherwise */
    uint32_t sliding_window;
    uint32_t layer_flags;
    float rope_local_theta;
    uint32_t act;
    uint32_t post_norms;
    float embed_scale; /* never 0 here */
    float attn_scale;  /* never 0 here: 1/sqrt(head_dim) by default */
    uint32_t scale_f16;
    float attn_softcap;
    float final_softcap;
    uint32_t rot_dim; /* never 0 here */
    uint32_t attn_gate;
    uint32_t lin_k_heads;
    uint32_t lin_v_heads;
    uint32_t lin_k_dim;
    uint32_t lin_v_dim;
    uint32_t lin_conv;
    uint32_t q_dim;  /* derived: head_dim * n_heads */
    uint32_t kv_dim; /* derived: head_dim * n_kv_heads */
} ml_config;

/* A quantized matrix: y[r] = sum over c of W[r][c] * x[c]. Row-major as in the file until it is packed. */
typedef struct ml_matrix {
    const void *quants;        /* row-major quants in the file; NULL once packed and released */
    const void *scales;        /* float or half (f16_scales), one per block; row-major kernels need float */
    const void *packed;        /* packed quants, or NULL */
    const void *packed_scales; /* float, or half if packed_f16 */
    uint32_t rows;
    uint32_t cols;
    uint8_t wtype;
    bool f16_scales;
    bool packed_f16;
} ml_matrix;

typedef struct ml_layer_weights {
    const float *attn_norm;
    ml_matrix wq, wk, wv, wo;
    ml_matrix wg;                     /* attn_gate only */
    const float *bq, *bk, *bv;        /* NULL without qkv_bias */
    const float *q_norm, *k_norm;     /* NULL without qk_norm */
    ml_matrix lqkv, lz, lb, la, lout; /* linear attention only */
    const float *lconv, *dt_bias, *a_log, *lnorm;
    const float *ffn_norm;
    ml_matrix w1, w2, w3;
    const float *post_attn_norm, *post_ffn_norm; /* NULL without post_norms */
    uint8_t flags; /* ML_LAYER_*; without layer_flags a sliding window is set for every layer */
} ml_layer_weights;

typedef struct ml_model {
    ml_file file;
    char *path; /* for messages */
    ml_config config;
    ml_matrix tok_emb;
    ml_matrix wcls; /* a copy of tok_emb's description if the classifier is shared */
    const float *final_norm;
    ml_layer_weights *layers;
} ml_model;

/* Opens, checks everything the format document lists, and points into the file. On error nothing stays open.
 */
ml_status ml_model_open(ml_model *model, const char *path, ml_error *error);
/* The same without reading weights: Q8 quants are not looked at (ml_weights_prepare does that on all
 * threads). */
ml_status ml_model_map(ml_model *model, const char *path, ml_error *error);
void ml_model_close(ml_model *model);

/* Refuses -128 in rows [start, end) of a row-major Q8 matrix; `name` is for the sentence. */
ml_status ml_matrix_check(const ml_model *model, const ml_matrix *matrix, const char *name, uint32_t start,
                          uint32_t end, ml_error *error);
/* Bytes of the row-major quants and scales; false if they overflow. */
bool ml_matrix_bytes(const ml_matrix *matrix, size_t *quant_bytes, size_t *scale_bytes);
/* Calls visit for every matrix in file order (a shared classifier last), named as in "layers.3.w1", until one
 * fails. */
typedef ml_status (*ml_matrix_visitor)(void *context, ml_matrix *matrix, const char *name, ml_error *error);
ml_status ml_model_visit(ml_model *model, ml_matrix_visitor visit, void *context, ml_error *error);

#endif
