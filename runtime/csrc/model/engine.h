/* engine.h: what an open engine holds. Internal: engine.c opens and checks, transformer.c runs steps. */
#ifndef ML_ENGINE_H
#define ML_ENGINE_H

#include "../ops/attention.h"
#include "../ops/matvec.h"
#include "imatrix.h"
#include "kv.h"
#include "pack_model.h"
#include "plan.h"
#include "profile.h"
#include "rope.h"
#include "states.h"

/* Activations of one step, one row after the other. */
typedef struct ml_buffers {
    float *x; /* the residual stream */
    float *q; /* queries, then the heads' outputs */
    float *k;
    float *v;
    float *gate;
    float *up;
    float *y;       /* what comes next into the residual */
    float *mixed;   /* linear attention's queries, keys and values */
    float *b;       /* linear attention's write strengths, */
    float *a;       /* and rates of forgetting */
    float *gates;   /* of outputs; of a linear layer, then the outputs themselves */
    float *scratch; /* per worker: one row of the widest input of a product */
    ml_quantized quantized;
    ml_attention_scratch attention;
    ml_query_row *rows;
    ml_delta_row *states;
    ml_delta_scratch delta;
    int32_t *tokens;
    int32_t *wanted;   /* rows of the step that want logits */
    int32_t *expected; /* per sequence: its next position, while rows are checked */
    float *adjusted;   /* per worker: the logits of a choice */
    uint32_t *ranks;   /* per worker: what ml_sample needs */
} ml_buffers;

struct ml_engine {
    ml_options options; /* zeros replaced by what they stand for; no pointers kept */
    ml_model model;
    ml_weights weights;
    ml_info info;
    ml_plan plan;
    ml_layer_plan *layers;
    ml_arena arena;
    ml_buffers buffers;
    ml_rope ropes[2]; /* by ML_ROPE_GLOBAL and ML_ROPE_LOCAL */
    ml_kv kv;
    ml_states states;
    ml_pool *pool;
    ml_profile profile;
    ml_imatrix imatrix;
};

/*
 * One step of `n` rows, at most the batch, whose pages are ready: buffers.rows and buffers.tokens say which.
 * The logits of the `n_wanted` rows in buffers.wanted go to `logits`, or their last hidden states to
 * `states`.
 */
void ml_transformer_step(ml_engine *engine, int n, int n_wanted, float *logits, float *states);

#endif
