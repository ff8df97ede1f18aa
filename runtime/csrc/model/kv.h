/*
 * kv.h: the paged memory of keys and values. All pages come from one pool carved at load; a sequence is a
 * list of pages. Sequences share the pages of a common prefix by reference; whoever writes into a shared page
 * gets a copy. The pool holds `context` positions for every sequence, so no operation can run out of pages.
 */
#ifndef ML_KV_H
#define ML_KV_H

#include "../core/arena.h"
#include "../ops/kv_layout.h"

typedef struct ml_kv_sequence {
    uint32_t *pages; /* of the positions up to `length` */
    int32_t length;
    bool open;
} ml_kv_sequence;

typedef struct ml_kv {
    ml_kv_layout layout;
    unsigned char *pool;
    size_t pool_bytes;
    uint32_t n_pages;
    uint32_t *references; /* per page: sequences that hold it */
    uint32_t *free_pages; /* a stack */
    uint32_t n_free;
    ml_kv_sequence *sequences;
    int32_t n_sequences;
    int32_t context;
    int32_t pages_per_sequence;
} ml_kv;

/* Sets sizes from the layout; ML_E_NOMEM if the pool's size overflows. Then carve, then allocate. */
ml_status ml_kv_init(ml_kv *kv, const ml_kv_layout *layout, int32_t n_sequences, int32_t context,
                     ml_error *error);
void ml_kv_carve(ml_kv *kv, ml_arena *arena);
ml_status ml_kv_allocate(ml_kv *kv, ml_error *error);
void ml_kv_release(ml_kv *kv);

/* The lowest closed sequence, now open and empty, or -1. */
int32_t ml_kv_open(ml_kv *kv);
/* The lowest closed sequence, now open and sharing the first `length` positions of `source`, or -1. */
int32_t ml_kv_fork(ml_kv *kv, int32_t source, int32_t length);
void ml_kv_truncate(ml_kv *kv, int32_t sequence, int32_t length);
void ml_kv_close(ml_kv *kv, int32_t sequence);
bool ml_kv_is_open(const ml_kv *kv, int32_t sequence);

/* Makes the next position's page this sequence's own and counts the position. */
void ml_kv_append(ml_kv *kv, int32_t sequence);
ML_ALWAYS_INLINE unsigned char *ml_kv_page(const ml_kv *kv, uint32_t page)
{
    return kv->pool + (size_t)page * kv->layout.page_bytes;
}

#endif
