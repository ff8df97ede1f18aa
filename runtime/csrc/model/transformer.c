/*
 * transformer.c: a forward step. Matrix products and attention are split over the pool inside ops/; what lies
 * between them is done row by row, also on the pool when there are many rows. Every row's arithmetic is its
 * own.
 */
#include "../ops/elementary.h"
#include "engine.h"
#include "ml_config.h"

/* What a row's element costs outside of products, in multiply-adds of a product. */
enum { ROW_WORK = 32 };

typedef struct rows_job {
    ml_engine *engine;
    void (*run)(const struct rows_job *job, int first, int last, float *scratch);
    int rows;
    const ml_layer_plan *layer;
    /* For join_rows: x += y, normalized first if there is a post-norm; then x is normalized and quantized. */
    bool add;
    const float *post_norm;
    const float *norm;
    /* For quantize_rows: the input, times the sigmoid of the gates if there are any. */
    const float *input;
    const float *gates;
} rows_job;

static void run_part(void *context, int worker, int workers)
{
    const rows_job *job = context;
    ml_engine *e = job->engine;
    int first, last;
    ml_split(job->rows, ml_quantized_grain(&e->buffers.quantized), worker, workers, &first, &last);
    if (first < last)
        job->run(job, first, last, e->buffers.scratch + (size_t)worker * (size_t)e->plan.widest);
}

static void run_rows(const rows_job *job)
{
    rows_job copy = *job;
    int64_t work = (int64_t)job->rows * job->engine->plan.dim * ROW_WORK;
    if (job->rows == 1 || job->engine->imatrix.on || work < ML_PARALLEL_WORK)
        run_part(&copy, 0, 1);
    else
        ml_pool_run(job->engine->pool, run_part, &copy);
}

static float *row_of(float *base, int row, int width)
{
    return base + (size_t)row * (size_t)width;
}

/* x = the token's embedding */
static void embed_row(const ml_plan *plan, const ml_matrix *embedding, uint32_t token, float *x)
{
    size_t blocks = (size_t)plan->dim / ML_BLOCK, start = token * blocks;
    for (size_t b = 0; b < blocks; b++) {
        float d = embedding->f16_scales ? ml_f16_to_f32(((const uint16_t *)embedding->scales)[start + b])
                                        : ((const float *)embedding->scales)[start + b];
        float *out = x + b * ML_BLOCK;
        if (embedding->wtype == ML_WTYPE_Q8_0) {
            const int8_t *q = (const int8_t *)embedding->quants + (start + b) * ML_BLOCK;
            for (int i = 0; i < ML_BLOCK; i++)
                out[i] = (float)q[i] * d;
        } else {
            const uint8_t *q = (const uint8_t *)embedding->quants + (start + b) * (ML_BLOCK / 2);
            for (int i = 0; i < ML_BLOCK / 2; i++) {
                out[i] = (float)((q[i] & 15) - 8) * d;
                out[i + ML_BLOCK / 2] = (float)((q[i] >> 4) - 8) * d;
            }
        }
    }
    for (int i = 0; plan->scales_embedding && i < plan->dim; i++)
        x[i] *= plan->embed_scale;
}

static void embed_rows(const rows_job *job, int first, int last, float *scratch)
{
    (void)scratch;
    ml_engine *e = job->engine;
    for (int row = first; row < last; row++)
        embed_row(&e->plan, &e->model.tok_emb, (uint32_t)e->buffers.tokens[row],
                  row_of(e->buffers.x, row, e->plan.dim));
}

/* The residual stream takes what a block computed, and becomes the next block's input. */
static void join_rows(const rows_job *job, int first, int last, float *scratch)
{
    ml_engine *e = job->engine;
    int dim = e->plan.dim;
    float eps = e->plan.norm_eps;
    for (int row = first; row < last; row++) {
        float *x = row_of(e->buffers.x, row, dim), *y = row_of(e->buffers.y, row, dim);
        if (job->post_norm)
            ml_k_rmsnorm(y, y, job->post_norm, dim, eps);
        if (job->add)
            ml_k_add(x, y, dim);
        ml_k_rmsnorm(scratch, x, job->norm, dim, eps);
        ml_quantize_row(&e->buffers.quantized, row, scratch);
    }
    ml_quantized_arrange(&e->buffers.quantized, first, last);
}

