/* engine.c: opening and closing an engine, its sequences, and the checks before a step. */
#include "engine.h"

#include "../core/memory.h"
#include "ml_config.h"

#include <stdlib.h>

enum {
    DEFAULT_CONTEXT = 4096,
    DEFAULT_BATCH = 128,
    MAX_BATCH = 4096,
    MAX_SEQUENCES = 4096,
    MAX_THREADS = 1024,
    MAX_CHECKPOINTS = 1 << 20,
    DEFAULT_CHECKPOINTS = 4 /* per sequence */
};

static ml_status check_range(const char *name, int32_t value, int32_t most, ml_error *error)
{
    if (value < 0 || value > most)
        return ml_fail(error, ML_E_ARGUMENT, "%s is %d, must be 0 (the default) to %d", name, value, most);
    return ML_OK;
}

/* Replaces zeros by defaults and refuses what is out of range. */
static ml_status settle_options(ml_options *o, const ml_options *given, const ml_model *model,
                                ml_error *error)
{
    *o = given ? *given : (ml_options){.pack = 1};
    ml_status status;
    if ((status = check_range("threads", o->threads, MAX_THREADS, error)) != ML_OK ||
        (status = check_range("batch", o->batch, MAX_BATCH, error)) != ML_OK ||
        (status = check_range("sequences", o->sequences, MAX_SEQUENCES, error)) != ML_OK ||
        (status = check_range("checkpoints", o->checkpoints, MAX_CHECKPOINTS, error)) != ML_OK)
        return status;
    int32_t most = (int32_t)model->config.max_seq;
    if (o->context < 0 || o->context > most)
        return ml_fail(error, ML_E_ARGUMENT, "context is %d, %s allows 1 to %d positions", o->context,
                       model->path, most);
    if (o->kv_type < ML_KV_F32 || o->kv_type > ML_KV_Q8)
        return ml_fail(error, ML_E_ARGUMENT, "kv_type is %d, must be 0 (f32), 1 (f16) or 2 (q8)", o->kv_type);
    int32_t least = o->context > 0 ? o->context : most < DEFAULT_CONTEXT ? most : DEFAULT_CONTEXT;
    if (o->positions != 0 && o->positions < least)
        return ml_fail(
            error, ML_E_ARGUMENT,
            "positions is %d, must be 0 (the context of every sequence) or at least the context, %d",
            o->positions, least);
    if (o->threads == 0)
        o->threads = ml_threads_default();
    o->context = least;
    if (o->batch == 0)
        o->batch = DEFAULT_BATCH;
    if (o->sequences == 0)
        o->sequences = 1;
    if (o->checkpoints == 0)
        o->checkpoints = DEFAULT_CHECKPOINTS * o->sequences;
    return ML_OK;
}

static bool packs(const ml_options *options)
{
#if defined(ML_HAS_PACK)
    return options->pack != 0;
#else
    return (void)options, false;
#endif
}

static float *rows_of_floats(ml_arena *arena, int rows, int width)
{
    return ml_arena_take(arena, (size_t)rows, (size_t)width * sizeof(float));
}

