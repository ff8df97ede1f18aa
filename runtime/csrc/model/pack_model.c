/*
 * pack_model.c: one pass over the weights at load. Matrices are handled in file order, in slices of some
 * megabytes that the pool shares; a slice is checked for -128, packed while it is in the cache, and its file
 * pages are given back. So memory stays at the packed size plus one slice, and a model is read once.
 */
#include "pack_model.h"

#include "../core/arena.h"
#include "../core/pack.h"
#include "pack_cache.h"

#include <stdatomic.h>
#include <stdio.h>

enum { SLICE_BYTES = 16 << 20, TASK_ROWS = 64 };
#if defined(ML_HAS_PACK)
_Static_assert(TASK_ROWS % ML_PACK_GROUP == 0, "a task is whole groups");
#endif

static bool is_embedding(const ml_model *model, const ml_matrix *matrix)
{
    return matrix == &model->tok_emb;
}

/* Q8 quants are looked at once: a shared classifier's are those of tok_emb. */
static bool needs_check(const ml_model *model, const ml_matrix *matrix)
{
    return matrix->wtype == ML_WTYPE_Q8_0 &&
           !(is_embedding(model, matrix) && model->config.shared_classifier);
}

/* What the arrays of one matrix take in our own memory: packed, or the widened scales. */
static bool own_bytes(const ml_model *model, const ml_matrix *matrix, bool pack, size_t *quants,
                      size_t *scales)
{
    *quants = *scales = 0;
    if (is_embedding(model, matrix))
        return true;
#if defined(ML_HAS_PACK)
    if (pack)
        return ml_pack_bytes(matrix, quants, scales);
#endif
    (void)pack;
    return !matrix->f16_scales || ml_size_mul(matrix->rows, matrix->cols / ML_BLOCK * sizeof(float), scales);
}

static bool can_pack(bool wanted)
{
#if defined(ML_HAS_PACK)
    return wanted;
#else
    return (void)wanted, false;
#endif
}

/* Carves the arrays of all matrices; on an arena without a base it only adds up. */
typedef struct sizes {
    ml_arena arena;
    const ml_model *model;
    bool pack;
    uint64_t embedding; /* bytes of tok_emb in the file */
    uint64_t file;      /* of the other matrices */
    uint64_t work;      /* of the matrices that are checked, packed or widened */
    uint64_t largest;   /* of the largest of them */
} sizes;

static ml_status add_sizes(void *context, ml_matrix *matrix, const char *name, ml_error *error)
{
    sizes *sum = context;
    size_t quants, scales, file_quants, file_scales;
    if (!own_bytes(sum->model, matrix, sum->pack, &quants, &scales) ||
        !ml_matrix_bytes(matrix, &file_quants, &file_scales))
        return ml_fail(error, ML_E_NOMEM, "%s: %s does not fit into the address space", sum->model->path,
                       name);
    ml_arena_take(&sum->arena, quants, 1);
    ml_arena_take(&sum->arena, scales, 1);
    uint64_t bytes = (uint64_t)file_quants + file_scales;
    *(is_embedding(sum->model, matrix) ? &sum->embedding : &sum->file) += bytes;
    if (scales > 0 || needs_check(sum->model, matrix)) {
        sum->work += bytes;
        sum->largest = bytes > sum->largest ? bytes : sum->largest;
    }
    return ML_OK;
}

static ml_status add_up(sizes *sum, const ml_model *model, bool pack, ml_error *error)
{
    *sum = (sizes){.model = model, .pack = can_pack(pack)};
    /* Visiting does not change the model; only other visitors do. */
    ml_status status = ml_model_visit((ml_model *)(uintptr_t)model, add_sizes, sum, error);
    if (status == ML_OK && sum->arena.overflow)
        status = ml_fail(error, ML_E_NOMEM, "%s: the weights do not fit into the address space", model->path);
    return status;
}

ml_status ml_model_predict(const ml_model *model, bool pack, ml_memory *memory, ml_error *error)
{
    sizes sum;
    ml_status status = add_up(&sum, model, pack, error);
    if (status != ML_OK)
        return status;
    uint64_t file = model->file.size;
    size_t own = 0;
    if (sum.arena.used > 0 && !ml_pages_size(sum.arena.used, &own))
        return ml_fail(error, ML_E_NOMEM, "%s: the weights do not fit into the address space", model->path);
    *memory = (ml_memory){.own = own, .mapped = file, .peak = own + file};
    if (sum.pack) {
        memory->mapped = file - sum.file + (model->config.shared_classifier ? sum.embedding : 0);
        /* A copy of the file that was read, not mapped, cannot be given back piece by piece. */
        if (model->file.mapped)
            memory->peak = own + (sum.largest < SLICE_BYTES ? sum.largest : SLICE_BYTES);
    }
    return ML_OK;
}