static void quantize_rows(const rows_job *job, int first, int last, float *scratch)
{
    ml_quantized *x = &job->engine->buffers.quantized;
    for (int row = first; row < last; row++) {
        const float *input = job->input + (size_t)row * (size_t)x->cols;
        if (job->gates) {
            const float *gates = job->gates + (size_t)row * (size_t)x->cols;
            for (int i = 0; i < x->cols; i++)
                scratch[i] = input[i] * ml_sigmoid(gates[i]);
            input = scratch;
        }
        ml_quantize_row(x, row, input);
    }
    ml_quantized_arrange(x, first, last);
}

static void norm_heads(float *x, const float *norm, int heads, const ml_plan *plan)
{
    for (int head = 0; head < heads; head++) {
        float *h = row_of(x, head, plan->head_dim);
        ml_k_rmsnorm(h, h, norm, plan->head_dim, plan->norm_eps);
    }
}

/* Biases, head norms and RoPE; then keys and values go into the cache. */
static void place_rows(const rows_job *job, int first, int last, float *scratch)
{
    (void)scratch;
    ml_engine *e = job->engine;
    const ml_plan *plan = &e->plan;
    const ml_layer_weights *w = job->layer->weights;
    for (int row = first; row < last; row++) {
        float *q = row_of(e->buffers.q, row, plan->q_dim);
        float *k = row_of(e->buffers.k, row, plan->kv_dim);
        float *v = row_of(e->buffers.v, row, plan->kv_dim);
        const ml_query_row *at = &e->buffers.rows[row];
        if (w->bq) {
            ml_k_add(q, w->bq, plan->q_dim);
            ml_k_add(k, w->bk, plan->kv_dim);
            ml_k_add(v, w->bv, plan->kv_dim);
        }
        if (w->q_norm) {
            norm_heads(q, w->q_norm, plan->n_heads, plan);
            norm_heads(k, w->k_norm, plan->n_kv_heads, plan);
        }
        if (job->layer->rope != ML_ROPE_NONE) {
            const ml_rope *rope = &e->ropes[job->layer->rope];
            ml_k_rope(q, k, row_of(rope->cosines, at->position, rope->pairs),
                      row_of(rope->sines, at->position, rope->pairs), plan->head_dim, plan->rot_dim,
                      plan->n_heads, plan->n_kv_heads);
        }
        if (e->kv.layout.type == ML_KV_Q8) {
            ml_rotate_heads(q, plan->n_heads, plan->head_dim, 1.0f / (float)ml_rotation_size(plan->head_dim));
            ml_rotate_heads(k, plan->n_kv_heads, plan->head_dim, 1.0f);
        }
        unsigned char *page = ml_kv_page(&e->kv, at->pages[at->position / ML_KV_PAGE]);
        ml_kv_store(&e->kv.layout, page, job->layer->kv_layer, at->position, k, v);
    }
}

/* Which input comes next: an importance matrix adds up its squares. */
static void expect(ml_engine *e, const ml_layer_plan *layer, int input)
{
    int index = layer ? (int)(layer - e->plan.layers) : e->plan.n_layers;
    e->buffers.quantized.squares = ml_imatrix_sums(&e->imatrix, &e->plan, index, input);
}

static void join(ml_engine *e, int rows, bool add, const float *post_norm, const float *norm)
{
    e->buffers.quantized.rows = rows;
    e->buffers.quantized.cols = e->plan.dim;
    run_rows(&(rows_job){
        .engine = e, .run = join_rows, .rows = rows, .add = add, .post_norm = post_norm, .norm = norm});
}

static void quantize(ml_engine *e, int rows, const float *input, const float *gates, int cols)
{
    e->buffers.quantized.rows = rows;
    e->buffers.quantized.cols = cols;
    run_rows(&(rows_job){.engine = e, .run = quantize_rows, .rows = rows, .input = input, .gates = gates});
}

static ml_product product(const ml_matrix *matrix, float *y)
{
    return (ml_product){matrix, y, matrix->rows};
}

/* The queries of all rows; keys and values in the cache. */
static void project(ml_engine *e, const ml_layer_plan *layer, int rows)
{
    const ml_layer_weights *w = layer->weights;
    ml_product products[4] = {product(&w->wq, e->buffers.q), product(&w->wk, e->buffers.k),
                              product(&w->wv, e->buffers.v)};
    bool gated = w->wg.rows > 0;
    if (gated)
        products[3] = product(&w->wg, e->buffers.gates);
    ml_products_run(e->pool, &e->buffers.quantized, products, gated ? 4 : 3);
    run_rows(&(rows_job){.engine = e, .run = place_rows, .rows = rows, .layer = layer});
    ml_profile_lap(&e->profile, ML_STAGE_QKV);
}

