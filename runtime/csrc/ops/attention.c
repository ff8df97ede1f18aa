/* attention.c: scores, softmax and weighted sums over pages of 64 positions. */
#include "attention.h"

#include "matvec.h"
#include "ml_config.h"

/* Queries that walk the cache together. */
enum { MAX_QUERIES = 8 };

typedef struct query {
    const float *q;
    float *out;
    float *scores;        /* of positions first..position */
    const int8_t *quants; /* of q, for the Q8 cache */
    float scale;
    int first;
    int end; /* the query's position + 1 */
} query;

typedef struct task {
    int kv_head;
    int row; /* first of the rows */
    int n_rows;
    int head; /* first of the query heads */
    int n_heads;
} task;

static size_t score_stride(int context)
{
    return ((size_t)context + 15) / 16 * 16;
}

void ml_attention_carve(ml_attention_scratch *scratch, ml_arena *arena, int workers, int context,
                        int head_dim)
{
    scratch->scores_per_worker = MAX_QUERIES * score_stride(context);
    scratch->quants_per_worker = MAX_QUERIES * ((size_t)head_dim + ML_ALIGN);
    scratch->scores = ml_arena_take(arena, (size_t)workers, scratch->scores_per_worker * sizeof(float));
    scratch->quants = ml_arena_take(arena, (size_t)workers, scratch->quants_per_worker);
}

static int first_visible(const ml_attention *a, int position)
{
    return a->window > 0 && position >= a->window ? position + 1 - a->window : 0;
}

/* The positions of a page that a query sees: [*from, *to) within the page; false if none. */
static bool visible_part(const query *q, int page, int *from, int *to)
{
    int start = page * ML_KV_PAGE;
    *from = q->first > start ? q->first - start : 0;
    *to = q->end - start < ML_KV_PAGE ? q->end - start : ML_KV_PAGE;
    return *from < *to;
}

/* Positions [from, to) of a page for one query. */
static void score(const ml_kv_layout *layout, const query *q, float *scores, const unsigned char *keys,
                  const float *scales, int from, int to)
{
    size_t stride = (size_t)layout->head_dim, at = (size_t)from * stride;
    int rows = to - from, dim = layout->head_dim;
    if (layout->type == ML_KV_F32)
        ml_k_dot_f32(scores, q->q, (const float *)(const void *)keys + at, stride, rows, dim);
    else if (layout->type == ML_KV_F16)
        ml_k_dot_f16(scores, q->q, (const uint16_t *)(const void *)keys + at, stride, rows, dim);
    else
        ml_k_dot_q8(scores, q->quants, q->scale, (const int8_t *)keys + at, scales + from, stride, rows, dim);
}

static void add_up(const ml_kv_layout *layout, const query *q, const float *weights,
                   const unsigned char *values, const float *scales, int from, int to)
{
    size_t stride = (size_t)layout->head_dim, at = (size_t)from * stride;
    int rows = to - from, dim = layout->head_dim;
    if (layout->type == ML_KV_F32)
        ml_k_axpy_f32(q->out, weights, (const float *)(const void *)values + at, stride, rows, dim);
    else if (layout->type == ML_KV_F16)
        ml_k_axpy_f16(q->out, weights, (const uint16_t *)(const void *)values + at, stride, rows, dim);
    else
        ml_k_axpy_q8(q->out, weights, (const int8_t *)values + at, scales + from, stride, rows, dim);
}

/* Every query of a task meets one page's keys or values. */
static void visit_page(const ml_attention *a, const query *queries, int n, const task *t, int page, int half)
{
    const ml_kv_layout *layout = a->layout;
    unsigned char *memory = a->pool + (size_t)a->rows[t->row].pages[page] * layout->page_bytes;
    const unsigned char *elements = ml_kv_elements(layout, memory, a->layer, half, t->kv_head);
    const float *scales = ml_kv_scales(layout, memory, a->layer, half, t->kv_head);
    for (int i = 0; i < n; i++) {
        const query *q = &queries[i];
        int from, to;
        if (!visible_part(q, page, &from, &to))
            continue;
        float *scores = q->scores + page * ML_KV_PAGE + from - q->first;
        if (half == ML_KV_KEYS)
            score(layout, q, scores, elements, scales, from, to);
        else
            add_up(layout, q, scores, elements, scales, from, to);
    }
}

/* Scores to weights, and an empty sum in place of what may still be the query. */
static void finish_scores(const ml_attention *a, const query *q)
{
    int n = q->end - q->first;
    for (int i = 0; i < n; i++)
        q->scores[i] *= a->scale;
    ml_k_softmax(q->scores, n);
    memset(q->out, 0, (size_t)a->layout->head_dim * sizeof(float));
}

static int set_queries(const ml_attention *a, const task *t, int worker, query *queries)
{
    const ml_attention_scratch *scratch = a->scratch;
    float *scores = scratch->scores + (size_t)worker * scratch->scores_per_worker;
    int8_t *quants = scratch->quants + (size_t)worker * scratch->quants_per_worker;
    int dim = a->layout->head_dim, n = 0;
    for (int row = t->row; row < t->row + t->n_rows; row++) {
        for (int head = t->head; head < t->head + t->n_heads; head++) {
            size_t at = ((size_t)row * (size_t)a->n_heads + (size_t)head) * (size_t)dim;
            size_t slot = (size_t)n;
            query *q = &queries[n++];
            *q = (query){.q = a->q + at, .out = a->out + at, .end = a->rows[row].position + 1};
            q->first = first_visible(a, a->rows[row].position);
            q->scores = scores + slot * (scratch->scores_per_worker / MAX_QUERIES);
            if (a->layout->type == ML_KV_Q8) {
                int8_t *own = quants + slot * (scratch->quants_per_worker / MAX_QUERIES);
                ml_quantize_head(own, &q->scale, q->q, dim);
                q->quants = own;
            }
        }
    }
    return n;
}

static void run_task(const ml_attention *a, const task *t, int worker)
{
    query queries[MAX_QUERIES];
    int n = set_queries(a, t, worker, queries);
    /* Rows are in order: the first sees the earliest position, the last the latest. */
    int first = first_visible(a, a->rows[t->row].position) / ML_KV_PAGE;
    int last = a->rows[t->row + t->n_rows - 1].position / ML_KV_PAGE;
    for (int page = first; page <= last; page++)
        visit_page(a, queries, n, t, page, ML_KV_KEYS);
    for (int i = 0; i < n; i++)
        finish_scores(a, &queries[i]);
    for (int page = first; page <= last; page++)
        visit_page(a, queries, n, t, page, ML_KV_VALUES);
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
