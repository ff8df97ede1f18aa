/*
 * test_kernels.c: every kernel that this build binds against its scalar twin, bit for bit, on the cases of
 * the op registry: plain and extreme inputs, aligned and one element off, canaries around every array. The
 * inputs come from integers alone, so the printed hash of an op's outputs is the same for every ISA of a
 * class.
 */
#include "main_guard.h"
#include "op_table.h"

#include "core/pack.h"

#include <stdio.h>
#include <stdlib.h>

enum { MARGIN = 128, CANARY = 0xa5, UNWRITTEN = 0x5b };
enum { PLAIN, WILD, SPECIAL, TINY, TIES, MASKED, FLAVOURS };
static const char *const flavour_names[] = {"plain", "wild", "special", "tiny", "ties", "masked"};

/* ---- Numbers ---- */

typedef struct random_state {
    uint64_t state;
} random_state;

/* splitmix64 */
static uint64_t random_bits(random_state *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t below(random_state *r, uint32_t limit)
{
    return (uint32_t)((random_bits(r) >> 32) * limit >> 32);
}

static float plain_float(random_state *r)
{
    return (float)(int32_t)(random_bits(r) >> 32) * 0x1p-29f;
}

/* Any sign and mantissa, an exponent field in [low, low + range). */
static float float_between(random_state *r, uint32_t low, uint32_t range)
{
    uint32_t bits = (uint32_t)random_bits(r) & 0x807fffffu;
    return ml_float_of(bits | (low + below(r, range)) << 23);
}

static float special_float(random_state *r)
{
    static const uint32_t bits[] = {
        0x7fc00000,
        0x7f800000,
        0xff800000,
        0x00000000,
        0x80000000,
        0x0da24260 /* 1e-30 */,
        0x00001be0 /* 1e-41 */,
        0x80000001,
        0x7f7fc99e /* 3.4e38 */,
        0x42b10000 /* 88.5 */,
        0xc2aecccd /* -87.4 */,
        0xc2d00000 /* -104 */,
    };
    return ml_float_of(bits[below(r, sizeof bits / sizeof *bits)]);
}

static void fill_floats(random_state *r, float *x, size_t count, int flavour)
{
    uint32_t low = below(r, 30); /* of a tiny array */
    for (size_t i = 0; i < count; i++) {
        x[i] = plain_float(r);
        if (flavour == WILD)
            x[i] = float_between(r, 0, 227);
        else if (flavour == SPECIAL && below(r, count < 8 ? 2 : (uint32_t)count / 4) == 0)
            x[i] = special_float(r);
        else if (flavour == TINY)
            x[i] = float_between(r, low, 2);
        else if (flavour == TIES)
            x[i] = (float)((int)below(r, 509) - 254) * 0.5f;
        else if (flavour == MASKED)
            x[i] = ml_float_of(below(r, 20) ? 0xff800000u : 0x7fc00000u);
    }
    if (flavour == MASKED && below(r, 2)) /* without NaN the row is masked altogether */
        for (size_t i = 0; i < count; i++)
            x[i] = ml_float_of(0xff800000u);
}

static float scale(random_state *r, int flavour)
{
    static const float extreme[] = {0.0f, 1e-30f, 65504.0f, 6e-8f, -65504.0f, 1.0f};
    float usual = (float)(int32_t)(random_bits(r) >> 32) * 0x1p-37f;
    return flavour == PLAIN || below(r, 2) ? usual : extreme[below(r, 6)];
}

/* Quants from -127 to 127; special ones are the extremes, of one sign in half of the blocks. */
static void fill_quants(random_state *r, int8_t *q, size_t count, int flavour)
{
    bool mixed = false;
    int sign = 1;
    for (size_t i = 0; i < count; i++) {
        if (i % ML_BLOCK == 0) {
            mixed = below(r, 2) != 0;
            sign = below(r, 2) ? 1 : -1;
        }
        int extreme = mixed && below(r, 2) ? -127 * sign : 127 * sign;
        q[i] = (int8_t)(flavour == SPECIAL ? extreme : (int)below(r, 255) - 127);
    }
}

static void fill_nibbles(random_state *r, uint8_t *q, size_t count, int flavour)
{
    static const uint8_t extreme[] = {0x00, 0xff, 0x0f, 0xf0};
    for (size_t i = 0; i < count; i++)
        q[i] = flavour == SPECIAL ? extreme[below(r, 4)] : (uint8_t)random_bits(r);
}

/* ---- Arrays between canaries ---- */

typedef struct guarded {
    unsigned char *raw, *data;
    size_t bytes, whole;
} guarded;

static guarded guard(size_t bytes, size_t off)
{
    guarded g = {.bytes = bytes, .whole = bytes + 2 * MARGIN + 2 * ML_ALIGN};
    g.raw = malloc(g.whole);
    if (!g.raw) {
        fprintf(stderr, "test_kernels: no memory for %zu bytes\n", g.whole);
        exit(ML_EXIT_NOMEM);
    }
    memset(g.raw, CANARY, g.whole);
    uintptr_t start = ((uintptr_t)g.raw + MARGIN + ML_ALIGN - 1) & ~(uintptr_t)(ML_ALIGN - 1);
    g.data = g.raw + (start - (uintptr_t)g.raw) + off;
    memset(g.data, UNWRITTEN, bytes);
    return g;
}

static bool intact(const guarded *g)
{
    for (unsigned char *p = g->raw; p < g->raw + g->whole; p++)
        if ((p < g->data || p >= g->data + g->bytes) && *p != CANARY)
            return false;
    return true;
}

/* ---- A case: inputs in file order ---- */

typedef struct inputs {
    void *arrays[ML_OP_MAX_ARGS]; /* by argument of the op (row-major twin for packed ops) */
    float values[ML_OP_MAX_ARGS];
} inputs;

static void *reserve(size_t bytes)
{
    return guard(bytes, 0).data; /* lives as long as the program: cases are small */
}

/* Block sums of all activations. */
static int32_t *sums_of(const int8_t *q, size_t blocks)
{
    int32_t *sums = reserve(blocks * sizeof *sums);
    for (size_t b = 0; b < blocks; b++) {
        sums[b] = 0;
        for (int j = 0; j < ML_BLOCK; j++)
            sums[b] += q[b * ML_BLOCK + (size_t)j];
    }
    return sums;
}

static void fill(random_state *r, void *array, const ml_op_arg *arg, size_t count, int flavour)
{
    float *floats = array;
    uint16_t *halves = array;
    switch (arg->data) {
    case ML_DATA_F32:
        fill_floats(r, floats, count, flavour);
        break;
    case ML_DATA_F16: {
        float *wide = reserve(count * sizeof *wide);
        fill_floats(r, wide, count, flavour);
        for (size_t i = 0; i < count; i++)
            halves[i] = flavour == WILD ? (uint16_t)random_bits(r) : ml_f32_to_f16(wide[i]);
        break;
    }
    case ML_DATA_SCALES:
        for (size_t i = 0; i < count; i++)
            floats[i] = scale(r, flavour);
        break;
    case ML_DATA_QUANTS:
    case ML_DATA_Q8_QUANTS:
        fill_quants(r, array, count, flavour);
        break;
    case ML_DATA_Q4_QUANTS:
        fill_nibbles(r, array, count, flavour);
        break;
    default:
        fprintf(stderr, "test_kernels: no inputs known for %s\n", arg->name);
        exit(ML_EXIT_INTERNAL);
    }
}

static random_state seeded(const char *name, size_t index, int flavour)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return (random_state){hash + index * 1000003u + (uint64_t)flavour};
}

