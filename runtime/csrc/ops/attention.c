/* attention.c: scores, softmax and weighted sums over pages of 64 positions. */
#include "attention.h"

#include "elementary.h"
#include "matvec.h"
#include "ml_config.h"

/* Queries that walk the cache together: enough of them that a page is read far less often than used. */
enum { MAX_QUERIES = 24 };

/* So many queries pay for widening a page's elements once, instead of each time they are read. */
enum { WIDEN_QUERIES = 12 };

typedef struct task {
    int kv_head;
    int row; /* first of the rows */
    int n_rows;
    int head; /* first of the query heads */
    int n_heads;
} task;

/* What one task works on: query i is head i % n_heads of row i / n_heads. */
typedef struct block {
    const ml_attention *a;
    const task *t;
    int n;
    int first_page;
    float *queries;
    float *sums;
    float *scores; /* position p of query i: [i * score_stride + p - first_page * ML_KV_PAGE] */
    float *wide;
    int8_t *tiled; /* the queries for the Q8 cache */
    float quant_scales[MAX_QUERIES];
    int32_t corrections[MAX_QUERIES];
} block;

static size_t score_stride(int context)
{
    /* Whole pages, and one line more so that queries do not share cache sets. */
    return ((size_t)context + ML_KV_PAGE - 1) / ML_KV_PAGE * ML_KV_PAGE + 16;
}

#if defined(ML_HAS_PACK)
enum { TILE_BYTES = ML_TILE_X_BYTES };
#else
enum { TILE_BYTES = ML_BLOCK };
#endif

void ml_attention_carve(ml_attention_scratch *scratch, ml_arena *arena, int workers, int context,
                        const ml_kv_layout *layout)
{
    size_t n = (size_t)workers, queries = n * MAX_QUERIES, blocks = (size_t)layout->key_dim / ML_BLOCK;
    *scratch =
        (ml_attention_scratch){.head_dim = (size_t)layout->head_dim, .score_stride = score_stride(context)};
    scratch->queries = ml_arena_take(arena, queries, scratch->head_dim * sizeof(float));
    scratch->sums = ml_arena_take(arena, queries, scratch->head_dim * sizeof(float));
    scratch->scores = ml_arena_take(arena, queries, scratch->score_stride * sizeof(float));
    if (layout->type != ML_KV_F32)
        scratch->wide = ml_arena_take(arena, n * ML_KV_PAGE, scratch->head_dim * sizeof(float));
    if (layout->type != ML_KV_Q8)
        return;
    scratch->quants = ml_arena_take(arena, n, (size_t)layout->key_dim);
    scratch->tiled = ml_arena_take(arena, queries, blocks * TILE_BYTES);
    scratch->block_scales = ml_arena_take(arena, n, 2 * blocks * sizeof(float));
    scratch->block_sums = ml_arena_take(arena, n, 3 * blocks * sizeof(int32_t));
}

static int first_visible(const ml_attention *a, int position)
{
    return a->window > 0 && position >= a->window ? position + 1 - a->window : 0;
}

/* The positions of a page that a row sees: [*from, *to) within the page; false if none. */
static bool visible_part(const ml_attention *a, int row, int page, int *from, int *to)
{
    int start = page * ML_KV_PAGE, first = first_visible(a, a->rows[row].position);
    int end = a->rows[row].position + 1;
    *from = first > start ? first - start : 0;
    *to = end - start < ML_KV_PAGE ? end - start : ML_KV_PAGE;
    return *from < *to;
}

/* Where a query's head lies in the inputs and outputs. */
static size_t place_of(const block *b, int i)
{
    int row = b->t->row + i / b->t->n_heads, head = b->t->head + i % b->t->n_heads;
    return ((size_t)row * (size_t)b->a->n_heads + (size_t)head) * b->a->scratch->head_dim;
}

