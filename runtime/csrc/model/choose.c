/*
 * choose.c: choices of tokens, each by one worker: what changes the logits, the sampler, log-probabilities. A
 * choice's bits depend on nothing but what it is given.
 */
#include "../core/detmath.h"
#include "engine.h"

enum { LANES = 16 };

typedef struct choose_job {
    const ml_engine *engine;
    ml_choice *choices;
    int32_t count;
} choose_job;

static bool changes(const ml_choice *c)
{
    return (c->seen && c->repeat != 1.0f) || c->counts || c->n_bias > 0 || c->allowed;
}

static void adjust(const ml_choice *c, float *logits, int32_t vocab)
{
    for (int32_t i = 0; c->seen && i < vocab; i++)
        if (c->seen[i])
            logits[i] = logits[i] > 0.0f ? logits[i] / c->repeat : logits[i] * c->repeat;
    for (int32_t i = 0; c->counts && i < vocab; i++)
        if (c->counts[i] > 0)
            logits[i] = (logits[i] - c->presence) - c->frequency * (float)c->counts[i];
    for (int32_t i = 0; i < c->n_bias; i++)
        logits[c->bias_ids[i]] += c->bias[i];
    for (int32_t i = 0; c->allowed && i < vocab; i++)
        if (!(c->allowed[i / 32] >> (i % 32) & 1))
            logits[i] = -INFINITY;
}

static float largest_of(const float *logits, int32_t vocab)
{
    float largest = -INFINITY;
    for (int32_t i = 0; i < vocab; i++)
        largest = logits[i] > largest ? logits[i] : largest;
    return largest;
}

/* log of the sum of exp(logit - largest): 16 partial sums, folded by halves. */
static double log_sum(const float *logits, int32_t vocab, double largest)
{
    double parts[LANES] = {0};
    int32_t whole = vocab - vocab % LANES;
    for (int32_t i = 0; i < whole; i += LANES)
        for (int j = 0; j < LANES; j++)
            parts[j] += ml_exp((double)logits[i + j] - largest);
    for (int32_t i = whole; i < vocab; i++)
        parts[i - whole] += ml_exp((double)logits[i] - largest);
    for (int half = LANES / 2; half >= 1; half /= 2)
        for (int j = 0; j < half; j++)
            parts[j] += parts[j + half];
    return ml_log(parts[0]);
}

/* The n best, in order; returns how many there are. */
static int32_t rank(const float *logits, int32_t vocab, int32_t n, int32_t *ids)
{
    int32_t count = 0;
    for (int32_t i = 0; n > 0 && i < vocab; i++) {
        if (logits[i] != logits[i] || (count == n && logits[i] <= logits[ids[n - 1]]))
            continue;
        int32_t at = count < n ? count++ : n - 1;
        for (; at > 0 && logits[i] > logits[ids[at - 1]]; at--)
            ids[at] = ids[at - 1];
        ids[at] = i;
    }
    return count;
}

static void measure(ml_choice *c, int32_t vocab)
{
    double largest = (double)largest_of(c->logits, vocab);
    double sum = log_sum(c->logits, vocab, largest);
    int32_t found = rank(c->logits, vocab, c->n_top, c->top_ids);
    for (int32_t i = 0; i < c->n_top; i++) {
        if (i >= found)
            c->top_ids[i] = -1; /* only where logits are NaN */
        c->top_logprobs[i] =
            i < found ? (float)(((double)c->logits[c->top_ids[i]] - largest) - sum) : -INFINITY;
    }
    c->logprob = (float)(((double)c->logits[c->token] - largest) - sum);
}

static void choose_part(void *context, int worker, int workers)
{
    const choose_job *job = context;
    int32_t vocab = job->engine->plan.vocab;
    float *adjusted = job->engine->buffers.adjusted + (size_t)worker * (size_t)vocab;
    uint32_t *ranks = job->engine->buffers.ranks + 2 * (size_t)worker * (size_t)vocab;
    for (int32_t i = worker; i < job->count; i += workers) {
        ml_choice *c = &job->choices[i];
        const float *logits = c->logits;
        if (c->sampler && changes(c)) {
            memcpy(adjusted, logits, (size_t)vocab * sizeof *logits);
            adjust(c, adjusted, vocab);
            logits = adjusted;
        }
        if (c->sampler)
            c->token = ml_sample(c->sampler, logits, vocab, ranks);
        if (c->n_top >= 0)
            measure(c, vocab);
    }
}

static ml_status check(const ml_choice *c, int32_t i, int32_t vocab, ml_error *error)
{
    if (c->n_top > vocab)
        return ml_fail(error, ML_E_ARGUMENT, "choice %d: n_top is %d, the model has %d tokens", i, c->n_top,
                       vocab);
    if (!c->sampler && (c->token < 0 || c->token >= vocab))
        return ml_fail(error, ML_E_ARGUMENT, "choice %d: token is %d, the model has tokens 0 to %d", i,
                       c->token, vocab - 1);
    for (int32_t j = 0; j < c->n_bias; j++)
        if (c->bias_ids[j] < 0 || c->bias_ids[j] >= vocab)
            return ml_fail(error, ML_E_ARGUMENT, "choice %d: bias on token %d, the model has tokens 0 to %d",
                           i, c->bias_ids[j], vocab - 1);
    return ML_OK;
}

ml_status ml_choose(ml_engine *engine, ml_choice *choices, int32_t n_choices, ml_error *error)
{
    for (int32_t i = 0; i < n_choices; i++) {
        ml_status status = check(&choices[i], i, engine->plan.vocab, error);
        if (status != ML_OK)
            return status;
    }
    ml_pool_run(engine->pool, choose_part, &(choose_job){engine, choices, n_choices});
    return ML_OK;
}