/* Carves every buffer; runs twice, see arena.h. */
static void carve(ml_engine *e)
{
    ml_arena *arena = &e->arena;
    ml_buffers *b = &e->buffers;
    const ml_plan *plan = &e->plan;
    const ml_options *o = &e->options;
    size_t batch = (size_t)o->batch;
    b->x = rows_of_floats(arena, o->batch, plan->dim);
    b->y = rows_of_floats(arena, o->batch, plan->dim);
    b->q = rows_of_floats(arena, o->batch, plan->q_dim);
    b->k = rows_of_floats(arena, o->batch, plan->kv_dim);
    b->v = rows_of_floats(arena, o->batch, plan->kv_dim);
    b->gate = rows_of_floats(arena, o->batch, plan->hidden_dim);
    b->gates = rows_of_floats(arena, o->batch, plan->gate_width);
    b->up = rows_of_floats(arena, o->batch, plan->hidden_dim);
    b->scratch = rows_of_floats(arena, o->threads, plan->widest);
    ml_quantized_carve(&b->quantized, arena, packs(o), o->batch, plan->widest);
    ml_attention_carve(&b->attention, arena, o->threads, o->context, &e->kv.layout);
    b->rows = ml_arena_take(arena, batch, sizeof *b->rows);
    b->tokens = ml_arena_take(arena, batch, sizeof *b->tokens);
    b->wanted = ml_arena_take(arena, batch, sizeof *b->wanted);
    b->expected = ml_arena_take(arena, (size_t)o->sequences, sizeof *b->expected);
    b->adjusted = rows_of_floats(arena, o->threads, plan->vocab);
    b->ranks = ml_arena_take(arena, 2 * (size_t)o->threads, (size_t)plan->vocab * sizeof *b->ranks);
    for (int i = 0; i < (plan->local_rope ? 2 : 1); i++)
        ml_rope_carve(&e->ropes[i], arena, &e->model.config, o->context);
    ml_kv_carve(&e->kv, arena);
    ml_imatrix_carve(&e->imatrix, arena, plan);
    if (plan->state_floats > 0) {
        b->mixed = rows_of_floats(arena, o->batch, plan->mixed_width);
        b->b = rows_of_floats(arena, o->batch, plan->delta.v_heads);
        b->a = rows_of_floats(arena, o->batch, plan->delta.v_heads);
        b->states = ml_arena_take(arena, batch, sizeof *b->states);
        ml_delta_carve(&b->delta, arena, o->threads, &plan->delta);
        ml_states_carve(&e->states, arena, &e->kv);
    }
}

/* `buffers`: what the arena and the cache take from the system. */
static void fill_info(ml_engine *e, const ml_memory *memory, uint64_t buffers)
{
    const ml_config *c = &e->model.config;
    const ml_options *o = &e->options;
    uint64_t running = memory->own + memory->mapped;
    e->info = (ml_info){
        .dim = c->dim,
        .n_layers = c->n_layers,
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_dim = c->head_dim,
        .hidden_dim = c->hidden_dim,
        .vocab = c->vocab,
        .max_seq = c->max_seq,
        .wtype = c->wtype,
        .context = (uint32_t)o->context,
        .batch = (uint32_t)o->batch,
        .threads = (uint32_t)o->threads,
        .sequences = (uint32_t)o->sequences,
        .kv_type = (uint32_t)o->kv_type,
        .packed = packs(o),
        .pages = e->kv.n_pages,
        .page = ML_KV_PAGE,
        .linear = e->plan.state_floats > 0,
        .file_bytes = e->model.file.size,
        .weight_bytes = running,
        .arena_bytes = e->arena.used,
        .kv_bytes = e->kv.pool_bytes,
        .peak_bytes = (memory->peak > running ? memory->peak : running) + buffers,
    };
}

/* Everything that needs the header only: options, plan, sizes. Leaves the model mapped, also on error. */
static ml_status prepare(ml_engine *e, const char *path, const ml_options *options, ml_error *error)
{
    ml_memory memory;
    ml_kv_layout layout;
    ml_status status = ml_model_map(&e->model, path, error);
    if (status != ML_OK || (status = settle_options(&e->options, options, &e->model, error)) != ML_OK ||
        (status = ml_model_predict(&e->model, packs(&e->options), &memory, error)) != ML_OK)
        return status;
    e->layers = calloc(e->model.config.n_layers, sizeof *e->layers);
    if (!e->layers)
        return ml_fail(error, ML_E_NOMEM, "no memory for the plan of %s", path);
    if ((status = ml_plan_build(&e->plan, e->layers, &e->model, error)) != ML_OK)
        return status;
    const ml_plan *plan = &e->plan;
    /* Pages count positions for a model without a cache, too: one unused layer keeps them from being empty.
     */
    int kv_layers = plan->n_kv_layers > 0 ? plan->n_kv_layers : 1;
    if (!ml_kv_layout_init(&layout, e->options.kv_type, kv_layers, plan->n_kv_heads, plan->head_dim))
        return ml_fail(error, ML_E_NOMEM, "%s: a page of the cache does not fit into the address space",
                       path);
    status =
        ml_kv_init(&e->kv, &layout, e->options.sequences, e->options.context, e->options.positions, error);
    if (status != ML_OK)
        return status;
    e->states = (ml_states){
        .floats = plan->state_floats, .n_sequences = e->options.sequences, .n_slots = e->options.checkpoints};
    e->imatrix.on = e->options.imatrix != 0;
    carve(e);
    size_t arena, cache;
    if (e->arena.overflow || !ml_pages_size(e->arena.used, &arena) ||
        !ml_pages_size(e->kv.pool_bytes, &cache))
        return ml_fail(error, ML_E_NOMEM, "%s: the activations do not fit into the address space", path);
    fill_info(e, &memory, (uint64_t)arena + cache);
    return ML_OK;
}

