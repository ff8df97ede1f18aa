/* arena.h: one aligned allocation from which all buffers of an engine are carved; nothing is freed singly. */
#ifndef ML_ARENA_H
#define ML_ARENA_H

#include "ml.h"

typedef struct ml_arena {
    unsigned char *base;
    size_t size;
    size_t used;
    bool overflow; /* a size product overflowed or, with a base, the arena was too small */
} ml_arena;

/*
 * The same carving code runs twice: on an arena without a base it only adds up sizes (and returns NULL), then
 * ml_arena_allocate takes the memory, and the second run hands out the pointers.
 */
void *ml_arena_take(ml_arena *arena, size_t count, size_t element_size);
/* Allocates `used` bytes in huge pages where the system gives them, zeroed, and rewinds the arena. */
ml_status ml_arena_allocate(ml_arena *arena, const char *what, ml_error *error);
void ml_arena_release(ml_arena *arena);

/* Aligned, zeroed memory for large arrays (huge pages where possible); NULL if there is none. */
void *ml_pages_allocate(size_t bytes);
/* What ml_pages_allocate takes from the system for this size: whole (huge) pages; false if that overflows. */
bool ml_pages_size(size_t bytes, size_t *total);
void ml_pages_release(void *pages, size_t bytes);

/* a * b and a + b; false if the result does not fit. */
bool ml_size_mul(size_t a, size_t b, size_t *product);
bool ml_size_add(size_t a, size_t b, size_t *sum);

#endif
