/* mlb.c: opens .mlb files. The header is copied into ml_config as it stands, checked, and completed. */
#include "mlb.h"

#include "../core/arena.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the file formats are little-endian and so must be the machine"
#endif

enum { HEADER_BYTES = 256, FIRST_FIELD = 4, MAX_DIM = 1 << 16, MAX_POSITIONS = 1 << 24 };
/* Bits of q8_mask. */
enum {
    CLASS_EMB = 1,
    CLASS_CLS = 2,
    CLASS_QK = 4,
    CLASS_V = 8,
    CLASS_O = 16,
    CLASS_UP = 32,
    CLASS_DOWN = 64
};

#define FIELD_BYTES offsetof(ml_config, q_dim) /* the fields that are in the file */
_Static_assert(FIELD_BYTES == 156 && offsetof(ml_config, lin_conv) + FIRST_FIELD == 156,
               "ml_config is the header");

/* An integer field that must lie in [low, high]. */
typedef struct u32_rule {
    const char *name;
    size_t offset;
    uint32_t low, high;
    ml_status status;
} u32_rule;
#define U32_RULE(field, low, high, status) {#field, offsetof(ml_config, field), low, high, status}

static const u32_rule u32_rules[] = {
    U32_RULE(version, 1, 1, ML_E_FORMAT),
    U32_RULE(wtype, ML_WTYPE_Q8_0, ML_WTYPE_Q4_0, ML_E_FORMAT),
    U32_RULE(rope_type, ML_ROPE_PLAIN, ML_ROPE_YARN, ML_E_FORMAT),
    U32_RULE(q8_mask, 0, 127, ML_E_FORMAT),
    U32_RULE(qkv_bias, 0, 1, ML_E_FORMAT),
    U32_RULE(qk_norm, 0, 1, ML_E_FORMAT),
    U32_RULE(sliding_window, 0, MAX_POSITIONS, ML_E_FORMAT),
    U32_RULE(layer_flags, 0, 1, ML_E_FORMAT),
    U32_RULE(act, ML_ACT_SILU, ML_ACT_GELU, ML_E_FORMAT),
    U32_RULE(post_norms, 0, 1, ML_E_FORMAT),
    U32_RULE(scale_f16, 0, 1, ML_E_FORMAT),
    U32_RULE(attn_gate, 0, 1, ML_E_FORMAT),
    U32_RULE(dim, 1, MAX_DIM, ML_E_SHAPE),
    U32_RULE(n_layers, 1, MAX_DIM, ML_E_SHAPE),
    U32_RULE(n_heads, 1, MAX_DIM, ML_E_SHAPE),
    U32_RULE(n_kv_heads, 1, MAX_DIM, ML_E_SHAPE),
    U32_RULE(hidden_dim, 1, MAX_DIM, ML_E_SHAPE),
    U32_RULE(vocab, 3, MAX_POSITIONS, ML_E_SHAPE),
    U32_RULE(max_seq, 1, MAX_POSITIONS, ML_E_SHAPE),
};

/* The same for a model with linear attention. */
static const u32_rule linear_rules[] = {
    U32_RULE(lin_k_heads, 1, MAX_DIM, ML_E_SHAPE), U32_RULE(lin_v_heads, 1, MAX_DIM, ML_E_SHAPE),
    U32_RULE(lin_k_dim, 1, MAX_DIM, ML_E_SHAPE),   U32_RULE(lin_v_dim, 1, MAX_DIM, ML_E_SHAPE),
    U32_RULE(lin_conv, 1, MAX_DIM, ML_E_SHAPE),
};

static ml_status check_u32(const ml_model *model, const u32_rule *rules, size_t count, ml_error *error)
{
    for (const u32_rule *rule = rules; rule < rules + count; rule++) {
        uint32_t value;
        memcpy(&value, (const unsigned char *)&model->config + rule->offset, sizeof value);
        if (value >= rule->low && value <= rule->high)
            continue;
        if (rule->low == rule->high)
            return ml_fail(error, rule->status, "%s: %s is %u, must be %u", model->path, rule->name, value,
                           rule->low);
        return ml_fail(error, rule->status, "%s: %s is %u, must be %u to %u", model->path, rule->name, value,
                       rule->low, rule->high);
    }
    return ML_OK;
}
#define CHECK_U32(model, rules, error) check_u32(model, rules, sizeof(rules) / sizeof *(rules), error)

