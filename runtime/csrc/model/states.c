/* states.c: live states, and their copies at page boundaries. */
#include "states.h"

void ml_states_carve(ml_states *states, ml_arena *arena, const ml_kv *kv)
{
    size_t bytes;
    if (states->floats == 0)
        return;
    if (!ml_size_mul(states->floats, sizeof(float), &bytes))
        bytes = SIZE_MAX; /* the arena notes the overflow */
    states->live = ml_arena_take(arena, (size_t)states->n_sequences, bytes);
    states->slots = ml_arena_take(arena, (size_t)states->n_slots, bytes);
    states->pages = ml_arena_take(arena, (size_t)states->n_slots, sizeof *states->pages);
    states->used = ml_arena_take(arena, (size_t)states->n_slots, sizeof *states->used);
    states->of = ml_arena_take(arena, kv->n_pages, sizeof *states->of);
}

void ml_states_reset(ml_states *states, const ml_kv *kv)
{
    if (states->floats == 0)
        return;
    for (int32_t slot = 0; slot < states->n_slots; slot++)
        states->pages[slot] = -1;
    for (uint32_t page = 0; page < kv->n_pages; page++)
        states->of[page] = -1;
}

void ml_states_clear(ml_states *states, int32_t sequence)
{
    if (states->floats > 0)
        memset(ml_states_live(states, sequence), 0, states->floats * sizeof(float));
}

int32_t ml_states_reachable(const ml_states *states, const ml_kv *kv, int32_t sequence, int32_t length)
{
    const ml_kv_sequence *s = &kv->sequences[sequence];
    if (states->floats == 0 || length == s->length)
        return length;
    int32_t pages = length / ML_KV_PAGE;
    while (pages > 0 && states->of[s->pages[pages - 1]] < 0)
        pages--;
    return pages * ML_KV_PAGE;
}

void ml_states_restore(ml_states *states, const ml_kv *kv, int32_t source, int32_t length, int32_t target)
{
    const ml_kv_sequence *s = &kv->sequences[source];
    if (states->floats == 0)
        return;
    if (length == 0) {
        ml_states_clear(states, target);
        return;
    }
    const float *from = ml_states_live(states, source);
    if (length < s->length) {
        int32_t slot = states->of[s->pages[length / ML_KV_PAGE - 1]];
        states->used[slot] = ++states->clock;
        from = states->slots + (size_t)slot * states->floats;
    }
    if (from != ml_states_live(states, target))
        memcpy(ml_states_live(states, target), from, states->floats * sizeof(float));
}

void ml_states_forget(ml_states *states, uint32_t page)
{
    if (states->floats == 0 || states->of[page] < 0)
        return;
    states->pages[states->of[page]] = -1;
    states->of[page] = -1;
}

int32_t ml_states_reserve(ml_states *states, const ml_kv *kv, uint32_t page)
{
    int32_t best = 0;
    for (int32_t slot = 0; slot < states->n_slots; slot++) {
        if (states->pages[slot] < 0 || kv->references[states->pages[slot]] == 0) {
            best = slot;
            break;
        }
        if (states->used[slot] < states->used[best])
            best = slot;
    }
    if (states->pages[best] >= 0)
        states->of[states->pages[best]] = -1;
    states->pages[best] = (int32_t)page;
    states->of[page] = best;
    states->used[best] = ++states->clock;
    return best;
}
