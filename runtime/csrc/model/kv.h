/*
 * kv.h: the paged memory of keys and values. All pages come from one pool carved at load; a sequence is a
 * list of pages. Sequences share the pages of a common prefix by reference; whoever writes into a shared page
 * gets a copy. A caller can hold pages, too, so that they outlive their sequence, and start others from them.
 */
#ifndef ML_KV_H
#define ML_KV_H

#include "../core/arena.h"
#include "../ops/kv_layout.h"

typedef struct ml_kv_sequence {
    uint32_t *pages; /* of the positions up to `length` */
    int32_t length;
    bool open;
    bool claimed; /* between ml_kv_claim and ml_kv_unclaim */
} ml_kv_sequence;

typedef struct ml_kv {
    ml_kv_layout layout;
    unsigned char *pool;
    size_t pool_bytes;
    uint32_t n_pages;
    uint32_t *references; /* per page: sequences and callers that hold it; 0: free */
    uint32_t *held;       /* per page: how many of these are callers */
    uint32_t *free_pages; /* a stack */
    uint32_t n_free;
    ml_kv_sequence *sequences;
    int32_t n_sequences;
    int32_t context;
    int32_t pages_per_sequence;
} ml_kv;

/*
 * Sets sizes from the layout: the pool holds `positions` in all, or 0: the context of every sequence.
 * ML_E_NOMEM if its size overflows. Then carve, then allocate.
 */
ml_status ml_kv_init(ml_kv *kv, const ml_kv_layout *layout, int32_t n_sequences, int32_t context,
                     int32_t positions, ml_error *error);
void ml_kv_carve(ml_kv *kv, ml_arena *arena);
ml_status ml_kv_allocate(ml_kv *kv, ml_error *error);
void ml_kv_release(ml_kv *kv);

/* The lowest closed sequence, now open and empty, or -1. */
int32_t ml_kv_open(ml_kv *kv);
/* The lowest closed sequence, now open and sharing the first `length` positions of `source`, or -1. */
int32_t ml_kv_fork(ml_kv *kv, int32_t source, int32_t length);
/* The lowest closed sequence, now open with `length` positions in pages that are in use, or -1. */
int32_t ml_kv_resume(ml_kv *kv, const int32_t *pages, int32_t length);
void ml_kv_truncate(ml_kv *kv, int32_t sequence, int32_t length);
void ml_kv_close(ml_kv *kv, int32_t sequence);
bool ml_kv_is_open(const ml_kv *kv, int32_t sequence);

/* Makes the next position's page this sequence's own and counts the position; there must be a free page. */
void ml_kv_append(ml_kv *kv, int32_t sequence);
/*
 * Counting what appending will take: true if the sequence's last page must be copied first. It counts as not
 * shared by this sequence until ml_kv_unclaim.
 */
bool ml_kv_claim(ml_kv *kv, int32_t sequence);
void ml_kv_unclaim(ml_kv *kv, int32_t sequence);

/* A caller's reference to a page in use. */
void ml_kv_hold(ml_kv *kv, uint32_t page);
void ml_kv_drop(ml_kv *kv, uint32_t page);
ML_ALWAYS_INLINE int32_t ml_kv_pages_of(int32_t length)
{
    return (int32_t)(((int64_t)length + ML_KV_PAGE - 1) / ML_KV_PAGE);
}

ML_ALWAYS_INLINE unsigned char *ml_kv_page(const ml_kv *kv, uint32_t page)
{
    return kv->pool + (size_t)page * kv->layout.page_bytes;
}

#endif