/* The inputs of an op without packed data; outputs get no array here. */
static inputs make_inputs(const ml_op *op, const ml_op_sizes *s, size_t index, int flavour)
{
    random_state r = seeded(op->name, index, flavour);
    inputs in = {0};
    for (int i = 0; i < op->n_args; i++) {
        const ml_op_arg *arg = &op->args[i];
        size_t count = op->count(s, i);
        if (arg->role == ML_ROLE_VALUE)
            in.values[i] = flavour == WILD ? 0.0f : flavour == SPECIAL ? 65504.0f : 1e-5f;
        if (arg->role != ML_ROLE_IN && arg->role != ML_ROLE_INOUT)
            continue;
        in.arrays[i] =
            arg->data == ML_DATA_SUMS ? sums_of(in.arrays[i - 2], count) : reserve(count * arg->element);
        if (arg->data != ML_DATA_SUMS)
            fill(&r, in.arrays[i], arg, count, flavour);
    }
    return in;
}

/* ---- Comparing ---- */

typedef struct tally {
    uint64_t hash;
    int cases, failures;
} tally;

static bool equal_bits(float a, float b)
{
    return ml_bits_of(a) == ml_bits_of(b) || (isnan(a) && isnan(b));
}

static void add_to_hash(tally *t, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        t->hash = (t->hash ^ p[i]) * 0x100000001b3u;
}