/* A linear layer's states take all rows; its gated outputs are in `gates`. */
static void recur(ml_engine *e, const ml_layer_plan *layer, int rows)
{
    const ml_layer_weights *w = layer->weights;
    ml_buffers *b = &e->buffers;
    const ml_product products[] = {product(&w->lqkv, b->mixed), product(&w->lz, b->gates),
                                   product(&w->lb, b->b), product(&w->la, b->a)};
    ml_products_run(e->pool, &b->quantized, products, 4);
    ml_profile_lap(&e->profile, ML_STAGE_QKV);
    ml_delta_run(e->pool, &(ml_delta){.sizes = &e->plan.delta,
                                      .scratch = &b->delta,
                                      .layer_offset = layer->state_offset,
                                      .conv = w->lconv,
                                      .dt_bias = w->dt_bias,
                                      .a_log = w->a_log,
                                      .norm = w->lnorm,
                                      .norm_eps = e->plan.norm_eps,
                                      .rows = b->states,
                                      .n_rows = rows,
                                      .mixed = b->mixed,
                                      .b = b->b,
                                      .a = b->a,
                                      .z = b->gates});
    ml_profile_lap(&e->profile, ML_STAGE_ATTENTION);
}

/* A layer's outputs come together. */
static void project_out(ml_engine *e, const ml_matrix *matrix)
{
    ml_products_run(e->pool, &e->buffers.quantized, &(ml_product){matrix, e->buffers.y, (size_t)e->plan.dim},
                    1);
    ml_profile_lap(&e->profile, ML_STAGE_WO);
}

static void attend(ml_engine *e, const ml_layer_plan *layer, int rows)
{
    ml_buffers *b = &e->buffers;
    ml_attention_run(e->pool, &(ml_attention){.layout = &e->kv.layout,
                                              .scratch = &b->attention,
                                              .pool = e->kv.pool,
                                              .layer = layer->kv_layer,
                                              .window = layer->window,
                                              .n_heads = e->plan.n_heads,
                                              .scale = e->plan.attn_scale,
                                              .softcap = e->plan.attn_softcap,
                                              .rows = b->rows,
                                              .n_rows = rows,
                                              .q = b->q,
                                              .out = b->q});
    ml_profile_lap(&e->profile, ML_STAGE_ATTENTION);
    expect(e, layer, ML_INPUT_OUT);
    quantize(e, rows, b->q, layer->weights->wg.rows > 0 ? b->gates : NULL, e->plan.q_dim);
}

static void feed_forward(ml_engine *e, const ml_layer_plan *layer, int rows)
{
    const ml_layer_weights *w = layer->weights;
    ml_buffers *b = &e->buffers;
    ml_gated_run(e->pool, &b->quantized,
                 &(ml_gated){product(&w->w1, b->gate), product(&w->w3, b->up), e->plan.activate});
    expect(e, layer, ML_INPUT_DOWN);
    quantize(e, rows, b->gate, NULL, e->plan.hidden_dim);
    ml_products_run(e->pool, &b->quantized, &(ml_product){&w->w2, b->y, (size_t)e->plan.dim}, 1);
    ml_profile_lap(&e->profile, ML_STAGE_FFN);
}

static void move_row(float *base, int to, int from, size_t width)
{
    if (width > 0)
        memcpy(base + (size_t)to * width, base + (size_t)from * width, width * sizeof(float));
}

/* After the last layer's keys, values or states are stored, only rows that want logits go on. Returns how
 * many. */
static int keep_wanted(ml_engine *e, const ml_layer_plan *layer, int n, int n_wanted)
{
    ml_buffers *b = &e->buffers;
    const ml_matrix *gates = layer->linear ? &layer->weights->lz : &layer->weights->wg;
    if (e->imatrix.on)
        return n; /* all go on, to the end of the layer */
    for (int i = 0; i < n_wanted; i++) {
        int row = b->wanted[i];
        if (row == i)
            continue;
        move_row(b->x, i, row, (size_t)e->plan.dim);
        move_row(b->q, i, row, layer->linear ? 0 : (size_t)e->plan.q_dim);
        move_row(b->gates, i, row, gates->rows);
        b->rows[i] = b->rows[row];
    }
    return n_wanted;
}

