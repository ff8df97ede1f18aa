/*
 * attention.h: causal attention over the paged cache. A task is one key-value head, a few consecutive rows of
 * one sequence and some of the query heads of its group: they walk the pages together, so that a block of K
 * or V is loaded once for all of them. Per head, the arithmetic does not depend on how tasks are cut.
 */
#ifndef ML_ATTENTION_H
#define ML_ATTENTION_H

#include "../core/arena.h"
#include "../core/threads.h"
#include "kv_layout.h"

/* One row of a step: where its sequence's pages are, and its own position. */
typedef struct ml_query_row {
    const uint32_t *pages;
    int32_t sequence;
    int32_t position;
} ml_query_row;

/* Memory of each worker: the queries of a task side by side, their sums, and scores over the whole context.
 */
typedef struct ml_attention_scratch {
    float *queries;
    float *sums;
    float *scores;
    float *wide;    /* a head's part of a page as floats, for the other caches */
    int8_t *quants; /* for the Q8 cache: one query, and all of them as the score kernel reads them */
    int8_t *tiled;
    float *block_scales; /* of one query's blocks, before and after tiling */
    int32_t *block_sums; /* the same, and corrections */
    size_t head_dim;
    size_t score_stride; /* floats from one query's scores to the next */
} ml_attention_scratch;

void ml_attention_carve(ml_attention_scratch *scratch, ml_arena *arena, int workers, int context,
                        const ml_kv_layout *layout);

typedef struct ml_attention {
    const ml_kv_layout *layout;
    const ml_attention_scratch *scratch;
    unsigned char *pool;
    int layer;  /* in the pages */
    int window; /* positions that one attends to, itself included; 0: all */
    int n_heads;
    float scale;
    float softcap; /* scores stay below it; 0: none */
    const ml_query_row *rows;
    int n_rows;
    const float *q; /* [row][head][head_dim] */
    float *out;     /* like q, and may be q */
} ml_attention;

void ml_attention_run(ml_pool *workers, const ml_attention *attention);

#endif