/* Outputs against what the twin wrote; any NaN equals any NaN. */
static void compare(tally *t, const char *label, const ml_op_arg *arg, const void *found, const void *wanted,
                    size_t count)
{
    const float *f = found, *w = wanted;
    const unsigned char *fb = found, *wb = wanted;
    size_t different = 0, first = 0;
    for (size_t i = count; i-- > 0;) {
        bool same = arg->data == ML_DATA_F32
                        ? equal_bits(f[i], w[i])
                        : memcmp(fb + i * arg->element, wb + i * arg->element, arg->element) == 0;
        different += !same;
        first = same ? first : i;
    }
    if (!different)
        return;
    t->failures++;
    if (arg->data == ML_DATA_F32)
        printf("FAIL %s: %s[%zu] is %.9g (%08x), expected %.9g (%08x); %zu of %zu differ\n", label, arg->name,
               first, (double)f[first], (unsigned)ml_bits_of(f[first]), (double)w[first],
               (unsigned)ml_bits_of(w[first]), different, count);
    else
        printf("FAIL %s: %s[%zu]; %zu of %zu differ\n", label, arg->name, first, different, count);
}

static void hash_output(tally *t, const ml_op_arg *arg, const void *data, size_t count)
{
    if (arg->data != ML_DATA_F32) {
        add_to_hash(t, data, count * arg->element);
        return;
    }
    const float *x = data;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = isnan(x[i]) ? 0x7fc00000u : ml_bits_of(x[i]);
        add_to_hash(t, &bits, sizeof bits);
    }
}

/* Calls a kernel on guarded copies; keeps outputs in *results (one per argument) and checks the rest. */
static void call(tally *t, const char *label, const ml_op *op, const ml_op_sizes *s, const inputs *in,
                 bool scalar, bool off, guarded *results)
{
    ml_op_call c = {0};
    for (int i = 0; i < op->n_args; i++) {
        const ml_op_arg *arg = &op->args[i];
        c.values[i] = in->values[i];
        if (!arg->element)
            continue;
        results[i] = guard(op->count(s, i) * arg->element, off ? arg->element : 0);
        if (in->arrays[i])
            memcpy(results[i].data, in->arrays[i], results[i].bytes);
        c.arrays[i] = results[i].data;
    }
    (scalar ? op->scalar : op->bound)(&c, s);
    for (int i = 0; i < op->n_args; i++) {
        const ml_op_arg *arg = &op->args[i];
        if (!arg->element)
            continue;
        if (!intact(&results[i])) {
            t->failures++;
            printf("FAIL %s: writes around %s\n", label, arg->name);
        }
        if (arg->role == ML_ROLE_IN && memcmp(results[i].data, in->arrays[i], results[i].bytes) != 0) {
            t->failures++;
            printf("FAIL %s: writes to its input %s\n", label, arg->name);
        }
    }
}

static void release(guarded *results)
{
    for (int i = 0; i < ML_OP_MAX_ARGS; i++)
        free(results[i].raw);
}

/* Both kernels on the same inputs, each in its own layout. */
static void test_both(tally *t, const char *label, const ml_op *op, const ml_op_sizes *s, const inputs *plain,
                      const inputs *in)
{
    guarded wanted[ML_OP_MAX_ARGS] = {0};
    call(t, label, op, s, plain, true, false, wanted);
    for (int off = 0; off < 2; off++) {
        guarded found[ML_OP_MAX_ARGS] = {0};
        call(t, label, op, s, in, false, off != 0, found);
        for (int i = 0; i < op->n_args; i++) {
            const ml_op_arg *arg = &op->args[i];
            if (arg->role != ML_ROLE_OUT && arg->role != ML_ROLE_INOUT)
                continue;
            compare(t, label, arg, found[i].data, wanted[i].data, op->count(s, i));
            if (!off)
                hash_output(t, arg, found[i].data, op->count(s, i));
        }
        release(found);
    }
    release(wanted);
}