/* One query as the score kernel of the Q8 cache reads it. */
static void tile_query(block *b, int i, int worker)
{
    const ml_attention_scratch *scratch = b->a->scratch;
    int dim = b->a->layout->key_dim, blocks = dim / ML_BLOCK;
    int8_t *quants = scratch->quants + worker * dim, *tiled = b->tiled + i * blocks * TILE_BYTES;
    memset(quants, 0, (size_t)dim);
    ml_quantize_head(quants, &b->quant_scales[i], b->queries + (size_t)i * scratch->head_dim,
                     b->a->layout->head_dim);
#if defined(ML_HAS_PACK)
    float *scales = scratch->block_scales + 2 * worker * blocks;
    int32_t *sums = scratch->block_sums + 3 * worker * blocks, *corrections = sums + blocks;
    for (int block = 0; block < blocks; block++) {
        scales[block] = 1.0f; /* the head's own scale comes in at the end */
        sums[block] = 0;
        for (int j = 0; j < ML_BLOCK; j++)
            sums[block] += quants[block * ML_BLOCK + j];
    }
    ml_k_tile_q8(tiled, scales + blocks, corrections, quants, scales, sums, dim, 1);
    b->corrections[i] = 0;
    for (int block = 0; block < blocks; block++)
        b->corrections[i] += corrections[block * ML_TILE_SUMS];
#else
    memcpy(tiled, quants, (size_t)dim);
#endif
}

static void gather_queries(block *b, const ml_attention *a, const task *t, int worker)
{
    const ml_attention_scratch *scratch = a->scratch;
    size_t first = (size_t)worker * MAX_QUERIES, dim = scratch->head_dim;
    *b = (block){.a = a, .t = t, .n = t->n_rows * t->n_heads};
    b->first_page = first_visible(a, a->rows[t->row].position) / ML_KV_PAGE;
    b->queries = scratch->queries + first * dim;
    b->sums = scratch->sums + first * dim;
    b->scores = scratch->scores + first * scratch->score_stride;
    if (a->layout->type != ML_KV_F32 && b->n >= WIDEN_QUERIES)
        b->wide = scratch->wide + (size_t)worker * ML_KV_PAGE * dim;
    if (a->layout->type == ML_KV_Q8)
        b->tiled = scratch->tiled + first * (size_t)(a->layout->key_dim / ML_BLOCK) * TILE_BYTES;
    for (int i = 0; i < b->n; i++) {
        float *query = b->queries + (size_t)i * dim;
        memcpy(query, a->q + place_of(b, i), dim * sizeof(float));
        if (a->layout->type == ML_KV_Q8)
            tile_query(b, i, worker);
    }
    memset(b->sums, 0, (size_t)b->n * dim * sizeof(float));
}

static unsigned char *page_memory(const block *b, int page)
{
    return b->a->pool + (size_t)b->a->rows[b->t->row].pages[page] * b->a->layout->page_bytes;
}

/* A head's keys or values in a page. */
static const void *elements(const block *b, int page, int half)
{
    return ml_kv_elements(b->a->layout, page_memory(b, page), b->a->layer, half, b->t->kv_head);
}

/*
 * Asks for the head's part of a page that comes next; pages lie apart, so the machine cannot guess. With many
 * queries the work on a page takes longer than its way, and the first cache level is needed for other things.
 */
static void fetch_page(const block *b, int page, int last_page, int half)
{
    if (page > last_page || b->n >= WIDEN_QUERIES)
        return;
    const char *p = elements(b, page, half);
    for (size_t at = 0; at < b->a->layout->head_bytes; at += 64)
        ml_prefetch(p + at);
}

/* All queries against a page's keys. Scores of positions that a row does not see are computed, never read. */
static void score_page(const block *b, int page)
{
    const ml_kv_layout *layout = b->a->layout;
    const void *keys = elements(b, page, ML_KV_KEYS);
    float *scores = b->scores + (page - b->first_page) * ML_KV_PAGE;
    size_t stride = b->a->scratch->score_stride, dim = b->a->scratch->head_dim;
    if (layout->type == ML_KV_Q8) {
        ml_k_dot_q8(scores, stride, b->tiled, b->quant_scales, b->corrections, b->n, keys,
                    ml_kv_scales(layout, page_memory(b, page), b->a->layer, ML_KV_KEYS, b->t->kv_head),
                    layout->key_dim);
        return;
    }
    if (b->wide) {
        ml_k_widen_f16(b->wide, keys, ML_KV_PAGE * (int)dim);
        keys = b->wide;
    }
    if (b->wide || layout->type == ML_KV_F32)
        ml_k_dot_f32(scores, stride, b->queries, dim, b->n, keys, (int)dim);
    else
        ml_k_dot_f16(scores, stride, b->queries, dim, b->n, keys, (int)dim);
}

