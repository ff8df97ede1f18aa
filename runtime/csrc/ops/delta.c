/* delta.c: the convolution, the delta rule's update, and the gated norm of its outputs. */
#include "delta.h"

#include "elementary.h"
#include "matvec.h"

enum { CHUNK = 64, LINE = ML_ALIGN / sizeof(float) };

static size_t lines(size_t floats)
{
    return (floats + LINE - 1) / LINE * LINE;
}

static size_t window_floats(const ml_delta_sizes *s)
{
    return lines((size_t)(s->taps - 1) * (size_t)s->channels);
}

static size_t head_floats(const ml_delta_sizes *s)
{
    return (size_t)s->k_dim * (size_t)s->v_dim;
}

bool ml_delta_state_floats(const ml_delta_sizes *s, size_t *floats)
{
    size_t window, head, heads;
    return ml_size_mul((size_t)(s->taps - 1), (size_t)s->channels, &window) &&
           ml_size_mul((size_t)s->k_dim, (size_t)s->v_dim, &head) &&
           ml_size_mul(head, (size_t)s->v_heads, &heads) && ml_size_add(window, heads, floats) &&
           ml_size_add(*floats, 2 * (size_t)LINE, floats) && ((*floats = lines(window) + lines(heads)), true);
}

void ml_delta_carve(ml_delta_scratch *scratch, ml_arena *arena, int workers, const ml_delta_sizes *s)
{
    scratch->per_worker = lines(2 * (size_t)s->k_dim + 2 * (size_t)s->v_dim);
    scratch->rows = ml_arena_take(arena, (size_t)workers, scratch->per_worker * sizeof(float));
    scratch->query_weights = ml_arena_take(arena, (size_t)s->k_dim, sizeof(float));
    scratch->key_weights = ml_arena_take(arena, (size_t)s->k_dim, sizeof(float));
}

/* A vector's length is the square root of its size times its root mean square, which rmsnorm divides by. */
void ml_delta_fill(const ml_delta_scratch *scratch, const ml_delta_sizes *s)
{
    for (int i = 0; i < s->k_dim; i++) {
        scratch->query_weights[i] = (float)(1.0 / s->k_dim);
        scratch->key_weights[i] = (float)(1.0 / sqrt((double)s->k_dim));
    }
}

/* Up to CHUNK channels of one row: the convolution in place, the window moved on by one. */
static void convolve(const ml_delta *d, float *x, float *window, int first, int n)
{
    int taps = d->sizes->taps;
    size_t channels = (size_t)d->sizes->channels;
    float sums[CHUNK] = {0};
    const float *conv = d->conv + (size_t)first * (size_t)taps;
    for (int tap = 0; tap < taps; tap++) {
        bool last = tap == taps - 1;
        float *line = window + (size_t)tap * channels + first;
        const float *input = last ? x + first : line;
        for (int i = 0; i < n; i++)
            sums[i] = sums[i] + input[i] * conv[i * taps + tap];
        /* This line has been used: the next one's inputs are the older ones from now on. */
        if (!last)
            memcpy(line, tap == taps - 2 ? x + first : line + channels, (size_t)n * sizeof(float));
    }
    for (int i = 0; i < n; i++)
        x[first + i] = ml_silu(sums[i]);
}

static void run_convolution(void *context, int worker, int workers)
{
    const ml_delta *d = context;
    int start, end;
    ml_split(d->sizes->channels, LINE, worker, workers, &start, &end);
    size_t channels = (size_t)d->sizes->channels;
    for (int first = start; first < end; first += CHUNK) {
        int n = end - first < CHUNK ? end - first : CHUNK;
        for (int row = 0; row < d->n_rows; row++) {
            float *window = d->rows[row].state + d->layer_offset;
            convolve(d, d->mixed + (size_t)row * channels, window, first, n);
            if (!d->rows[row].checkpoint)
                continue;
            float *copy = d->rows[row].checkpoint + d->layer_offset;
            for (int tap = 0; tap < d->sizes->taps - 1; tap++)
                memcpy(copy + (size_t)tap * channels + first, window + (size_t)tap * channels + first,
                       (size_t)n * sizeof(float));
        }
    }
}