static int argument_of(const ml_op *op, ml_op_data data)
{
    for (int i = 0; i < op->n_args; i++)
        if (op->args[i].data == data)
            return i;
    return -1;
}

/* ---- Packed operations ---- */

#if defined(ML_HAS_PACK)

/* The arguments of the row-major twin and of tile_q8, by position. */
enum { TWIN_Y, TWIN_WQ, TWIN_WD, TWIN_XQ, TWIN_XD, TWIN_XS };
enum { TILE_XT, TILE_XD, TILE_XS, TILE_FROM_XQ };

typedef struct packed_case {
    const ml_op *op, *twin;
    ml_op_sizes s;    /* of the op; tokens is 1 for a matvec */
    uint8_t *weights; /* row-major */
    float *scales;    /* row-major, exactly what the op reads */
    int8_t *x;        /* [tokens][cols] */
    float *x_scales;
    int32_t *x_sums;
    bool q4, half;
} packed_case;

static packed_case make_packed(const ml_op *op, const ml_op_sizes *sizes, size_t index, int flavour)
{
    packed_case p = {.op = op, .twin = ml_op_find(op->twin), .s = *sizes};
    p.s.tokens = sizes->tokens ? sizes->tokens : 1;
    p.q4 = strstr(op->name, "_q4") != NULL;
    p.half = strstr(op->name, "_f16") != NULL;
    size_t blocks = p.s.cols / ML_BLOCK, all = p.s.rows * blocks;
    /* Seeded by the twin: f32 and f16 scales, matvec and matmul get the same quants. */
    random_state r = seeded(p.twin->name, index, flavour);
    p.weights = reserve(all * (p.q4 ? 16 : 32));
    if (p.q4)
        fill_nibbles(&r, p.weights, all * 16, flavour);
    else
        fill_quants(&r, (int8_t *)p.weights, all * 32, flavour);
    p.x = reserve(p.s.tokens * p.s.cols);
    fill_quants(&r, p.x, p.s.tokens * p.s.cols, flavour);
    p.x_sums = sums_of(p.x, p.s.tokens * blocks);
    p.x_scales = reserve(p.s.tokens * blocks * sizeof(float));
    for (size_t i = 0; i < p.s.tokens * blocks; i++)
        p.x_scales[i] = fabsf(scale(&r, flavour));
    p.scales = reserve(all * sizeof(float));
    for (size_t i = 0; i < all; i++) {
        p.scales[i] = scale(&r, flavour);
        if (p.half)
            p.scales[i] = ml_f16_to_f32(ml_f32_to_f16(p.scales[i]));
    }
    return p;
}

/* y of the scalar twin, token by token; what the op does not write stays unwritten. */
static float *packed_wanted(tally *t, const char *label, const packed_case *p, size_t y_bytes)
{
    const ml_op_sizes *s = &p->s;
    size_t blocks = s->cols / ML_BLOCK, stride = s->y_stride ? s->y_stride : s->rows;
    float *y = reserve(y_bytes);
    for (size_t token = 0; token < s->tokens; token++) {
        inputs in = {.arrays = {[TWIN_WQ] = p->weights,
                                [TWIN_WD] = p->scales,
                                [TWIN_XQ] = p->x + token * s->cols,
                                [TWIN_XD] = p->x_scales + token * blocks,
                                [TWIN_XS] = p->x_sums + token * blocks}};
        guarded results[ML_OP_MAX_ARGS] = {0};
        call(t, label, p->twin, s, &in, true, false, results);
        memcpy(y + token * stride + s->r0, (float *)(void *)results[TWIN_Y].data + s->r0,
               (s->r1 - s->r0) * sizeof *y);
        release(results);
    }
    return y;
}

