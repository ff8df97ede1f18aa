/* kv.c: pages, references and sequences. */
#include "kv.h"

ml_status ml_kv_init(ml_kv *kv, const ml_kv_layout *layout, int32_t n_sequences, int32_t context,
                     int32_t positions, ml_error *error)
{
    *kv = (ml_kv){.layout = *layout, .n_sequences = n_sequences, .context = context};
    kv->pages_per_sequence = ml_kv_pages_of(context);
    uint64_t pages = positions > 0 ? (uint64_t)ml_kv_pages_of(positions)
                                   : (uint64_t)n_sequences * (uint64_t)kv->pages_per_sequence;
    if (pages > INT32_MAX || !ml_size_mul((size_t)pages, layout->page_bytes, &kv->pool_bytes))
        return ml_fail(error, ML_E_NOMEM, "the cache of %llu positions is too large for the address space",
                       (unsigned long long)pages * ML_KV_PAGE);
    kv->n_pages = (uint32_t)pages;
    return ML_OK;
}

void ml_kv_carve(ml_kv *kv, ml_arena *arena)
{
    kv->references = ml_arena_take(arena, kv->n_pages, sizeof *kv->references);
    kv->held = ml_arena_take(arena, kv->n_pages, sizeof *kv->held);
    kv->free_pages = ml_arena_take(arena, kv->n_pages, sizeof *kv->free_pages);
    kv->sequences = ml_arena_take(arena, (size_t)kv->n_sequences, sizeof *kv->sequences);
    size_t row = (size_t)kv->pages_per_sequence * sizeof(uint32_t);
    uint32_t *lists = ml_arena_take(arena, (size_t)kv->n_sequences, row);
    for (int32_t i = 0; kv->sequences != NULL && i < kv->n_sequences; i++)
        kv->sequences[i] = (ml_kv_sequence){.pages = lists + (size_t)i * (size_t)kv->pages_per_sequence};
}

ml_status ml_kv_allocate(ml_kv *kv, ml_error *error)
{
    kv->pool = ml_pages_allocate(kv->pool_bytes);
    if (kv->pool == NULL)
        return ml_fail(error, ML_E_NOMEM, "no memory for the cache of keys and values (%zu bytes)",
                       kv->pool_bytes);
    for (uint32_t page = 0; page < kv->n_pages; page++)
        kv->free_pages[page] = kv->n_pages - 1 - page; /* low pages leave the stack first */
    kv->n_free = kv->n_pages;
    return ML_OK;
}

void ml_kv_release(ml_kv *kv)
{
    if (kv->pool != NULL)
        ml_pages_release(kv->pool, kv->pool_bytes);
    kv->pool = NULL;
}

static uint32_t take_page(ml_kv *kv)
{
    uint32_t page = kv->free_pages[--kv->n_free];
    kv->references[page] = 1;
    return page;
}

static void drop_page(ml_kv *kv, uint32_t page)
{
    if (--kv->references[page] == 0)
        kv->free_pages[kv->n_free++] = page;
}

bool ml_kv_is_open(const ml_kv *kv, int32_t sequence)
{
    return sequence >= 0 && sequence < kv->n_sequences && kv->sequences[sequence].open;
}

int32_t ml_kv_open(ml_kv *kv)
{
    for (int32_t i = 0; i < kv->n_sequences; i++) {
        if (!kv->sequences[i].open) {
            kv->sequences[i].open = true;
            kv->sequences[i].length = 0;
            return i;
        }
    }
    return -1;
}

int32_t ml_kv_fork(ml_kv *kv, int32_t source, int32_t length)
{
    int32_t sequence = ml_kv_open(kv);
    if (sequence < 0)
        return -1;
    const ml_kv_sequence *from = &kv->sequences[source];
    ml_kv_sequence *to = &kv->sequences[sequence];
    for (int32_t i = 0; i < ml_kv_pages_of(length); i++) {
        to->pages[i] = from->pages[i];
        kv->references[to->pages[i]]++;
    }
    to->length = length;
    return sequence;
}

int32_t ml_kv_resume(ml_kv *kv, const int32_t *pages, int32_t length)
{
    int32_t sequence = ml_kv_open(kv);
    if (sequence < 0)
        return -1;
    ml_kv_sequence *s = &kv->sequences[sequence];
    for (int32_t i = 0; i < ml_kv_pages_of(length); i++) {
        s->pages[i] = (uint32_t)pages[i];
        kv->references[pages[i]]++;
    }
    s->length = length;
    return sequence;
}

void ml_kv_truncate(ml_kv *kv, int32_t sequence, int32_t length)
{
    ml_kv_sequence *s = &kv->sequences[sequence];
    for (int32_t i = ml_kv_pages_of(length); i < ml_kv_pages_of(s->length); i++)
        drop_page(kv, s->pages[i]);
    s->length = length;
}

void ml_kv_close(ml_kv *kv, int32_t sequence)
{
    ml_kv_truncate(kv, sequence, 0);
    kv->sequences[sequence].open = false;
}

void ml_kv_append(ml_kv *kv, int32_t sequence)
{
    ml_kv_sequence *s = &kv->sequences[sequence];
    uint32_t *page = &s->pages[s->length / ML_KV_PAGE];
    if (s->length % ML_KV_PAGE == 0) {
        *page = take_page(kv);
    } else if (kv->references[*page] > 1) {
        /* There is a free page: this one is counted once, but two sequences have room for it. */
        uint32_t copy = take_page(kv);
        memcpy(ml_kv_page(kv, copy), ml_kv_page(kv, *page), kv->layout.page_bytes);
        drop_page(kv, *page);
        *page = copy;
    }
    s->length++;
}

bool ml_kv_claim(ml_kv *kv, int32_t sequence)
{
    ml_kv_sequence *s = &kv->sequences[sequence];
    if (s->length % ML_KV_PAGE == 0 || kv->references[s->pages[s->length / ML_KV_PAGE]] == 1)
        return false;
    kv->references[s->pages[s->length / ML_KV_PAGE]]--;
    s->claimed = true;
    return true;
}

void ml_kv_unclaim(ml_kv *kv, int32_t sequence)
{
    ml_kv_sequence *s = &kv->sequences[sequence];
    if (s->claimed)
        kv->references[s->pages[s->length / ML_KV_PAGE]]++;
    s->claimed = false;
}

void ml_kv_hold(ml_kv *kv, uint32_t page)
{
    kv->references[page]++;
    kv->held[page]++;
}

void ml_kv_drop(ml_kv *kv, uint32_t page)
{
    kv->held[page]--;
    drop_page(kv, page);
}