/* A float field that must be finite and at least 0, or above it. */
typedef struct f32_rule {
    const char *name;
    size_t offset;
    bool zero; /* allowed */
} f32_rule;
#define F32_RULE(field, zero) {#field, offsetof(ml_config, field), zero}

static const f32_rule f32_rules[] = {
    F32_RULE(rope_theta, false),   F32_RULE(norm_eps, true),   F32_RULE(rope_local_theta, true),
    F32_RULE(embed_scale, true),   F32_RULE(attn_scale, true), F32_RULE(attn_softcap, true),
    F32_RULE(final_softcap, true),
};
static const f32_rule scaling_rules[] = {
    F32_RULE(rope_factor, false), /* llama3, linear, yarn */
    F32_RULE(rope_low_freq_factor, false),
    F32_RULE(rope_high_freq_factor, false), /* llama3, yarn */
    F32_RULE(rope_attn_factor, false),      /* yarn */
};

static ml_status check_f32(const ml_model *model, const f32_rule *rules, size_t count, ml_error *error)
{
    for (const f32_rule *rule = rules; rule < rules + count; rule++) {
        float value;
        memcpy(&value, (const unsigned char *)&model->config + rule->offset, sizeof value);
        if (isfinite(value) && (value > 0 || (rule->zero && value == 0)))
            continue;
        return ml_fail(error, ML_E_FORMAT, "%s: %s is %g, must be finite and %s", model->path, rule->name,
                       (double)value, rule->zero ? "not negative" : "positive");
    }
    return ML_OK;
}

static ml_status check_rope(const ml_model *model, ml_error *error)
{
    const ml_config *c = &model->config;
    static const size_t used[] = {0, 3, 1, 4}; /* how many scaling rules each rope_type has */
    ml_status status = check_f32(model, scaling_rules, used[c->rope_type], error);
    if (status != ML_OK)
        return status;
    if (c->rope_type != ML_ROPE_YARN && c->rope_attn_factor != 0)
        return ml_fail(error, ML_E_FORMAT, "%s: rope_attn_factor is %g, must be 0 without yarn scaling",
                       model->path, (double)c->rope_attn_factor);
    if (c->rope_type != ML_ROPE_LLAMA3 && c->rope_type != ML_ROPE_YARN)
        return ML_OK;
    if (c->rope_orig_max_seq == 0)
        return ml_fail(error, ML_E_FORMAT, "%s: rope_orig_max_seq is 0, must be positive", model->path);
    double low = (double)c->rope_low_freq_factor, high = (double)c->rope_high_freq_factor;
    if (c->rope_type == ML_ROPE_LLAMA3 && !(high > low))
        return ml_fail(error, ML_E_FORMAT,
                       "%s: rope_high_freq_factor is %g, must be above rope_low_freq_factor (%g)",
                       model->path, high, low);
    if (c->rope_type == ML_ROPE_YARN && !(high < low))
        return ml_fail(error, ML_E_FORMAT,
                       "%s: beta_slow (rope_high_freq_factor) is %g, must be below beta_fast (%g)",
                       model->path, high, low);
    return ML_OK;
}

static ml_status bad_shape(const ml_model *model, const char *name, uint64_t value, const char *must,
                           ml_error *error)
{
    return ml_fail(error, ML_E_SHAPE, "%s: %s is %llu, must be %s", model->path, name,
                   (unsigned long long)value, must);
}

static ml_status check_heads(ml_model *model, ml_error *error)
{
    ml_config *c = &model->config;
    char must[64];
    if (c->dim % ML_BLOCK != 0)
        return bad_shape(model, "dim", c->dim, "a multiple of 32", error);
    if (c->hidden_dim % ML_BLOCK != 0)
        return bad_shape(model, "hidden_dim", c->hidden_dim, "a multiple of 32", error);
    if (c->head_dim == 0 && c->dim % c->n_heads != 0) {
        snprintf(must, sizeof must, "a divisor of dim (%u), as head_dim is 0", c->dim);
        return bad_shape(model, "n_heads", c->n_heads, must, error);
    }
    if (c->n_heads % c->n_kv_heads != 0) {
        snprintf(must, sizeof must, "a divisor of n_heads (%u)", c->n_heads);
        return bad_shape(model, "n_kv_heads", c->n_kv_heads, must, error);
    }
    if (c->head_dim == 0)
        c->head_dim = c->dim / c->n_heads;
    if (c->head_dim % 2 != 0)
        return bad_shape(model, "head_dim", c->head_dim, "even", error);
    uint64_t q_dim = (uint64_t)c->head_dim * c->n_heads;
    if (q_dim % ML_BLOCK != 0 || q_dim > MAX_DIM)
        return bad_shape(model, "head_dim * n_heads", q_dim, "a multiple of 32 and at most 65536", error);
    c->q_dim = (uint32_t)q_dim;
    c->kv_dim = c->head_dim * c->n_kv_heads; /* at most q_dim */
    if (c->rot_dim % 2 != 0 || c->rot_dim > c->head_dim) {
        snprintf(must, sizeof must, "even and at most head_dim (%u)", c->head_dim);
        return bad_shape(model, "rot_dim", c->rot_dim, must, error);
    }
    return ML_OK;
}