/* Refuses what can never fit; file pages do not count, the system can drop them. */
static ml_status check_memory(const ml_engine *e, uint64_t weights, ml_error *error)
{
    uint64_t total = ml_memory_total();
    uint64_t needed = weights + e->info.arena_bytes + e->info.kv_bytes;
    if (total == 0 || needed <= total)
        return ML_OK;
    return ml_fail(
        error, ML_E_NOMEM,
        "%s: needs %.1f GB (weights %.1f, activations %.1f, keys and values of %lld positions %.1f), this "
        "machine has %.1f GB",
        e->model.path, 1e-9 * (double)needed, 1e-9 * (double)weights, 1e-9 * (double)e->info.arena_bytes,
        (long long)e->kv.n_pages * ML_KV_PAGE, 1e-9 * (double)e->info.kv_bytes, 1e-9 * (double)total);
}

static ml_status allocate(ml_engine *e, const ml_options *options, ml_error *error)
{
    ml_memory memory;
    ml_status status = ml_model_predict(&e->model, packs(&e->options), &memory, error);
    if (status != ML_OK || (status = check_memory(e, memory.own, error)) != ML_OK ||
        (status = ml_arena_allocate(&e->arena, "activations", error)) != ML_OK)
        return status;
    carve(e);
    if ((status = ml_kv_allocate(&e->kv, error)) != ML_OK ||
        (status = ml_pool_create(&e->pool, e->options.threads, error)) != ML_OK)
        return status;
    e->info.threads = (uint32_t)ml_pool_workers(e->pool);
    ml_weights_how how = {.pack = packs(&e->options)};
    if (options) {
        how.cache_path = options->pack_cache;
        how.progress = options->progress;
        how.progress_context = options->progress_context;
    }
    status = ml_weights_prepare(&e->weights, &e->model, e->pool, &how, error);
    if (status != ML_OK)
        return status;
    e->info.packed = e->weights.packed;
    e->info.pack_cache_hit = e->weights.cache_hit;
    for (int i = 0; i < (e->plan.local_rope ? 2 : 1); i++)
        ml_rope_fill(&e->ropes[i], &e->model.config, i == ML_ROPE_LOCAL, e->options.context);
    if (e->plan.state_floats > 0)
        ml_delta_fill(&e->buffers.delta, &e->plan.delta);
    ml_states_reset(&e->states, &e->kv);
    e->options.pack_cache = NULL;
    e->options.progress = NULL;
    e->options.progress_context = NULL;
    e->profile.on = e->options.profile != 0;
    return ML_OK;
}

ml_status ml_engine_open(ml_engine **engine, const char *path, const ml_options *options, ml_error *error)
{
    *engine = NULL;
    ml_engine *e = calloc(1, sizeof *e);
    if (!e)
        return ml_fail(error, ML_E_NOMEM, "no memory for the engine of %s", path);
    ml_status status = prepare(e, path, options, error);
    if (status == ML_OK)
        status = allocate(e, options, error);
    if (status == ML_OK)
        *engine = e;
    else
        ml_engine_close(e);
    return status;
}

ml_status ml_engine_predict(ml_info *info, const char *path, const ml_options *options, ml_error *error)
{
    ml_engine e = {0};
    ml_status status = prepare(&e, path, options, error);
    if (status == ML_OK)
        *info = e.info;
    free(e.layers);
    ml_model_close(&e.model);
    return status;
}