/* The weights as the op reads them. */
static void pack(const packed_case *p, inputs *in, int wq, int wd)
{
    size_t all = p->s.rows * (p->s.cols / ML_BLOCK), quant_bytes = 0, scale_bytes = 0;
    uint16_t *halves = reserve(all * sizeof *halves);
    for (size_t i = 0; i < all && p->half; i++)
        halves[i] = ml_f32_to_f16(p->scales[i]);
    ml_matrix matrix = {.quants = p->weights,
                        .scales = p->half ? (const void *)halves : p->scales,
                        .rows = (uint32_t)p->s.rows,
                        .cols = (uint32_t)p->s.cols,
                        .wtype = p->q4 ? ML_WTYPE_Q4_0 : ML_WTYPE_Q8_0,
                        .f16_scales = p->half};
    if (!ml_pack_bytes(&matrix, &quant_bytes, &scale_bytes))
        exit(ML_EXIT_NOMEM);
    in->arrays[wq] = reserve(quant_bytes);
    in->arrays[wd] = reserve(scale_bytes);
    ml_pack_matrix(&matrix, in->arrays[wq], in->arrays[wd]);
}

static void test_packed(tally *t, const char *label, const packed_case *p)
{
    const ml_op *op = p->op, *tile = ml_op_find("tile_q8");
    guarded tiled[ML_OP_MAX_ARGS] = {0};
    inputs activations = {.arrays = {[TILE_FROM_XQ] = p->x, p->x_scales, p->x_sums}};
    call(t, label, tile, &p->s, &activations, false, false, tiled);
    int wq = argument_of(op, p->q4 ? ML_DATA_PACKED_Q4 : ML_DATA_PACKED_Q8);
    int wd = argument_of(op, p->half ? ML_DATA_PACKED_SCALES_F16 : ML_DATA_PACKED_SCALES_F32);
    int x = argument_of(op, ML_DATA_TILED_QUANTS);
    inputs in = {0};
    pack(p, &in, wq, wd);
    for (int i = 0; i < 3; i++)
        in.arrays[x + i] = tiled[i].data;
    size_t count = op->count(&p->s, 0);
    float *wanted = packed_wanted(t, label, p, count * sizeof *wanted);
    for (int off = 0; off < 2; off++) {
        guarded found[ML_OP_MAX_ARGS] = {0};
        call(t, label, op, &p->s, &in, false, off != 0, found);
        compare(t, label, &op->args[0], found[0].data, wanted, count);
        if (!off)
            hash_output(t, &op->args[0], found[0].data, count);
        release(found);
    }
    release(tiled);
}

#endif

/* ---- Q8 keys: packed like weights, each query tiled ---- */

#if defined(ML_HAS_PACK)
/* The queries and keys of `plain` as the bound kernel reads them. */
static void pack_keys(tally *t, const char *label, const ml_op *op, const ml_op_sizes *s, const inputs *plain,
                      inputs *in)
{
    int x = argument_of(op, ML_DATA_TILED_QUANTS), k = argument_of(op, ML_DATA_PACKED_KEYS);
    int corrections = argument_of(op, ML_DATA_CORRECTIONS);
    size_t blocks = s->n / ML_BLOCK, quant_bytes = 0, scale_bytes = 0;
    ml_matrix matrix = {.quants = plain->arrays[k],
                        .scales = reserve(ML_PAGE * blocks * sizeof(float)),
                        .rows = ML_PAGE,
                        .cols = (uint32_t)s->n,
                        .wtype = ML_WTYPE_Q8_0};
    if (!ml_pack_bytes(&matrix, &quant_bytes, &scale_bytes))
        exit(ML_EXIT_NOMEM);
    in->arrays[k] = reserve(quant_bytes);
    ml_pack_matrix(&matrix, in->arrays[k], reserve(scale_bytes));
    int8_t *tiles = in->arrays[x] = reserve(s->queries * blocks * ML_TILE_X_BYTES);
    int32_t *sums = in->arrays[corrections] = reserve(s->queries * sizeof *sums);
    float *ones = reserve(blocks * sizeof *ones);
    for (size_t b = 0; b < blocks; b++)
        ones[b] = 1.0f;
    for (size_t query = 0; query < s->queries; query++) {
        int8_t *quants = (int8_t *)plain->arrays[x] + query * s->n;
        ml_op_sizes one = {.cols = s->n, .tokens = 1};
        inputs row = {.arrays = {[TILE_FROM_XQ] = quants, ones, sums_of(quants, blocks)}};
        guarded tiled[ML_OP_MAX_ARGS] = {0};
        call(t, label, ml_op_find("tile_q8"), &one, &row, false, false, tiled);
        memcpy(tiles + query * blocks * ML_TILE_X_BYTES, tiled[TILE_XT].data, blocks * ML_TILE_X_BYTES);
        sums[query] = 0;
        for (size_t b = 0; b < blocks; b++)
            sums[query] += ((int32_t *)(void *)tiled[TILE_XS].data)[b * ML_TILE_SUMS];
        release(tiled);
    }
}
#endif

