/* arena.c: large aligned memory, and the carving of it. */
#if !defined(_WIN32)
#define _GNU_SOURCE /* mmap flags, madvise */
#endif
#include "arena.h"

#include <stdlib.h>

#if defined(_WIN32)
#include <windows.h>
#elif defined(__unix__) || defined(__APPLE__)
#define ML_HAS_MMAP
#include <sys/mman.h>
#endif

/* The huge page size of x86 and of most ARM kernels; smaller allocations only need normal pages. */
#define HUGE_PAGE ((size_t)2 << 20)
#define PAGE ((size_t)64 << 10) /* no system has larger base pages */

bool ml_size_mul(size_t a, size_t b, size_t *product)
{
    *product = a * b;
    return b == 0 || a <= SIZE_MAX / b;
}

bool ml_size_add(size_t a, size_t b, size_t *sum)
{
    *sum = a + b;
    return a <= SIZE_MAX - b;
}

static bool round_up(size_t bytes, size_t unit, size_t *rounded)
{
    bool fits = ml_size_add(bytes, unit - 1, rounded);
    *rounded &= ~(unit - 1);
    return fits;
}

bool ml_pages_size(size_t bytes, size_t *total)
{
    return round_up(bytes ? bytes : 1, bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE, total);
}

#if defined(_WIN32)

void *ml_pages_allocate(size_t bytes)
{
    size_t total;
    return ml_pages_size(bytes, &total) ? VirtualAlloc(NULL, total, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE)
                                        : NULL;
}

void ml_pages_release(void *pages, size_t bytes)
{
    (void)bytes;
    if (pages)
        VirtualFree(pages, 0, MEM_RELEASE);
}

#elif defined(ML_HAS_MMAP)

void *ml_pages_allocate(size_t bytes)
{
    size_t total, padded;
    if (!ml_pages_size(bytes, &total))
        return NULL;
    size_t alignment = total >= HUGE_PAGE ? HUGE_PAGE : 0;
    if (!ml_size_add(total, alignment, &padded))
        return NULL;
    unsigned char *raw = mmap(NULL, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED)
        return NULL;
    if (alignment == 0)
        return raw;
    /* Cut the mapping to a huge page boundary, so that every part of it can be a huge page. */
    size_t head = (alignment - ((uintptr_t)raw & (alignment - 1))) & (alignment - 1);
    if (head)
        munmap(raw, head);
    if (alignment - head)
        munmap(raw + head + total, alignment - head);
#if defined(MADV_HUGEPAGE)
    (void)madvise(raw + head, total, MADV_HUGEPAGE); /* only advice: without it the pages are small */
#endif
    return raw + head;
}

void ml_pages_release(void *pages, size_t bytes)
{
    size_t total;
    if (pages && ml_pages_size(bytes, &total))
        munmap(pages, total);
}

#else

void *ml_pages_allocate(size_t bytes)
{
    size_t total;
    void *pages = ml_pages_size(bytes, &total) ? aligned_alloc(ML_ALIGN, total) : NULL;
    if (pages)
        memset(pages, 0, total);
    return pages;
}

void ml_pages_release(void *pages, size_t bytes)
{
    (void)bytes;
    free(pages);
}

#endif

void *ml_arena_take(ml_arena *arena, size_t count, size_t element_size)
{
    size_t bytes, end;
    if (!ml_size_mul(count, element_size, &bytes) || !round_up(bytes, ML_ALIGN, &bytes) ||
        !ml_size_add(arena->used, bytes, &end) || (arena->base && end > arena->size)) {
        arena->overflow = true;
        return NULL;
    }
    void *taken = arena->base ? arena->base + arena->used : NULL;
    arena->used = end;
    return taken;
}

ml_status ml_arena_allocate(ml_arena *arena, const char *what, ml_error *error)
{
    if (arena->overflow)
        return ml_fail(error, ML_E_NOMEM, "the %s do not fit into the address space", what);
    arena->size = arena->used;
    arena->base = ml_pages_allocate(arena->size);
    if (!arena->base)
        return ml_fail(error, ML_E_NOMEM, "no memory for the %s (%zu MB)", what, arena->size >> 20);
    arena->used = 0;
    return ML_OK;
}

void ml_arena_release(ml_arena *arena)
{
    ml_pages_release(arena->base, arena->size);
    *arena = (ml_arena){0};
}