void ml_engine_close(ml_engine *engine)
{
    if (!engine)
        return;
    ml_pool_destroy(engine->pool);
    ml_weights_release(&engine->weights);
    ml_kv_release(&engine->kv);
    ml_arena_release(&engine->arena);
    free(engine->layers);
    ml_model_close(&engine->model);
    free(engine);
}

void ml_engine_info(const ml_engine *engine, ml_info *info)
{
    *info = engine->info;
}

const char *ml_engine_notice(const ml_engine *engine)
{
    return engine->weights.notice;
}

ml_status ml_imatrix_write(const ml_engine *engine, const char *path, ml_error *error)
{
    if (!engine->imatrix.on)
        return ml_fail(error, ML_E_ARGUMENT, "%s: the engine was opened without an importance matrix", path);
    return ml_imatrix_save(&engine->imatrix, &engine->plan, path, error);
}

void ml_profile_read(const ml_engine *engine, double *seconds)
{
    memcpy(seconds, engine->profile.seconds, sizeof engine->profile.seconds);
}

void ml_profile_reset(ml_engine *engine)
{
    memset(engine->profile.seconds, 0, sizeof engine->profile.seconds);
}

static ml_status check_open(const ml_engine *e, int32_t sequence, ml_error *error)
{
    if (!ml_kv_is_open(&e->kv, sequence))
        return ml_fail(error, ML_E_ARGUMENT, "sequence %d is not open", sequence);
    return ML_OK;
}

static ml_status check_length(const ml_engine *e, int32_t sequence, int32_t length, ml_error *error)
{
    ml_status status = check_open(e, sequence, error);
    if (status != ML_OK)
        return status;
    int32_t most = e->kv.sequences[sequence].length;
    if (length < 0 || length > most)
        return ml_fail(error, ML_E_ARGUMENT, "length is %d, sequence %d has %d positions", length, sequence,
                       most);
    return ML_OK;
}

static ml_status check_reachable(const ml_engine *e, int32_t sequence, int32_t length, ml_error *error)
{
    ml_status status = check_length(e, sequence, length, error);
    if (status != ML_OK)
        return status;
    int32_t nearest = ml_states_reachable(&e->states, &e->kv, sequence, length);
    if (nearest != length)
        return ml_fail(
            error, ML_E_ARGUMENT,
            "length is %d, but this model has a state: sequence %d can go back to %d or to where it is",
            length, sequence, nearest);
    return ML_OK;
}

static ml_status opened(const ml_engine *e, int32_t sequence, ml_error *error)
{
    if (sequence < 0)
        return ml_fail(error, ML_E_NOMEM, "all %d sequences are open", e->kv.n_sequences);
    return ML_OK;
}

ml_status ml_sequence_open(ml_engine *engine, int32_t *sequence, ml_error *error)
{
    *sequence = ml_kv_open(&engine->kv);
    if (*sequence >= 0)
        ml_states_clear(&engine->states, *sequence);
    return opened(engine, *sequence, error);
}

ml_status ml_sequence_fork(ml_engine *engine, int32_t source, int32_t length, int32_t *sequence,
                           ml_error *error)
{
    *sequence = -1;
    ml_status status = check_reachable(engine, source, length, error);
    if (status != ML_OK)
        return status;
    *sequence = ml_kv_fork(&engine->kv, source, length);
    if (*sequence >= 0)
        ml_states_restore(&engine->states, &engine->kv, source, length, *sequence);
    return opened(engine, *sequence, error);
}

ml_status ml_sequence_truncate(ml_engine *engine, int32_t sequence, int32_t length, ml_error *error)
{
    ml_status status = check_reachable(engine, sequence, length, error);
    if (status == ML_OK) {
        ml_states_restore(&engine->states, &engine->kv, sequence, length, sequence);
        ml_kv_truncate(&engine->kv, sequence, length);
    }
    return status;
}

int32_t ml_sequence_reachable(const ml_engine *engine, int32_t sequence, int32_t length)
{
    if (check_length(engine, sequence, length, NULL) != ML_OK)
        return -1;
    return ml_states_reachable(&engine->states, &engine->kv, sequence, length);
}

int32_t ml_sequence_length(const ml_engine *engine, int32_t sequence)
{
    return ml_kv_is_open(&engine->kv, sequence) ? engine->kv.sequences[sequence].length : -1;
}

