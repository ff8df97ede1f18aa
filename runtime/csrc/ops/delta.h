/*
 * delta.h: linear attention by the gated delta rule. In place of a cache, a sequence has a state: per layer,
 * the last inputs of a causal convolution and a matrix per value head. Tokens must pass in order; the work is
 * split over the pool by channels, then by value heads, and each takes all rows of a step in turn with the
 * arithmetic of a single token.
 */
#ifndef ML_DELTA_H
#define ML_DELTA_H

#include "../core/arena.h"
#include "../core/threads.h"

typedef struct ml_delta_sizes {
    int k_heads;
    int v_heads;
    int k_dim;
    int v_dim;
    int taps;
    int channels; /* queries, keys, values: 2 * k_heads * k_dim + v_heads * v_dim */
} ml_delta_sizes;

/* Floats of one layer's state, a multiple of a cache line; false if they overflow. */
bool ml_delta_state_floats(const ml_delta_sizes *sizes, size_t *floats);

/* A row's states. A checkpoint gets a copy of the state as it is after the row. */
typedef struct ml_delta_row {
    float *state;
    float *checkpoint; /* or NULL */
} ml_delta_row;

/* Memory of the workers, and the constant weights by which queries and keys get their lengths. */
typedef struct ml_delta_scratch {
    float *rows;
    float *query_weights;
    float *key_weights;
    size_t per_worker;
} ml_delta_scratch;

void ml_delta_carve(ml_delta_scratch *scratch, ml_arena *arena, int workers, const ml_delta_sizes *sizes);
void ml_delta_fill(const ml_delta_scratch *scratch, const ml_delta_sizes *sizes);

typedef struct ml_delta {
    const ml_delta_sizes *sizes;
    const ml_delta_scratch *scratch;
    size_t layer_offset; /* of this layer's floats in a state */
    const float *conv;   /* [channels][taps] */
    const float *dt_bias;
    const float *a_log;
    const float *norm; /* [v_dim] */
    float norm_eps;
    const ml_delta_row *rows;
    int n_rows;
    float *mixed;   /* [row][channels], projections of queries, keys and values; overwritten */
    const float *b; /* [row][v_heads] */
    const float *a; /* [row][v_heads] */
    float *z;       /* [row][v_heads][v_dim], gates; becomes the layer's output */
} ml_delta;

void ml_delta_run(ml_pool *pool, const ml_delta *delta);

#endif