/* The same at the end of the last layer, for an importance matrix. */
static int keep_finished(ml_engine *e, int n, int n_wanted)
{
    ml_buffers *b = &e->buffers;
    for (int i = 0; i < n_wanted; i++) {
        move_row(b->x, i, b->wanted[i], b->wanted[i] == i ? 0 : (size_t)e->plan.dim);
        move_row(b->y, i, b->wanted[i], b->wanted[i] == i ? 0 : (size_t)e->plan.dim);
    }
    e->imatrix.layer_tokens += (uint64_t)n;
    e->imatrix.classifier_tokens += (uint64_t)n_wanted;
    return n_wanted;
}

/* Everything of a layer before its feed-forward network: what it adds is in `y`. Returns the rows that go on.
 */
static int mix(ml_engine *e, const ml_layer_plan *layer, int n, int n_wanted)
{
    const ml_layer_weights *w = layer->weights;
    if (layer->linear)
        recur(e, layer, n);
    else
        project(e, layer, n);
    if (layer == &e->plan.layers[e->plan.n_layers - 1])
        n = keep_wanted(e, layer, n, n_wanted);
    if (n == 0)
        return 0;
    if (layer->linear) {
        expect(e, layer, ML_INPUT_OUT);
        quantize(e, n, e->buffers.gates, NULL, (int)w->lz.rows);
    } else {
        attend(e, layer, n);
    }
    project_out(e, layer->linear ? &w->lout : &w->wo);
    return n;
}

typedef struct caps_job {
    float *logits;
    size_t count;
    float cap;
} caps_job;

static void run_caps(void *context, int worker, int workers)
{
    const caps_job *job = context;
    size_t first = job->count * (size_t)worker / (size_t)workers;
    size_t last = job->count * (size_t)(worker + 1) / (size_t)workers;
    for (size_t i = first; i < last; i++)
        job->logits[i] = ml_softcap(job->logits[i], job->cap);
}

static void norm_states(ml_engine *e, int n, float *states)
{
    for (int row = 0; row < n; row++)
        ml_k_rmsnorm(row_of(states, row, e->plan.dim), row_of(e->buffers.x, row, e->plan.dim),
                     e->model.final_norm, e->plan.dim, e->plan.norm_eps);
}

void ml_transformer_step(ml_engine *e, int n, int n_wanted, float *logits, float *states)
{
    ml_buffers *b = &e->buffers;
    ml_profile_start(&e->profile);
    run_rows(&(rows_job){.engine = e, .run = embed_rows, .rows = n});
    const float *post_norm = NULL;
    for (int i = 0; i < e->plan.n_layers; i++) {
        const ml_layer_plan *layer = &e->plan.layers[i];
        const ml_layer_weights *w = layer->weights;
        expect(e, layer, ML_INPUT_MIX);
        join(e, n, i > 0, post_norm, w->attn_norm);
        ml_profile_lap(&e->profile, ML_STAGE_OTHER);
        n = mix(e, layer, n, n_wanted);
        if (n == 0)
            return;
        expect(e, layer, ML_INPUT_FFN);
        join(e, n, true, w->post_attn_norm, w->ffn_norm);
        ml_profile_lap(&e->profile, ML_STAGE_OTHER);
        feed_forward(e, layer, n);
        post_norm = w->post_ffn_norm;
    }
    if (e->imatrix.on) {
        n = keep_finished(e, n, n_wanted);
        if (n == 0)
            return;
    }
    expect(e, NULL, 0);
    join(e, n, true, post_norm, e->model.final_norm);
    ml_profile_lap(&e->profile, ML_STAGE_OTHER);
    if (states) {
        norm_states(e, n, states);
        return;
    }
    ml_products_run(e->pool, &b->quantized, &(ml_product){&e->model.wcls, logits, (size_t)e->plan.vocab}, 1);
    if (e->plan.final_softcap > 0.0f)
        ml_pool_run(e->pool, run_caps,
                    &(caps_job){logits, (size_t)n * (size_t)e->plan.vocab, e->plan.final_softcap});
    ml_profile_lap(&e->profile, ML_STAGE_CLASSIFIER);
}