void ml_sequence_close(ml_engine *engine, int32_t sequence)
{
    if (ml_kv_is_open(&engine->kv, sequence))
        ml_kv_close(&engine->kv, sequence);
}

int32_t ml_sequence_pages(const ml_engine *engine, int32_t sequence, int32_t *pages, int32_t capacity)
{
    if (!ml_kv_is_open(&engine->kv, sequence))
        return -1;
    const ml_kv_sequence *s = &engine->kv.sequences[sequence];
    int32_t count = ml_kv_pages_of(s->length);
    for (int32_t i = 0; i < count && i < capacity; i++)
        pages[i] = (int32_t)s->pages[i];
    return count;
}

static ml_status check_page(const ml_engine *e, int32_t page, ml_error *error)
{
    if (page < 0 || (uint32_t)page >= e->kv.n_pages || e->kv.references[page] == 0)
        return ml_fail(error, ML_E_ARGUMENT, "page %d is not in use", page);
    return ML_OK;
}

ml_status ml_sequence_resume(ml_engine *engine, const int32_t *pages, int32_t length, int32_t *sequence,
                             ml_error *error)
{
    ml_status status;
    *sequence = -1;
    if (length < 0 || length > engine->options.context)
        return ml_fail(error, ML_E_ARGUMENT, "length is %d, the context is %d positions", length,
                       engine->options.context);
    for (int32_t i = 0; i < ml_kv_pages_of(length); i++)
        if ((status = check_page(engine, pages[i], error)) != ML_OK)
            return status;
    *sequence = ml_kv_resume(&engine->kv, pages, length);
    if (*sequence >= 0)
        ml_kv_truncate(&engine->kv, *sequence,
                       ml_states_resume(&engine->states, &engine->kv, *sequence, length));
    return opened(engine, *sequence, error);
}

ml_status ml_page_hold(ml_engine *engine, int32_t page, ml_error *error)
{
    ml_status status = check_page(engine, page, error);
    if (status == ML_OK)
        ml_kv_hold(&engine->kv, (uint32_t)page);
    return status;
}

ml_status ml_page_drop(ml_engine *engine, int32_t page, ml_error *error)
{
    ml_status status = check_page(engine, page, error);
    if (status != ML_OK)
        return status;
    if (engine->kv.held[page] == 0)
        return ml_fail(error, ML_E_ARGUMENT, "page %d is not held", page);
    ml_kv_drop(&engine->kv, (uint32_t)page);
    return ML_OK;
}

int32_t ml_page_references(const ml_engine *engine, int32_t page)
{
    return check_page(engine, page, NULL) == ML_OK ? (int32_t)engine->kv.references[page] : 0;
}

int32_t ml_pages_free(const ml_engine *engine)
{
    return (int32_t)engine->kv.n_free;
}

static ml_status check_row(const ml_engine *e, const ml_row *row, int32_t i, bool room, ml_error *error)
{
    if (!ml_kv_is_open(&e->kv, row->sequence))
        return ml_fail(error, ML_E_ARGUMENT, "row %d: sequence %d is not open", i, row->sequence);
    if (row->token < 0 || row->token >= e->plan.vocab)
        return ml_fail(error, ML_E_ARGUMENT, "row %d: token is %d, the model has tokens 0 to %d", i,
                       row->token, e->plan.vocab - 1);
    int32_t expected = e->buffers.expected[row->sequence];
    if (row->position != expected)
        return ml_fail(error, ML_E_ARGUMENT, "row %d: position is %d, sequence %d continues at %d", i,
                       row->position, row->sequence, expected);
    if (row->position >= e->options.context)
        return ml_fail(error, ML_E_ARGUMENT, "row %d: position %d is beyond the context of %d positions", i,
                       row->position, e->options.context);
    if (row->wants_logits && !room)
        return ml_fail(error, ML_E_ARGUMENT, "row %d wants logits, but there is no room for them", i);
    return ML_OK;
}

