/* matvec.c: which kernel multiplies which matrix, and who computes which rows. */
#include "matvec.h"

#include "ml_config.h"

#if defined(ML_HAS_PACK)
enum {
    TILE_ROWS = ML_TILE_TOKENS,
    TILE_BYTES = ML_TILE_X_BYTES,
    TILE_SUMS = ML_TILE_SUMS,
    PACKED_GRAIN = ML_PACK_GROUP
};
#else
enum { TILE_ROWS = 1, TILE_BYTES = 1, TILE_SUMS = 1, PACKED_GRAIN = 1 };
#endif

enum { ROW_MAJOR_GRAIN = 4, CHUNK_BYTES = 1 << 14 };

int ml_quantized_grain(const ml_quantized *x)
{
    return x->tiled ? TILE_ROWS : 1;
}

void ml_quantized_carve(ml_quantized *x, ml_arena *arena, bool tiled, int rows, int widest)
{
    size_t n = ((size_t)rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    size_t blocks = (size_t)widest / ML_BLOCK;
    *x = (ml_quantized){.tiled = tiled};
    x->quants = ml_arena_take(arena, n, (size_t)widest);
    x->scales = ml_arena_take(arena, n, blocks * sizeof(float));
    x->sums = ml_arena_take(arena, n, blocks * sizeof(int32_t));
    if (tiled) {
        x->tile_quants = ml_arena_take(arena, n, blocks * TILE_BYTES);
        x->tile_scales = ml_arena_take(arena, n, blocks * sizeof(float));
        x->tile_sums = ml_arena_take(arena, n, blocks * TILE_SUMS * sizeof(int32_t));
    }
}

void ml_quantize_row(ml_quantized *x, int row, const float *values)
{
    size_t start = (size_t)row * (size_t)x->cols;
    size_t block = start / ML_BLOCK;
    ml_k_quantize_q8(x->quants + start, x->scales + block, x->sums + block, values, x->cols);
    for (int i = 0; x->squares && i < x->cols; i++)
        x->squares[i] += (double)values[i] * (double)values[i];
}

void ml_quantized_arrange(ml_quantized *x, int first, int last)
{
#if defined(ML_HAS_PACK)
    size_t block = (size_t)first * (size_t)x->cols / ML_BLOCK;
    if (x->tiled)
        ml_k_tile_q8(x->tile_quants + block * TILE_BYTES, x->tile_scales + block,
                     x->tile_sums + block * TILE_SUMS, x->quants + block * ML_BLOCK, x->scales + block,
                     x->sums + block, x->cols, last - first);
#else
    (void)x, (void)first, (void)last;
#endif
}

static int grain_of(const ml_matrix *matrix)
{
    return matrix->packed ? PACKED_GRAIN : ROW_MAJOR_GRAIN;
}

#if defined(ML_HAS_PACK)
static void packed_rows(const ml_product *p, const ml_quantized *x, int r0, int r1)
{
    const ml_matrix *m = p->matrix;
    const int8_t *q = x->tile_quants;
    const float *d = x->tile_scales;
    const int32_t *s = x->tile_sums;
    bool q8 = m->wtype == ML_WTYPE_Q8_0;
#if ML_PACK_F16_SCALES
    if (m->packed_f16) {
        if (x->rows == 1)
            (q8 ? ml_k_matvec_q8_pk_f16 : ml_k_matvec_q4_pk_f16)(p->y, m->packed, m->packed_scales, q, d, s,
                                                                 x->cols, r0, r1);
        else
            (q8 ? ml_k_matmul_q8_pk_f16 : ml_k_matmul_q4_pk_f16)(p->y, p->stride, m->packed, m->packed_scales,
                                                                 q, d, s, x->cols, x->rows, r0, r1);
        return;
    }
#endif
    if (x->rows == 1)
        (q8 ? ml_k_matvec_q8_pk : ml_k_matvec_q4_pk)(p->y, m->packed, m->packed_scales, q, d, s, x->cols, r0,
                                                     r1);
    else
        (q8 ? ml_k_matmul_q8_pk : ml_k_matmul_q4_pk)(p->y, p->stride, m->packed, m->packed_scales, q, d, s,
                                                     x->cols, x->rows, r0, r1);
}
#endif

static void row_major_rows(const ml_product *p, const ml_quantized *x, int r0, int r1)
{
    const ml_matrix *m = p->matrix;
    size_t cols = (size_t)x->cols, blocks = cols / ML_BLOCK;
    for (int row = 0; row < x->rows; row++) {
        float *y = p->y + (size_t)row * p->stride;
        const int8_t *q = x->quants + (size_t)row * cols;
        const float *d = x->scales + (size_t)row * blocks;
        const int32_t *s = x->sums + (size_t)row * blocks;
        if (m->wtype == ML_WTYPE_Q8_0)
            ml_k_matvec_q8(y, m->quants, m->scales, q, d, s, x->cols, r0, r1);
        else
            ml_k_matvec_q4(y, m->quants, m->scales, q, d, s, x->cols, r0, r1);
    }
}

static void product_rows(const ml_product *p, const ml_quantized *x, int r0, int r1)
{
#if defined(ML_HAS_PACK)
    if (p->matrix->packed) {
        packed_rows(p, x, r0, r1);
        return;
    }
#endif
    /* Weights that stay in the first cache level while all activations pass. */
    int chunk = CHUNK_BYTES / x->cols / ROW_MAJOR_GRAIN * ROW_MAJOR_GRAIN;
    if (x->rows == 1)
        chunk = r1 - r0;
    else if (chunk < ROW_MAJOR_GRAIN)
        chunk = ROW_MAJOR_GRAIN;
    for (int r = r0; r < r1; r += chunk)
        row_major_rows(p, x, r, r1 - r < chunk ? r1 : r + chunk);
}

typedef struct products_job {
    const ml_quantized *x;
    const ml_product *products;
    int count;
} products_job;

static int groups_of(const ml_matrix *matrix)
{
    int grain = grain_of(matrix);
    return (int)((matrix->rows + (uint32_t)grain - 1) / (uint32_t)grain);
}

/* All products' row groups in one line, of which each worker takes a part. */
static void run_products(void *context, int worker, int workers)
{
    const products_job *job = context;
    int groups = 0, start, end;
    for (int i = 0; i < job->count; i++)
        groups += groups_of(job->products[i].matrix);
    ml_split(groups, 1, worker, workers, &start, &end);
    int before = 0;
    for (int i = 0; i < job->count && before < end; i++) {
        const ml_matrix *matrix = job->products[i].matrix;
        int own = groups_of(matrix), grain = grain_of(matrix);
        int first = start > before ? start - before : 0;
        int last = end - before < own ? end - before : own;
        if (first < last) {
            int r1 = last == own ? (int)matrix->rows : last * grain;
            product_rows(&job->products[i], job->x, first * grain, r1);
        }
        before += own;
    }
}

static int64_t work_of(const ml_matrix *matrix, const ml_quantized *x)
{
    return (int64_t)matrix->rows * x->cols * x->rows;
}

static void run(ml_pool *pool, ml_job job, void *context, int64_t work)
{
    if (work < ML_PARALLEL_WORK)
        job(context, 0, 1);
    else
        ml_pool_run(pool, job, context);
}

void ml_products_run(ml_pool *pool, const ml_quantized *x, const ml_product *products, int count)
{
    products_job job = {x, products, count};
    int64_t work = 0;
    for (int i = 0; i < count; i++)
        work += work_of(products[i].matrix, x);
    run(pool, run_products, &job, work);
}

typedef struct gated_job {
    const ml_quantized *x;
    const ml_gated *gated;
} gated_job;

static void run_gated(void *context, int worker, int workers)
{
    const gated_job *job = context;
    const ml_gated *gated = job->gated;
    int r0, r1;
    ml_split((int)gated->gate.matrix->rows, grain_of(gated->gate.matrix), worker, workers, &r0, &r1);
    if (r0 == r1)
        return;
    product_rows(&gated->gate, job->x, r0, r1);
    product_rows(&gated->up, job->x, r0, r1);
    for (int row = 0; row < job->x->rows; row++) {
        float *gate = gated->gate.y + (size_t)row * gated->gate.stride + r0;
        gated->activate(gate, gated->up.y + (size_t)row * gated->up.stride + r0, r1 - r0);
    }
}

void ml_gated_run(ml_pool *pool, const ml_quantized *x, const ml_gated *gated)
{
    gated_job job = {x, gated};
    run(pool, run_gated, &job, work_of(gated->gate.matrix, x) + work_of(gated->up.matrix, x));
}