/* One pass: what the workers need, and what they find. */
typedef struct pass {
    ml_model *model;
    ml_pool *pool;
    const ml_weights_how *how;
    ml_arena arena;
    bool pack;
    uint64_t done, total; /* bytes, for the progress */
    /* the current matrix and slice */
    ml_matrix *matrix;
    unsigned char *quants, *scales; /* of our own */
    uint32_t start, end;            /* rows */
    bool check;
    atomic_uint next;
    atomic_bool bad;
} pass;

static void pack_rows(const pass *at, uint32_t start, uint32_t end)
{
#if defined(ML_HAS_PACK)
    if (at->pack) {
        ml_pack_part(at->matrix, at->quants, at->scales, start / ML_PACK_GROUP,
                     (end + ML_PACK_GROUP - 1) / ML_PACK_GROUP);
        return;
    }
#endif
    size_t blocks = at->matrix->cols / ML_BLOCK;
    const uint16_t *halves = at->matrix->scales;
    float *floats = (float *)(void *)at->scales;
    for (size_t i = start * blocks; i < end * blocks; i++)
        floats[i] = ml_f16_to_f32(halves[i]);
}

/* Takes tasks of TASK_ROWS rows, a multiple of every group, until the slice is done. */
static void run_tasks(void *context, int worker, int workers)
{
    pass *at = context;
    (void)worker, (void)workers;
    for (;;) {
        uint32_t start =
            at->start + TASK_ROWS * atomic_fetch_add_explicit(&at->next, 1, memory_order_relaxed);
        if (start >= at->end)
            return;
        uint32_t end = at->end - start < TASK_ROWS ? at->end : start + TASK_ROWS;
        if (at->check && ml_matrix_check(at->model, at->matrix, "", start, end, NULL) != ML_OK)
            atomic_store_explicit(&at->bad, true, memory_order_relaxed);
        if (at->scales)
            pack_rows(at, start, end);
    }
}

/* Gives back the file's pages of rows that will not be read again soon. */
static void discard_rows(const pass *at, uint32_t start, uint32_t end, size_t row_quants, size_t row_scales)
{
    if (at->pack) {
        ml_file_discard(&at->model->file, (const char *)at->matrix->quants + start * row_quants,
                        (end - start) * row_quants);
        ml_file_discard(&at->model->file, (const char *)at->matrix->scales + start * row_scales,
                        (end - start) * row_scales);
    }
}

static ml_status report(pass *at, const char *what, ml_error *error)
{
    const ml_weights_how *how = at->how;
    if (how->progress && how->progress(how->progress_context, what, at->done, at->total) != 0)
        return ml_fail(error, ML_E_ARGUMENT, "stopped");
    return ML_OK;
}

/* Checks and packs the current matrix slice by slice. */
static ml_status run_slices(pass *at, const char *name, size_t row_quants, size_t row_scales, ml_error *error)
{
    uint32_t rows = at->matrix->rows;
    size_t fitting = SLICE_BYTES / (row_quants + row_scales) / TASK_ROWS * TASK_ROWS;
    uint32_t slice = fitting < TASK_ROWS ? TASK_ROWS : fitting < rows ? (uint32_t)fitting : rows;
    for (at->start = 0; at->start < rows; at->start = at->end) {
        at->end = rows - at->start < slice ? rows : at->start + slice;
        atomic_store(&at->next, 0);
        ml_pool_run(at->pool, run_tasks, at);
        if (atomic_load(&at->bad)) /* found by a worker without a sentence: find it again, in order */
            return ml_matrix_check(at->model, at->matrix, name, at->start, at->end, error);
        discard_rows(at, at->start, at->end, row_quants, row_scales);
        at->done += (at->end - at->start) * (uint64_t)(row_quants + row_scales);
        ml_status status = report(at, at->pack ? "packing weights" : "checking weights", error);
        if (status != ML_OK)
            return status;
    }
    return ML_OK;
}

static ml_status prepare_matrix(void *context, ml_matrix *matrix, const char *name, ml_error *error)
{
    pass *at = context;
    size_t quants, scales, file_quants, file_scales;
    if (!own_bytes(at->model, matrix, at->pack, &quants, &scales) ||
        !ml_matrix_bytes(matrix, &file_quants, &file_scales))
        return ml_fail(error, ML_E_NOMEM, "%s: %s does not fit into the address space", at->model->path,
                       name);
    at->matrix = matrix;
    at->quants = quants ? ml_arena_take(&at->arena, quants, 1) : NULL;
    at->scales = scales ? ml_arena_take(&at->arena, scales, 1) : NULL;
    at->check = needs_check(at->model, matrix);
    if (!at->check && !at->scales)
        return ML_OK;
    return run_slices(at, name, file_quants / matrix->rows, file_scales / matrix->rows, error);
}

