/*
 * plan.h: what a model's forward pass does, decided once at load: the header's features become sizes,
 * pointers and table indices, so that a step only follows them.
 */
#ifndef ML_PLAN_H
#define ML_PLAN_H

#include "../ops/delta.h"
#include "mlb.h"

enum { ML_ROPE_NONE = -1, ML_ROPE_GLOBAL = 0, ML_ROPE_LOCAL = 1 };

typedef struct ml_layer_plan {
    const ml_layer_weights *weights;
    int kv_layer;        /* its place in a cache page; layers without a cache do not count */
    int window;          /* positions that one attends to, itself included; 0: all */
    int rope;            /* ML_ROPE_*: which table */
    bool linear;         /* linear attention: no cache, but a state */
    size_t state_offset; /* of its floats in a state */
} ml_layer_plan;

typedef struct ml_plan {
    int dim;
    int hidden_dim;
    int vocab;
    int n_layers;
    int n_heads;
    int n_kv_heads;
    int head_dim;
    int rot_dim;
    int q_dim;
    int kv_dim;
    int widest; /* of the rows that are quantized */
    int n_kv_layers;
    int mixed_width; /* of linear attention's projections, 0 without */
    int gate_width;  /* of output gates, of any kind of layer; 0 without */
    ml_delta_sizes delta;
    size_t state_floats; /* of a sequence, over all layers; 0 without linear attention */
    float attn_softcap;
    float final_softcap;
    bool local_rope; /* some layer uses the local table */
    bool scales_embedding;
    float embed_scale;
    float attn_scale;
    float norm_eps;
    void (*activate)(float *gate, const float *up, int n); /* gate = act(gate) * up */
    ml_layer_plan *layers;
} ml_plan;

/* `layers` holds config.n_layers entries. ML_E_NOMEM if the size of a state overflows. */
ml_status ml_plan_build(ml_plan *plan, ml_layer_plan *layers, const ml_model *model, ml_error *error);

#endif