static ml_status check_linear(const ml_model *model, ml_error *error)
{
    const ml_config *c = &model->config;
    if (!(c->lin_k_heads | c->lin_v_heads | c->lin_k_dim | c->lin_v_dim | c->lin_conv))
        return ML_OK;
    ml_status status = CHECK_U32(model, linear_rules, error);
    if (status != ML_OK)
        return status;
    if (c->lin_v_heads % c->lin_k_heads != 0 || c->lin_v_heads % 4 != 0) {
        char must[64];
        snprintf(must, sizeof must, "a multiple of lin_k_heads (%u) and of 4", c->lin_k_heads);
        return bad_shape(model, "lin_v_heads", c->lin_v_heads, must, error);
    }
    uint64_t values = (uint64_t)c->lin_v_heads * c->lin_v_dim, keys = (uint64_t)c->lin_k_heads * c->lin_k_dim;
    if (values % ML_BLOCK != 0 || values > MAX_DIM)
        return bad_shape(model, "lin_v_heads * lin_v_dim", values, "a multiple of 32 and at most 65536",
                         error);
    if (keys > MAX_DIM)
        return bad_shape(model, "lin_k_heads * lin_k_dim", keys, "at most 65536", error);
    return ML_OK;
}

static ml_status check_fields(ml_model *model, ml_error *error)
{
    const ml_config *c = &model->config;
    ml_status status = CHECK_U32(model, u32_rules, error);
    if (status == ML_OK)
        status = check_f32(model, f32_rules, sizeof f32_rules / sizeof *f32_rules, error);
    if (status == ML_OK)
        status = check_rope(model, error);
    if (status == ML_OK && c->q8_mask != 0 && c->wtype == ML_WTYPE_Q8_0)
        status = ml_fail(error, ML_E_FORMAT, "%s: q8_mask is %u, must be 0 in a Q8_0 model", model->path,
                         c->q8_mask);
    if (status == ML_OK)
        status = check_heads(model, error);
    return status == ML_OK ? check_linear(model, error) : status;
}

/* Reads and checks the header, then replaces zeros that stand for something. */
static ml_status read_header(ml_model *model, ml_error *error)
{
    const ml_file *file = &model->file;
    ml_config *c = &model->config;
    if (file->size == 0)
        return ml_fail(error, ML_E_FORMAT, "%s: the file is empty", model->path);
    if (file->size < HEADER_BYTES)
        return ml_fail(error, ML_E_FORMAT, "%s: the file has %zu bytes, its header alone takes %d",
                       model->path, file->size, HEADER_BYTES);
    if (memcmp(file->data, "MLB1", 4) != 0)
        return ml_fail(error, ML_E_FORMAT, "%s: magic is %02x %02x %02x %02x, must be \"MLB1\" (4d 4c 42 31)",
                       model->path, file->data[0], file->data[1], file->data[2], file->data[3]);
    memcpy(c, file->data + FIRST_FIELD, FIELD_BYTES);
    ml_status status = check_fields(model, error);
    if (status != ML_OK)
        return status;
    for (size_t i = FIRST_FIELD + FIELD_BYTES; i < HEADER_BYTES; i++)
        if (file->data[i] != 0)
            return ml_fail(error, ML_E_FORMAT,
                           "%s: byte %zu of the header is %u, must be 0 (from a later version?)", model->path,
                           i, file->data[i]);
    if (c->rope_type != ML_ROPE_YARN)
        c->rope_attn_factor = 1;
    if (c->embed_scale == 0)
        c->embed_scale = 1;
    if (c->attn_scale == 0)
        c->attn_scale = (float)(1.0 / sqrt((double)c->head_dim));
    if (c->rot_dim == 0)
        c->rot_dim = c->head_dim;
    return ML_OK;
}