static void widen_values(const block *b, int page)
{
    const void *values = elements(b, page, ML_KV_VALUES);
    int count = ML_KV_PAGE * b->a->layout->head_dim;
    if (b->a->layout->type == ML_KV_Q8)
        ml_k_widen_q8(b->wide, values, count);
    else
        ml_k_widen_f16(b->wide, values, count);
}

/* The Q8 cache: a value's scale goes into its weights. */
static void scale_weights(const block *b, int page, float *weights, int n, int from, int to)
{
    const float *scales =
        ml_kv_scales(b->a->layout, page_memory(b, page), b->a->layer, ML_KV_VALUES, b->t->kv_head);
    for (int i = 0; i < n; i++)
        for (int t = from; t < to; t++)
            weights[(size_t)i * b->a->scratch->score_stride + (size_t)t] *= scales[t];
}

/* Queries [first, first + n) add up positions [from, to) of a page's values; each weight is used only here.
 */
static void weigh(const block *b, int page, int first, int n, int from, int to)
{
    int type = b->a->layout->type, rows = to - from;
    const void *values = b->wide ? b->wide : elements(b, page, ML_KV_VALUES);
    size_t stride = b->a->scratch->score_stride, dim = b->a->scratch->head_dim, at = (size_t)from * dim;
    float *sums = b->sums + (size_t)first * dim;
    float *weights = b->scores + (size_t)first * stride + (page - b->first_page) * ML_KV_PAGE;
    if (type == ML_KV_Q8)
        scale_weights(b, page, weights, n, from, to);
    if (b->wide || type == ML_KV_F32)
        ml_k_axpy_f32(sums, dim, weights + from, stride, n, (const float *)values + at, rows, (int)dim);
    else if (type == ML_KV_F16)
        ml_k_axpy_f16(sums, dim, weights + from, stride, n, (const uint16_t *)values + at, rows, (int)dim);
    else
        ml_k_axpy_q8(sums, dim, weights + from, stride, n, (const int8_t *)values + at, rows, (int)dim);
}

/* All rows that see the same part of the page together; at the edges of what they see, each row by itself. */
static void weigh_page(const block *b, int page)
{
    const ml_attention *a = b->a;
    int heads = b->t->n_heads, first_row = b->t->row, last_row = first_row + b->t->n_rows - 1;
    int from, to, last_from, last_to;
    if (b->wide)
        widen_values(b, page);
    bool same = visible_part(a, first_row, page, &from, &to);
    same = visible_part(a, last_row, page, &last_from, &last_to) && same;
    if (same && from == last_from && to == last_to) {
        weigh(b, page, 0, b->n, from, to);
        return;
    }
    for (int row = first_row; row <= last_row; row++)
        if (visible_part(a, row, page, &from, &to))
            weigh(b, page, (row - first_row) * heads, heads, from, to);
}

/*
 * The softmax of n scores, with room for whole turns of its sixteen partial sums: weights of -inf are 0 and
 * add nothing, which costs less than a remainder. Only scores that are all -inf must be counted exactly.
 */
static void weigh_scores(float *scores, int n)
{
    bool any = false;
    for (int j = 0; j < n; j++)
        any |= scores[j] > -INFINITY;
    int whole = any ? (n + 15) / 16 * 16 : n;
    for (int j = n; j < whole; j++)
        scores[j] = -INFINITY;
    ml_k_softmax(scores, whole);
}