static void test_keys(tally *t, const char *label, const ml_op *op, const ml_op_sizes *s, size_t index,
                      int flavour)
{
    random_state r = seeded(op->name, index, flavour);
    inputs plain = {0};
    for (int i = 0; i < op->n_args; i++) {
        const ml_op_arg *arg = &op->args[i];
        size_t count = op->count(s, i);
        if (arg->role != ML_ROLE_IN)
            continue;
        plain.arrays[i] = reserve(count * arg->element);
        memset(plain.arrays[i], 0, count * arg->element);
        if (arg->data == ML_DATA_SCALES)
            fill(&r, plain.arrays[i], arg, count, flavour);
        else if (arg->data == ML_DATA_TILED_QUANTS)
            fill_quants(&r, plain.arrays[i], s->queries * s->n, flavour);
        else if (arg->data == ML_DATA_PACKED_KEYS)
            fill_quants(&r, plain.arrays[i], count, flavour);
    }
    inputs in = plain;
#if defined(ML_HAS_PACK)
    pack_keys(t, label, op, s, &plain, &in);
#endif
    test_both(t, label, op, s, &plain, &in);
}

/* ---- All cases of an op ---- */

static void run_case(tally *t, const ml_op *op, size_t index, int flavour)
{
    const ml_op_sizes *s = &op->cases[index];
    char label[100];
    snprintf(label, sizeof label, "%s case %zu %s", op->name, index, flavour_names[flavour]);
    t->cases++;
#if defined(ML_HAS_PACK)
    if (op->twin) {
        packed_case p = make_packed(op, s, index, flavour);
        test_packed(t, label, &p);
        return;
    }
#endif
    if (argument_of(op, ML_DATA_PACKED_KEYS) >= 0) {
        test_keys(t, label, op, s, index, flavour);
        return;
    }
    inputs in = make_inputs(op, s, index, flavour);
    test_both(t, label, op, s, &in, &in);
}

static tally run_op(const ml_op *op)
{
    tally t = {.hash = 0xcbf29ce484222325u};
    int flavours = op->cases[0].cols ? SPECIAL + 1 : FLAVOURS; /* matrices have no other ones */
    for (int flavour = 0; flavour < flavours; flavour++)
        for (int i = 0; i < op->n_cases; i++)
            run_case(&t, op, (size_t)i, flavour);
    return t;
}

/* ARMv7 NEON flushes subnormals to zero; with the scalar unit doing the same, the comparison stays exact. */
static void match_subnormals(void)
{
#if defined(__arm__)
    uint32_t control;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(control));
    __asm__ volatile("vmsr fpscr, %0" : : "r"(control | 1u << 24));
#endif
}

int ml_main(int argc, char **argv)
{
    if (argc > 2 || (argc == 2 && !ml_op_find(argv[1]))) {
        fprintf(stderr, "usage: test_kernels [OP]\n");
        return ML_EXIT_USAGE;
    }
    ml_op_print_bindings();
    match_subnormals();
    int failed = 0, tested = 0;
    for (int i = 0; i < ml_op_count; i++) {
        const ml_op *op = &ml_ops[i];
        if ((argc == 2 && strcmp(argv[1], op->name) != 0) || strcmp(op->name, "tile_q8") == 0)
            continue; /* tile_q8 is judged by the matmuls that read its output */
        tally t = run_op(op);
        printf("%-18s %3d cases %016llx %s\n", op->name, t.cases, (unsigned long long)t.hash,
               t.failures ? "FAILED" : "equal");
        failed += t.failures > 0;
        tested++;
    }
    printf("%d of %d ops equal their scalar kernels bit for bit\n", tested - failed, tested);
    return failed ? ML_EXIT_INTERNAL : ML_EXIT_OK;
}
