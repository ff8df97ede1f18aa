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

/* The largest length up to `length` of whose state there is a copy, or 0. */
static int32_t last_copy(const ml_states *states, const ml_kv_sequence *s, int32_t length)
{
    int32_t pages = length / ML_KV_PAGE;
    while (pages > 0 && states->of[s->pages[pages - 1]] < 0)
        pages--;
    return pages * ML_KV_PAGE;
}

int32_t ml_states_reachable(const ml_states *states, const ml_kv *kv, int32_t sequence, int32_t length)
{
    const ml_kv_sequence *s = &kv->sequences[sequence];
    if (states->floats == 0 || length == s->length)
        return length;
    return last_copy(states, s, length);
}

/* The copy at a page boundary where there is one, now the last used. */
static const float *take_copy(ml_states *states, const ml_kv_sequence *s, int32_t length)
{
    int32_t slot = states->of[s->pages[length / ML_KV_PAGE - 1]];
    states->used[slot] = ++states->clock;
    return states->slots + (size_t)slot * states->floats;
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
    const float *from = length < s->length ? take_copy(states, s, length) : ml_states_live(states, source);
    if (from != ml_states_live(states, target))
        memcpy(ml_states_live(states, target), from, states->floats * sizeof(float));
}

int32_t ml_states_resume(ml_states *states, const ml_kv *kv, int32_t sequence, int32_t length)
{
    const ml_kv_sequence *s = &kv->sequences[sequence];
    if (states->floats == 0)
        return length;
    length = last_copy(states, s, length);
    if (length > 0)
        memcpy(ml_states_live(states, sequence), take_copy(states, s, length),
               states->floats * sizeof(float));
    else
        ml_states_clear(states, sequence);
    return length;
}

void ml_states_forget(ml_states *states, uint32_t page)
{
    if (states->floats == 0 || states->of[page] < 0)
        return;
    states->pages[states->of[page]] = -1;
    states->of[page] = -1;
}

/* A free slot, or the one least recently used. */
static int32_t oldest_slot(const ml_states *states, const ml_kv *kv)
{
    int32_t best = 0;
    for (int32_t slot = 0; slot < states->n_slots; slot++) {
        if (states->pages[slot] < 0 || kv->references[states->pages[slot]] == 0)
            return slot;
        if (states->used[slot] < states->used[best])
            best = slot;
    }
    return best;
}

/*
 * The sequence's own slot whose loss costs least, or -1 if it has no more than its share: the gap that it
 * would leave, against how far back that gap begins.
 */
static int32_t own_slot(const ml_states *states, const ml_kv_sequence *s, int32_t page)
{
    int32_t share = states->n_slots / states->n_sequences, count = 0, best = -1;
    int32_t before = 0, middle = -1; /* page counts: the copy before the last one, and the last one */
    double least = 0.0;
    for (int32_t i = 0; i <= page; i++) {
        if (i < page && states->of[s->pages[i]] < 0)
            continue;
        if (middle >= 0) {
            double cost = (double)(i + 1 - before) / (double)(page + 1 - before);
            if (best < 0 || cost < least) {
                best = states->of[s->pages[middle - 1]];
                least = cost;
            }
            before = middle;
            count++;
        }
        middle = i + 1;
    }
    return count >= share && count > 1 ? best : -1;
}

int32_t ml_states_reserve(ml_states *states, const ml_kv *kv, int32_t sequence, int32_t page)
{
    const ml_kv_sequence *s = &kv->sequences[sequence];
    int32_t slot = own_slot(states, s, page);
    if (slot < 0)
        slot = oldest_slot(states, kv);
    if (states->pages[slot] >= 0)
        states->of[states->pages[slot]] = -1;
    states->pages[slot] = (int32_t)s->pages[page];
    states->of[s->pages[page]] = slot;
    states->used[slot] = ++states->clock;
    return slot;
}