/* Scores to weights, for each query over the positions that it sees. */
static void finish_scores(const block *b)
{
    const ml_attention *a = b->a;
    for (int i = 0; i < b->n; i++) {
        int position = a->rows[b->t->row + i / b->t->n_heads].position, first = first_visible(a, position);
        float *scores = b->scores + (size_t)i * a->scratch->score_stride + first - b->first_page * ML_KV_PAGE;
        int n = position + 1 - first;
        for (int j = 0; j < n; j++)
            scores[j] *= a->scale;
        if (a->softcap > 0.0f)
            for (int j = 0; j < n; j++)
                scores[j] = ml_softcap(scores[j], a->softcap);
        weigh_scores(scores, n);
    }
}

static void run_task(const ml_attention *a, const task *t, int worker)
{
    block b;
    gather_queries(&b, a, t, worker);
    /* Rows are in order: the first sees the earliest position, the last the latest. */
    int last_page = a->rows[t->row + t->n_rows - 1].position / ML_KV_PAGE;
    for (int page = b.first_page; page <= last_page; page++) {
        fetch_page(&b, page + 1, last_page, ML_KV_KEYS);
        score_page(&b, page);
    }
    fetch_page(&b, b.first_page, last_page, ML_KV_VALUES);
    finish_scores(&b);
    for (int page = b.first_page; page <= last_page; page++) {
        fetch_page(&b, page + 1, last_page, ML_KV_VALUES);
        weigh_page(&b, page);
    }
    for (int i = 0; i < b.n; i++)
        memcpy(a->out + place_of(&b, i), b.sums + (size_t)i * a->scratch->head_dim,
               a->scratch->head_dim * sizeof(float));
}

/* Rows from `row` on that continue one sequence, so that a group's heads for them fill a task. */
static int block_rows(const ml_attention *a, int row, int group)
{
    int most = group < MAX_QUERIES ? MAX_QUERIES / group : 1, n = 1;
    const ml_query_row *r = &a->rows[row];
    while (n < most && row + n < a->n_rows && r[n].sequence == r->sequence &&
           r[n].position == r->position + n)
        n++;
    return n;
}

static int64_t visible_positions(const ml_attention *a, int row, int n)
{
    int64_t sum = 0;
    for (int i = row; i < row + n; i++)
        sum += a->rows[i].position + 1 - first_visible(a, a->rows[i].position);
    return sum;
}

/* The first of a block's heads whose work starts at `from` or later; each head's share is `cost`. */
static int head_at(int64_t from, int64_t cost, int group)
{
    if (from <= 0)
        return 0;
    int64_t head = (from + cost - 1) / cost;
    return head < group ? (int)head : group;
}

/*
 * All work in one line, [kv head][block of rows][query head], each item as long as the positions it visits; a
 * worker takes the items that start in its part of the line.
 */
static void run_attention(void *context, int worker, int workers)
{
    const ml_attention *a = context;
    int group = a->n_heads / a->layout->n_kv_heads;
    int64_t total = visible_positions(a, 0, a->n_rows) * a->n_heads;
    int64_t start = total * worker / workers, end = total * (worker + 1) / workers, before = 0;
    for (int kv_head = 0; kv_head < a->layout->n_kv_heads; kv_head++) {
        for (int row = 0, n; row < a->n_rows && before < end; row += n) {
            n = block_rows(a, row, group);
            int64_t cost = visible_positions(a, row, n);
            int head = head_at(start - before, cost, group), last = head_at(end - before, cost, group);
            before += cost * group;
            task t = {.kv_head = kv_head, .row = row, .n_rows = n};
            for (int count; head < last; head += count) {
                count = last - head < MAX_QUERIES / n ? last - head : MAX_QUERIES / n;
                t.head = kv_head * group + head;
                t.n_heads = count;
                run_task(a, &t, worker);
            }
        }
    }
}

void ml_attention_run(ml_pool *pool, const ml_attention *attention)
{
    ml_attention job = *attention;
    int64_t work = 2 * visible_positions(&job, 0, job.n_rows) * job.n_heads * job.layout->head_dim;
    if (work < ML_PARALLEL_WORK)
        run_attention(&job, 0, 1);
    else
        ml_pool_run(pool, run_attention, &job);
}