/* Carves the arrays again, now from finished memory (packed just now, or mapped), and points the matrices at
 * them. */
typedef struct binding {
    ml_arena arena;
    const ml_model *model;
    bool pack;
} binding;

static ml_status bind_matrix(void *context, ml_matrix *matrix, const char *name, ml_error *error)
{
    binding *to = context;
    size_t quants, scales;
    (void)name, (void)error;
    if (!own_bytes(to->model, matrix, to->pack, &quants, &scales) || scales == 0)
        return ML_OK; /* sizes were checked before; without scales of its own it stays as it is */
    const void *own_quants = quants ? ml_arena_take(&to->arena, quants, 1) : NULL;
    const void *own_scales = ml_arena_take(&to->arena, scales, 1);
    if (to->pack) {
        matrix->packed = own_quants;
        matrix->packed_scales = own_scales;
#if defined(ML_HAS_PACK)
        matrix->packed_f16 = ml_pack_f16(matrix);
#endif
        matrix->quants = matrix->scales = NULL;
    } else {
        matrix->scales = own_scales;
        matrix->f16_scales = false;
    }
    return ML_OK;
}

static void bind_all(ml_model *model, const void *memory, size_t bytes, bool pack)
{
    binding to = {{.base = (unsigned char *)(uintptr_t)memory, .size = bytes}, model, pack};
    ml_model_visit(model, bind_matrix, &to, NULL);
}

static ml_status run_pass(ml_weights *weights, const sizes *sum, ml_model *model, ml_pool *pool,
                          const ml_weights_how *how, ml_error *error)
{
    pass at = {.model = model, .pool = pool, .how = how, .pack = sum->pack, .total = sum->work};
    at.arena.used = sum->arena.used;
    if (weights->bytes > 0) {
        char what[512];
        snprintf(what, sizeof what, "weights of %s", model->path);
        ml_status status = ml_arena_allocate(&at.arena, what, error);
        if (status != ML_OK)
            return status;
        weights->pages = at.arena.base;
    }
    return ml_model_visit(model, prepare_matrix, &at, error);
}

#if defined(ML_HAS_PACK)

static bool map_cache(ml_weights *weights, ml_model *model, const char *path, const ml_pack_key *key)
{
    weights->cache_hit = ml_pack_cache_map(&weights->cache, path, key);
    if (weights->cache_hit)
        bind_all(model, weights->cache.data + ML_PACK_CACHE_HEADER, weights->bytes, true);
    return weights->cache_hit;
}

/* A cache that cannot be written is only a pity. */
static void write_cache(ml_weights *weights, const ml_weights_how *how, const ml_pack_key *key)
{
    ml_error problem;
    if (how->progress)
        how->progress(how->progress_context, "writing the pack cache", 0, 1);
    if (ml_pack_cache_write(how->cache_path, key, weights->pages, &problem) != ML_OK)
        memcpy(weights->notice, problem.message, sizeof weights->notice);
    if (how->progress)
        how->progress(how->progress_context, "writing the pack cache", 1, 1);
}

#endif

ml_status ml_weights_prepare(ml_weights *weights, ml_model *model, ml_pool *pool, const ml_weights_how *how,
                             ml_error *error)
{
    sizes sum;
    *weights = (ml_weights){0};
    ml_status status = add_up(&sum, model, how->pack, error);
    if (status != ML_OK)
        return status;
    weights->bytes = sum.arena.used;
    weights->packed = sum.pack;
#if defined(ML_HAS_PACK)
    ml_pack_key key;
    bool cached = sum.pack && how->cache_path;
    if (cached) {
        ml_pack_cache_key(&key, model, weights->bytes);
        if (map_cache(weights, model, how->cache_path, &key))
            return ML_OK;
    }
#endif
    status = run_pass(weights, &sum, model, pool, how, error);
    if (status != ML_OK) {
        ml_weights_release(weights);
        return status;
    }
#if defined(ML_HAS_PACK)
    if (cached)
        write_cache(weights, how, &key);
#endif
    bind_all(model, weights->pages, weights->bytes, sum.pack);
    return ML_OK;
}

void ml_weights_release(ml_weights *weights)
{
    ml_pages_release(weights->pages, weights->bytes);
    ml_file_close(&weights->cache);
    *weights = (ml_weights){0};
}