static ml_status check_rows(ml_engine *e, const ml_row *rows, int32_t n, bool room, ml_error *error)
{
    if (n < 0 || (n > 0 && !rows))
        return ml_fail(error, ML_E_ARGUMENT, "n_rows is %d, must be the number of rows given", n);
    for (int32_t i = 0; i < e->kv.n_sequences; i++)
        e->buffers.expected[i] = e->kv.sequences[i].length;
    for (int32_t i = 0; i < n; i++) {
        ml_status status = check_row(e, &rows[i], i, room, error);
        if (status != ML_OK)
            return status;
        e->buffers.expected[rows[i].sequence]++;
    }
    return ML_OK;
}

/* Where a row's state is, and where a copy goes if the row is a page's last. */
static void load_state(ml_engine *e, int row)
{
    ml_states *states = &e->states;
    const ml_query_row *at = &e->buffers.rows[row];
    uint32_t page = at->pages[at->position / ML_KV_PAGE];
    if (states->floats == 0)
        return;
    ml_states_forget(states, page);
    float *checkpoint = NULL;
    if ((at->position + 1) % ML_KV_PAGE == 0)
        checkpoint = states->slots +
                     (size_t)ml_states_reserve(states, &e->kv, at->sequence, at->position / ML_KV_PAGE) *
                         states->floats;
    e->buffers.states[row] = (ml_delta_row){ml_states_live(states, at->sequence), checkpoint};
}

/* Takes rows into a step's buffers, with pages for them; returns how many want logits. */
static int load_rows(ml_engine *e, const ml_row *rows, int n)
{
    ml_buffers *b = &e->buffers;
    int wanted = 0;
    for (int i = 0; i < n; i++) {
        int32_t sequence = rows[i].sequence;
        ml_kv_append(&e->kv, sequence);
        b->rows[i] = (ml_query_row){e->kv.sequences[sequence].pages, sequence, rows[i].position};
        load_state(e, i);
        b->tokens[i] = rows[i].token;
        if (rows[i].wants_logits)
            b->wanted[wanted++] = i;
    }
    return wanted;
}

/* For rows that have been checked: the pages that appending them takes. */
static int32_t pages_needed(ml_engine *e, const ml_row *rows, int32_t n)
{
    int32_t needed = 0;
    for (int32_t i = 0; i < n; i++) {
        if (rows[i].position % ML_KV_PAGE == 0)
            needed++;
        else if (rows[i].position == e->kv.sequences[rows[i].sequence].length)
            needed += ml_kv_claim(&e->kv, rows[i].sequence);
    }
    for (int32_t i = 0; i < n; i++)
        ml_kv_unclaim(&e->kv, rows[i].sequence);
    return needed;
}

int32_t ml_forward_pages(ml_engine *engine, const ml_row *rows, int32_t n_rows)
{
    if (check_rows(engine, rows, n_rows, true, NULL) != ML_OK)
        return -1;
    return pages_needed(engine, rows, n_rows);
}

static ml_status forward(ml_engine *e, const ml_row *rows, int32_t n_rows, float *logits, float *states,
                         ml_error *error)
{
    ml_status status = check_rows(e, rows, n_rows, logits || states, error);
    if (status != ML_OK)
        return status;
    int32_t needed = pages_needed(e, rows, n_rows);
    if ((uint32_t)needed > e->kv.n_free)
        return ml_fail(error, ML_E_NOMEM, "%d rows need %d free pages of the cache, there are %u", n_rows,
                       needed, e->kv.n_free);
    for (int32_t start = 0, n; start < n_rows; start += n) {
        n = n_rows - start < e->options.batch ? n_rows - start : e->options.batch;
        int wanted = load_rows(e, rows + start, n);
        ml_transformer_step(e, n, wanted, logits, states);
        if (logits)
            logits += (size_t)wanted * (size_t)e->plan.vocab;
        if (states)
            states += (size_t)wanted * (size_t)e->plan.dim;
    }
    return ML_OK;
}

ml_status ml_forward(ml_engine *engine, const ml_row *rows, int32_t n_rows, float *logits, ml_error *error)
{
    return forward(engine, rows, n_rows, logits, NULL, error);
}

ml_status ml_forward_states(ml_engine *engine, const ml_row *rows, int32_t n_rows, float *states,
                            ml_error *error)
{
    return forward(engine, rows, n_rows, NULL, states, error);
}