/* Walks through the arrays. The first problem stays in `status`; everything after it is a no-op. */
typedef struct walk {
    ml_model *model;
    ml_error *error;
    size_t offset;
    ml_status status;
    char layer[24]; /* "layers.3." or "" */
} walk;

/* The next array of the file, with its bounds checked: `part` of the tensor `name` ("", "the scales of "). */
static const void *take(walk *at, const char *part, const char *name, size_t count, size_t element_size)
{
    size_t bytes, end;
    if (at->status != ML_OK)
        return NULL;
    if (!ml_size_mul(count, element_size, &bytes) || !ml_size_add(at->offset, bytes, &end) ||
        end > SIZE_MAX - ML_ALIGN) {
        at->status = ml_fail(at->error, ML_E_NOMEM, "%s: %s%s%s cannot fit into the address space",
                             at->model->path, part, at->layer, name);
        return NULL;
    }
    if (end > at->model->file.size) {
        at->status =
            ml_fail(at->error, ML_E_FORMAT, "%s: the file has %zu bytes, but %s%s%s would end at byte %zu",
                    at->model->path, at->model->file.size, part, at->layer, name, end);
        return NULL;
    }
    const void *array = at->model->file.data + at->offset;
    at->offset = (end + ML_ALIGN - 1) / ML_ALIGN * ML_ALIGN;
    return array;
}

static const float *take_floats(walk *at, const char *name, uint32_t count, uint32_t each)
{
    size_t total;
    if (!ml_size_mul(count, each, &total))
        total = SIZE_MAX; /* take refuses it */
    return take(at, "", name, total, sizeof(float));
}

/* A matrix of one class of q8_mask; class 0 is always Q8_0. */
static ml_matrix take_matrix(walk *at, const char *name, uint32_t class, uint32_t rows, uint32_t cols)
{
    const ml_config *c = &at->model->config;
    bool q8 = class == 0 || c->wtype == ML_WTYPE_Q8_0 || (c->q8_mask & class) != 0;
    ml_matrix m = {
        .rows = rows,
        .cols = cols,
        .wtype = q8 ? ML_WTYPE_Q8_0 : ML_WTYPE_Q4_0,
        .f16_scales = c->scale_f16 != 0,
    };
    size_t row_bytes = q8 ? cols : cols / 2;
    size_t row_scales = (size_t)(cols / ML_BLOCK) * (m.f16_scales ? sizeof(uint16_t) : sizeof(float));
    m.quants = take(at, "the quants of ", name, rows, row_bytes);
    m.scales = take(at, "the scales of ", name, rows, row_scales);
    return m;
}

static void take_attention(walk *at, ml_layer_weights *w)
{
    const ml_config *c = &at->model->config;
    w->wq = take_matrix(at, "wq", CLASS_QK, c->q_dim, c->dim);
    w->wk = take_matrix(at, "wk", CLASS_QK, c->kv_dim, c->dim);
    w->wv = take_matrix(at, "wv", CLASS_V, c->kv_dim, c->dim);
    w->wo = take_matrix(at, "wo", CLASS_O, c->dim, c->q_dim);
    if (c->attn_gate)
        w->wg = take_matrix(at, "wg", CLASS_QK, c->q_dim, c->dim);
    if (c->qkv_bias) {
        w->bq = take_floats(at, "bq", 1, c->q_dim);
        w->bk = take_floats(at, "bk", 1, c->kv_dim);
        w->bv = take_floats(at, "bv", 1, c->kv_dim);
    }
    if (c->qk_norm) {
        w->q_norm = take_floats(at, "q_norm", 1, c->head_dim);
        w->k_norm = take_floats(at, "k_norm", 1, c->head_dim);
    }
}

static void take_linear(walk *at, ml_layer_weights *w)
{
    const ml_config *c = &at->model->config;
    uint32_t values = c->lin_v_heads * c->lin_v_dim;
    uint32_t channels = 2 * c->lin_k_heads * c->lin_k_dim + values;
    w->lqkv = take_matrix(at, "lqkv", CLASS_QK, channels, c->dim);
    w->lz = take_matrix(at, "lz", CLASS_V, values, c->dim);
    w->lb = take_matrix(at, "lb", 0, c->lin_v_heads, c->dim);
    w->la = take_matrix(at, "la", 0, c->lin_v_heads, c->dim);
    w->lconv = take_floats(at, "lconv", channels, c->lin_conv);
    w->dt_bias = take_floats(at, "dt_bias", 1, c->lin_v_heads);
    w->a_log = take_floats(at, "a_log", 1, c->lin_v_heads);
    w->lnorm = take_floats(at, "lnorm", 1, c->lin_v_dim);
    w->lout = take_matrix(at, "lout", CLASS_O, c->dim, values);
}

