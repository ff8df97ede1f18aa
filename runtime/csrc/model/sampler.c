/*
 * sampler.c: picks the next token. Weights are exp((logit - largest) / temperature), computed in double and
 * summed in a fixed order, so that a seed gives one text wherever the logits agree. The filters apply one
 * after the other: top-k, then top-p of what is left, then min-p relative to the best. Among equal logits the
 * lower id is the better one.
 */
#include "../core/detmath.h"
#include "../krafla.h"

typedef struct choice {
    const float *logits;
    int32_t vocab;
    double largest;
    double scale;   /* 1 / temperature */
    uint32_t *ids;  /* sorted, the best first; NULL while all tokens are in */
    uint32_t *room; /* for ids */
    float *weights; /* of the ids, or of all tokens */
    int32_t n;
} choice;

typedef bool (*ml_before)(const choice *c, uint32_t a, uint32_t b);

void ml_sampler_seed(ml_sampler *sampler, uint64_t seed)
{
    /* splitmix64: neighbouring seeds give unrelated states. */
    uint64_t z = seed + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    sampler->state = z ? z : 0x9e3779b97f4a7c15u; /* xorshift never leaves 0 */
}

/* Uniform in [0, 1), by xorshift64*. */
static double random_unit(ml_sampler *sampler)
{
    uint64_t x = sampler->state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    sampler->state = x;
    return (double)((x * 0x2545f4914f6cdd1du) >> 11) * 0x1p-53;
}

/* NaN never wins. */
static int32_t best_id(const float *logits, int32_t vocab)
{
    int32_t best = 0;
    float largest = -INFINITY;
    for (int32_t i = 0; i < vocab; i++) {
        if (logits[i] > largest) {
            largest = logits[i];
            best = i;
        }
    }
    return best;
}

static bool worse(const choice *c, uint32_t a, uint32_t b)
{
    return c->logits[a] < c->logits[b] || (c->logits[a] == c->logits[b] && a > b);
}

static bool better(const choice *c, uint32_t a, uint32_t b)
{
    return worse(c, b, a);
}

/* Restores a heap of the first n ids, the one before all others on top, after ids[at] has changed. */
static void sift_down(const choice *c, ml_before before, int32_t at, int32_t n)
{
    uint32_t id = c->ids[at];
    for (int32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(c, c->ids[child + 1], c->ids[child]))
            child++;
        if (!before(c, c->ids[child], id))
            break;
        c->ids[at] = c->ids[child];
    }
    c->ids[at] = id;
}

static void make_heap(const choice *c, ml_before before, int32_t n)
{
    for (int32_t i = n / 2 - 1; i >= 0; i--)
        sift_down(c, before, i, n);
}

/* Moves the top of a heap of n ids to its end; n - 1 are left. */
static void pop(const choice *c, ml_before before, int32_t n)
{
    uint32_t top = c->ids[0];
    c->ids[0] = c->ids[n - 1];
    c->ids[n - 1] = top;
    sift_down(c, before, 0, n - 1);
}

/* Heapsort: the worst moves to the end, and so on. */
static void sort_heap(const choice *c)
{
    for (int32_t n = c->n; n > 1; n--)
        pop(c, worse, n);
}

static float weight_of(const choice *c, float logit)
{
    double x = logit == logit ? (double)logit : -(double)INFINITY;
    return (float)ml_exp((x - c->largest) * c->scale);
}

/* The loop over all tokens is one that compilers vectorize. */
static void weigh(choice *c)
{
    for (int32_t i = 0; c->ids && i < c->n; i++)
        c->weights[i] = weight_of(c, c->logits[c->ids[i]]);
    if (c->ids)
        return;
    const float *logits = c->logits;
    float *weights = c->weights;
    double largest = c->largest, scale = c->scale;
    for (int32_t i = 0, n = c->n; i < n; i++) {
        double x = logits[i] == logits[i] ? (double)logits[i] : -(double)INFINITY;
        weights[i] = (float)ml_exp((x - largest) * scale);
    }
}

static double sum_of_weights(const choice *c)
{
    double parts[16] = {0};
    const float *weights = c->weights;
    int32_t whole = c->n - c->n % 16;
    for (int32_t i = 0; i < whole; i += 16)
        for (int j = 0; j < 16; j++)
            parts[j] += (double)weights[i + j];
    for (int32_t i = whole; i < c->n; i++)
        parts[i - whole] += (double)weights[i];
    for (int half = 8; half >= 1; half /= 2)
        for (int j = 0; j < half; j++)
            parts[j] += parts[j + half];
    return parts[0];
}