/* sums = S^T x for the decayed state. */
static void look_up(float *restrict sums, const float *restrict state, const float *restrict x, float decay,
                    int k_dim, int v_dim)
{
    for (int j = 0; j < v_dim; j++)
        sums[j] = 0.0f;
    for (int i = 0; i < k_dim; i++) {
        const float *line = state + (size_t)i * (size_t)v_dim;
        for (int j = 0; j < v_dim; j++)
            sums[j] = sums[j] + line[j] * decay * x[i];
    }
}

/* S = S * decay + k error^T; sums = S^T q. */
static void update(float *restrict sums, float *restrict state, const float *restrict k,
                   const float *restrict q, const float *restrict error, float decay, int k_dim, int v_dim)
{
    for (int j = 0; j < v_dim; j++)
        sums[j] = 0.0f;
    for (int i = 0; i < k_dim; i++) {
        float *line = state + (size_t)i * (size_t)v_dim;
        for (int j = 0; j < v_dim; j++) {
            line[j] = line[j] * decay + k[i] * error[j];
            sums[j] = sums[j] + line[j] * q[i];
        }
    }
}

/* One value head of one row. */
static void run_head(const ml_delta *d, int row, int head, float *scratch)
{
    const ml_delta_sizes *s = d->sizes;
    int keys = s->k_heads * s->k_dim, key_head = head / (s->v_heads / s->k_heads);
    float *q = scratch, *k = q + s->k_dim, *error = k + s->k_dim, *out = error + s->v_dim;
    const float *mixed = d->mixed + (size_t)row * (size_t)s->channels;
    const float *v = mixed + 2 * keys + head * s->v_dim;
    float epsilon = (float)(1e-6 / s->k_dim);
    ml_k_rmsnorm(q, mixed + key_head * s->k_dim, d->scratch->query_weights, s->k_dim, epsilon);
    ml_k_rmsnorm(k, mixed + keys + key_head * s->k_dim, d->scratch->key_weights, s->k_dim, epsilon);

    size_t gate = (size_t)row * (size_t)s->v_heads + (size_t)head;
    float beta = ml_sigmoid(d->b[gate]);
    float rate = -ml_exp_scalar(d->a_log[head]) * ml_softplus(d->a[gate] + d->dt_bias[head]);
    float decay = ml_exp_scalar(rate);
    size_t offset = d->layer_offset + window_floats(s) + (size_t)head * head_floats(s);
    float *state = d->rows[row].state + offset;
    look_up(out, state, k, decay, s->k_dim, s->v_dim);
    for (int j = 0; j < s->v_dim; j++)
        error[j] = (v[j] - out[j]) * beta;
    update(out, state, k, q, error, decay, s->k_dim, s->v_dim);
    if (d->rows[row].checkpoint)
        memcpy(d->rows[row].checkpoint + offset, state, head_floats(s) * sizeof(float));

    ml_k_rmsnorm(out, out, d->norm, s->v_dim, d->norm_eps);
    ml_k_silu_mul(d->z + gate * (size_t)s->v_dim, out, s->v_dim);
}

static void run_heads(void *context, int worker, int workers)
{
    const ml_delta *d = context;
    int first, last;
    ml_split(d->sizes->v_heads, 1, worker, workers, &first, &last);
    float *scratch = d->scratch->rows + (size_t)worker * d->scratch->per_worker;
    for (int head = first; head < last; head++)
        for (int row = 0; row < d->n_rows; row++)
            run_head(d, row, head, scratch);
}

static void run(ml_pool *pool, ml_job job, ml_delta *delta, int64_t work_per_row)
{
    if (work_per_row * delta->n_rows < ML_PARALLEL_WORK)
        job(delta, 0, 1);
    else
        ml_pool_run(pool, job, delta);
}

void ml_delta_run(ml_pool *pool, const ml_delta *delta)
{
    const ml_delta_sizes *s = delta->sizes;
    ml_delta job = *delta;
    run(pool, run_convolution, &job, (int64_t)s->channels * (s->taps + 16));
    run(pool, run_heads, &job, 4 * (int64_t)s->v_heads * s->k_dim * s->v_dim);
}