static void take_layer(walk *at, ml_layer_weights *w)
{
    const ml_config *c = &at->model->config;
    w->attn_norm = take_floats(at, "attn_norm", 1, c->dim);
    if (w->flags & ML_LAYER_LINEAR)
        take_linear(at, w);
    else
        take_attention(at, w);
    w->ffn_norm = take_floats(at, "ffn_norm", 1, c->dim);
    w->w1 = take_matrix(at, "w1", CLASS_UP, c->hidden_dim, c->dim);
    w->w2 = take_matrix(at, "w2", CLASS_DOWN, c->dim, c->hidden_dim);
    w->w3 = take_matrix(at, "w3", CLASS_UP, c->hidden_dim, c->dim);
    if (c->post_norms) {
        w->post_attn_norm = take_floats(at, "post_attn_norm", 1, c->dim);
        w->post_ffn_norm = take_floats(at, "post_ffn_norm", 1, c->dim);
    }
}

/* Why these flags are not allowed, or NULL. */
static const char *flags_problem(const ml_config *c, uint8_t flags)
{
    if (flags & ~(ML_LAYER_WINDOW | ML_LAYER_LOCAL_ROPE | ML_LAYER_NO_ROPE | ML_LAYER_LINEAR))
        return "only bits 0 to 3 are known";
    if ((flags & ML_LAYER_LOCAL_ROPE) && (flags & ML_LAYER_NO_ROPE))
        return "a layer cannot have both the local RoPE base and no RoPE";
    if ((flags & ML_LAYER_LOCAL_ROPE) && c->rope_local_theta == 0)
        return "the local RoPE base needs rope_local_theta, which is 0";
    if ((flags & ML_LAYER_LINEAR) && flags != ML_LAYER_LINEAR)
        return "linear attention cannot be combined with other flags";
    if ((flags & ML_LAYER_LINEAR) && c->lin_k_heads == 0)
        return "linear attention needs lin_k_heads, which is 0";
    return NULL;
}

static void take_flags(walk *at)
{
    ml_model *model = at->model;
    if (!model->config.layer_flags)
        return;
    const uint8_t *flags = take(at, "", "layer_flags", model->config.n_layers, 1);
    for (uint32_t i = 0; flags && i < model->config.n_layers; i++) {
        const char *problem = flags_problem(&model->config, flags[i]);
        model->layers[i].flags = flags[i];
        if (problem) {
            at->status = ml_fail(at->error, ML_E_FORMAT, "%s: the flags of layer %u are %u: %s", model->path,
                                 i, flags[i], problem);
            return;
        }
    }
}

static ml_status take_arrays(ml_model *model, ml_error *error)
{
    const ml_config *c = &model->config;
    walk at = {.model = model, .error = error, .offset = HEADER_BYTES};
    model->layers = calloc(c->n_layers, sizeof *model->layers);
    if (!model->layers)
        return ml_fail(error, ML_E_NOMEM, "%s: no memory for the description of %u layers", model->path,
                       c->n_layers);
    take_flags(&at);
    model->tok_emb = take_matrix(&at, "tok_emb", c->shared_classifier ? CLASS_EMB | CLASS_CLS : CLASS_EMB,
                                 c->vocab, c->dim);
    for (uint32_t i = 0; i < c->n_layers && at.status == ML_OK; i++) {
        snprintf(at.layer, sizeof at.layer, "layers.%u.", i);
        take_layer(&at, &model->layers[i]);
        if (!c->layer_flags && c->sliding_window)
            model->layers[i].flags = ML_LAYER_WINDOW; /* without flags the window is for every layer */
    }
    at.layer[0] = 0;
    model->final_norm = take_floats(&at, "final_norm", 1, c->dim);
    model->wcls =
        c->shared_classifier ? model->tok_emb : take_matrix(&at, "wcls", CLASS_CLS, c->vocab, c->dim);
    return at.status;
}