/* The k best, in a heap whose top is replaced by whatever is better. */
static void filter_top_k(choice *c, int32_t k)
{
    c->ids = c->room;
    c->n = 0;
    for (int32_t i = 0; i < c->vocab; i++) {
        if (c->logits[i] != c->logits[i])
            continue;
        uint32_t id = (uint32_t)i;
        if (c->n < k) {
            c->ids[c->n++] = id;
            if (c->n == k)
                make_heap(c, worse, k);
        } else if (worse(c, c->ids[0], id)) {
            c->ids[0] = id;
            sift_down(c, worse, 0, k);
        }
    }
    if (c->n < k)
        make_heap(c, worse, c->n);
    sort_heap(c);
}

/* Turns the order of n ids around. */
static void reverse(uint32_t *ids, int32_t n)
{
    for (int32_t i = 0, j = n - 1; i < j; i++, j--) {
        uint32_t id = ids[i];
        ids[i] = ids[j];
        ids[j] = id;
    }
}

/*
 * The fewest best of all tokens that together reach p of the weight, in order. Those below (1 - p) / n of it
 * weigh less than 1 - p together and cannot be among them; of the rest, a heap gives the best one by one.
 */
static void take_likely(choice *c, double p, double sum)
{
    double least = (1.0 - p) * sum / c->n, reached = 0.0;
    int32_t n = 0, left;
    for (int32_t i = 0; i < c->n; i++)
        if (c->logits[i] == c->logits[i] && (double)c->weights[i] >= least)
            c->room[n++] = (uint32_t)i;
    c->ids = c->room;
    make_heap(c, better, n);
    for (left = n; left > 0 && reached < p * sum; left--) {
        reached += (double)c->weights[c->ids[0]];
        pop(c, better, left);
    }
    c->ids += left;
    c->n = n - left;
    reverse(c->ids, c->n);
    weigh(c);
}

/* The fewest best tokens that together reach p of the weight. */
static void filter_top_p(choice *c, double p)
{
    double sum = sum_of_weights(c), reached = 0.0;
    if (!c->ids) {
        take_likely(c, p, sum);
        return;
    }
    for (int32_t i = 0; i < c->n; i++) {
        reached += (double)c->weights[i];
        if (reached >= p * sum) {
            c->n = i + 1;
            return;
        }
    }
}

/* The best token weighs 1. */
static void filter_min_p(choice *c, float p)
{
    for (int32_t i = 0; i < c->n; i++)
        if (c->weights[i] < p)
            c->weights[i] = 0.0f;
}

/* A token with the probability of its weight, or -1 if nothing weighs anything. */
static int32_t draw(const choice *c, double unit)
{
    double target = unit * sum_of_weights(c), reached = 0.0;
    int32_t chosen = -1;
    for (int32_t i = 0; i < c->n; i++) {
        if (c->weights[i] == 0.0f)
            continue;
        chosen = i; /* the last one if rounding leaves the target unreached */
        reached += (double)c->weights[i];
        if (target < reached)
            break;
    }
    return chosen >= 0 && c->ids ? (int32_t)c->ids[chosen] : chosen;
}

int32_t ml_sample(ml_sampler *sampler, const float *logits, int32_t vocab, uint32_t *scratch)
{
    int32_t best = best_id(logits, vocab);
    float largest = logits[best];
    if (!(sampler->temperature > 0.0f) || !(largest - largest == 0.0f))
        return best; /* also if the largest is infinite, or all are NaN */
    choice c = {
        .logits = logits,
        .vocab = vocab,
        .largest = (double)largest,
        .scale = 1.0 / (double)sampler->temperature,
        .room = scratch,
        .weights = (float *)(void *)(scratch + vocab),
        .n = vocab,
    };
    if (sampler->top_k > 0 && sampler->top_k < vocab)
        filter_top_k(&c, sampler->top_k);
    weigh(&c);
    if (sampler->top_p < 1.0f)
        filter_top_p(&c, (double)sampler->top_p);
    if (sampler->min_p > 0.0f)
        filter_min_p(&c, sampler->min_p);
    int32_t token = draw(&c, random_unit(sampler));
    return token >= 0 ? token : best;
}
