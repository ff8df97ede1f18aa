/*
 * states.h: the states of sequences in models with linear attention. A state cannot be taken back position by
 * position, so copies of it are kept at page boundaries, in a fixed number of slots of which the one least
 * recently used gives way. A copy belongs to the page that ends there: sequences that share the page share
 * it.
 */
#ifndef ML_STATES_H
#define ML_STATES_H

#include "kv.h"

typedef struct ml_states {
    size_t floats; /* of one state; 0: the model has none */
    int32_t n_sequences;
    int32_t n_slots;
    float *live;    /* [sequence] */
    float *slots;   /* [slot] */
    int32_t *pages; /* per slot: the page whose end it holds, or -1 */
    uint64_t *used; /* per slot: when */
    int32_t *of;    /* per page: its slot, or -1 */
    uint64_t clock;
} ml_states;

void ml_states_carve(ml_states *states, ml_arena *arena, const ml_kv *kv);
/* After the arena is allocated: no slot holds anything. */
void ml_states_reset(ml_states *states, const ml_kv *kv);

ML_ALWAYS_INLINE float *ml_states_live(const ml_states *states, int32_t sequence)
{
    return states->live + (size_t)sequence * states->floats;
}

/* The state at position 0. */
void ml_states_clear(ml_states *states, int32_t sequence);
/* The largest length up to `length` to which a sequence can go back. */
int32_t ml_states_reachable(const ml_states *states, const ml_kv *kv, int32_t sequence, int32_t length);
/* Gives `target` the state of `source` at a reachable length; both may be the same. */
void ml_states_restore(ml_states *states, const ml_kv *kv, int32_t source, int32_t length, int32_t target);

/*
 * Gives a sequence that was resumed from pages the state at the largest length up to `length` of which there
 * is a copy; returns that length, to which the caller then cuts the sequence.
 */
int32_t ml_states_resume(ml_states *states, const ml_kv *kv, int32_t sequence, int32_t length);

/* What a page held before it is written again is void. */
void ml_states_forget(ml_states *states, uint32_t page);
/*
 * A slot for the state at the end of a sequence's page. A sequence that has more than its share of the slots
 * gives up one of its own, so that those it keeps lie closer together towards its end.
 */
int32_t ml_states_reserve(ml_states *states, const ml_kv *kv, int32_t sequence, int32_t page);

#endif