ml_status ml_model_map(ml_model *model, const char *path, ml_error *error)
{
    *model = (ml_model){0};
    size_t length = strlen(path) + 1;
    model->path = malloc(length);
    if (!model->path)
        return ml_fail(error, ML_E_NOMEM, "%s: no memory to open it", path);
    memcpy(model->path, path, length);
    ml_status status = ml_file_open(&model->file, path, error);
    if (status == ML_OK)
        status = read_header(model, error);
    if (status == ML_OK)
        status = take_arrays(model, error);
    if (status != ML_OK)
        ml_model_close(model);
    return status;
}

static ml_status check_whole(void *context, ml_matrix *matrix, const char *name, ml_error *error)
{
    const ml_model *model = context;
    bool seen = matrix == &model->wcls && model->config.shared_classifier;
    return seen ? ML_OK : ml_matrix_check(model, matrix, name, 0, matrix->rows, error);
}

ml_status ml_model_open(ml_model *model, const char *path, ml_error *error)
{
    ml_status status = ml_model_map(model, path, error);
    if (status != ML_OK)
        return status;
    status = ml_model_visit(model, check_whole, model, error);
    if (status != ML_OK)
        ml_model_close(model);
    return status;
}

void ml_model_close(ml_model *model)
{
    ml_file_close(&model->file);
    free(model->layers);
    free(model->path);
    *model = (ml_model){0};
}

bool ml_matrix_bytes(const ml_matrix *matrix, size_t *quant_bytes, size_t *scale_bytes)
{
    size_t row_bytes = matrix->wtype == ML_WTYPE_Q8_0 ? matrix->cols : matrix->cols / 2;
    size_t row_scales =
        (size_t)(matrix->cols / ML_BLOCK) * (matrix->f16_scales ? sizeof(uint16_t) : sizeof(float));
    return ml_size_mul(matrix->rows, row_bytes, quant_bytes) &&
           ml_size_mul(matrix->rows, row_scales, scale_bytes);
}

/* No early exit inside: a loop without one is vectorized. */
static bool holds_minus_128(const int8_t *quants, size_t count)
{
    uint8_t found = 0;
    for (size_t i = 0; i < count; i++)
        found |= quants[i] == -128;
    return found != 0;
}

ml_status ml_matrix_check(const ml_model *model, const ml_matrix *matrix, const char *name, uint32_t start,
                          uint32_t end, ml_error *error)
{
    if (matrix->wtype != ML_WTYPE_Q8_0)
        return ML_OK;
    const int8_t *quants = matrix->quants;
    size_t cols = matrix->cols, last = end * cols, chunk = 1 << 14;
    for (size_t at = start * cols; at < last; at += chunk) {
        if (!holds_minus_128(quants + at, last - at < chunk ? last - at : chunk))
            continue;
        while (quants[at] != -128)
            at++;
        return ml_fail(error, ML_E_FORMAT,
                       "%s: %s has a quant of -128 in row %zu, column %zu, must be -127 to 127", model->path,
                       name, at / cols, at % cols);
    }
    return ML_OK;
}

static ml_status visit_layer(ml_layer_weights *w, uint32_t index, ml_matrix_visitor visit, void *context,
                             ml_error *error)
{
    struct {
        ml_matrix *matrix;
        const char *name;
    } all[] = {
        {&w->wq, "wq"},     {&w->wk, "wk"}, {&w->wv, "wv"}, {&w->wo, "wo"}, {&w->wg, "wg"},
        {&w->lqkv, "lqkv"}, {&w->lz, "lz"}, {&w->lb, "lb"}, {&w->la, "la"}, {&w->lout, "lout"},
        {&w->w1, "w1"},     {&w->w2, "w2"}, {&w->w3, "w3"},
    };
    ml_status status = ML_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && status == ML_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%u.%s", index, all[i].name);
        if (all[i].matrix->rows > 0) /* this layer has it */
            status = visit(context, all[i].matrix, name, error);
    }
    return status;
}

ml_status ml_model_visit(ml_model *model, ml_matrix_visitor visit, void *context, ml_error *error)
{
    ml_status status = visit(context, &model->tok_emb, "tok_emb", error);
    for (uint32_t i = 0; i < model->config.n_layers && status == ML_OK; i++)
        status = visit_layer(&model->layers[i], i, visit, context, error);
    return status == ML_OK ? visit(context, &model->wcls, "wcls", error) : status;
}
