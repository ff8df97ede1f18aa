/* kv_layout.c: sizes of cache pages, and how keys and values are stored in them. */
#include "kv_layout.h"

#include "../core/arena.h"
#include "ml_config.h"

static size_t element_bytes(int type)
{
    return type == ML_KV_F32 ? sizeof(float) : type == ML_KV_F16 ? sizeof(uint16_t) : 1;
}

bool ml_kv_layout_init(ml_kv_layout *layout, int type, int n_layers, int n_kv_heads, int head_dim)
{
    *layout =
        (ml_kv_layout){.type = type, .n_layers = n_layers, .n_kv_heads = n_kv_heads, .head_dim = head_dim};
    layout->key_dim = type == ML_KV_Q8 ? (head_dim + ML_BLOCK - 1) / ML_BLOCK * ML_BLOCK : head_dim;
    size_t scales = type == ML_KV_Q8 ? (size_t)n_kv_heads * ML_KV_PAGE * sizeof(float) : 0;
    return ml_size_mul((size_t)layout->key_dim * ML_KV_PAGE, element_bytes(type), &layout->head_bytes) &&
           ml_size_mul(layout->head_bytes, (size_t)n_kv_heads, &layout->scale_offset) &&
           ml_size_add(layout->scale_offset, scales, &layout->half_bytes) &&
           ml_size_mul(layout->half_bytes, 2 * (size_t)n_layers, &layout->page_bytes);
}

float ml_head_scale(float *scale, const float *x, int n)
{
    float largest = 0.0f;
    for (int i = 0; i < n; i++) {
        float magnitude = fabsf(x[i]);
        largest = magnitude > largest ? magnitude : largest;
    }
    if (largest < 1e-30f) { /* 127 / largest would overflow */
        *scale = 0.0f;
        return 0.0f;
    }
    *scale = largest / 127.0f;
    return 127.0f / largest;
}

void ml_quantize_by(int8_t *quants, const float *x, int n, float inverse)
{
    if (inverse == 0.0f) {
        memset(quants, 0, (size_t)n);
        return;
    }
    for (int i = 0; i < n; i++) {
        float t = x[i] * inverse;
        t = t + copysignf(0.5f, x[i]);
        t = t > -127.0f ? t : -127.0f;
        t = t < 127.0f ? t : 127.0f;
        quants[i] = (int8_t)(int32_t)t;
    }
}

void ml_quantize_head(int8_t *quants, float *scale, const float *x, int n)
{
    ml_quantize_by(quants, x, n, ml_head_scale(scale, x, n));
}

/* Sums and differences of elements `half` apart. */
ML_ALWAYS_INLINE void rotate_stage(float *x, int n, int half)
{
    for (int start = 0; start < n; start += 2 * half) {
        for (int i = start; i < start + half; i++) {
            float a = x[i], b = x[i + half];
            x[i] = a + b;
            x[i + half] = a - b;
        }
    }
}

int ml_rotation_size(int head_dim)
{
    return head_dim & -head_dim;
}

void ml_rotate_heads(float *x, int heads, int head_dim, float factor)
{
    enum { UNROLLED = 16 }; /* stages of known width become shuffles */
    int n = heads * head_dim, size = ml_rotation_size(head_dim), half = 1;
    if (size >= UNROLLED) {
        for (int i = 0; i < n; i += UNROLLED)
            for (half = 1; half < UNROLLED; half *= 2)
                rotate_stage(x + i, UNROLLED, half);
    }
    for (; half < size; half *= 2)
        rotate_stage(x, n, half);
    if (factor != 1.0f)
        for (int i = 0; i < n; i++)
            x[i] *= factor;
}

/* Where dimension i of an int8 key lies: packed as a row of weights, or position after position. */
static size_t packed_place(const ml_kv_layout *layout, int slot, int i)
{
#if defined(ML_HAS_PACK)
    enum { GROUP = ML_PACK_GROUP, STEP = ML_PACK_STEP };
    int steps = layout->key_dim / STEP;
    int step = slot / GROUP * steps + i / STEP;
    return ((size_t)step * GROUP + (size_t)(slot % GROUP)) * STEP + (size_t)(i % STEP);
#else
    return (size_t)slot * (size_t)layout->key_dim + (size_t)i;
#endif
}

#if defined(ML_HAS_PACK)
enum { KEY_OFFSET = ML_PACK_Q8_OFFSET };
#else
enum { KEY_OFFSET = 0 };
#endif

static void store_q8_key(const ml_kv_layout *layout, uint8_t *keys, float *scale, int slot, const float *x)
{
    int8_t quants[ML_BLOCK];
    float inverse = ml_head_scale(scale, x, layout->head_dim);
    for (int first = 0; first < layout->key_dim; first += ML_BLOCK) {
        int n = layout->head_dim - first < ML_BLOCK ? layout->head_dim - first : ML_BLOCK;
        memset(quants, 0, sizeof quants);
        ml_quantize_by(quants, x + first, n, inverse);
        for (int i = 0; i < ML_BLOCK; i++)
            keys[packed_place(layout, slot, first + i)] = (uint8_t)(quants[i] + KEY_OFFSET);
    }
}

/* Elements between the dimensions of one position, and where its first one is. */
static size_t element_step(const ml_kv_layout *layout, int half, int slot, size_t *start)
{
    bool position_minor = half == ML_KV_KEYS;
    *start = position_minor ? (size_t)slot : (size_t)slot * (size_t)layout->head_dim;
    return position_minor ? ML_KV_PAGE : 1;
}

static void store_head(const ml_kv_layout *layout, unsigned char *page, int layer, int half, int head,
                       int slot, const float *x)
{
    size_t n = (size_t)layout->head_dim, start, step = element_step(layout, half, slot, &start);
    void *elements = ml_kv_elements(layout, page, layer, half, head);
    if (layout->type == ML_KV_F32) {
        for (size_t i = 0; i < n; i++)
            ((float *)elements)[start + i * step] = x[i];
    } else if (layout->type == ML_KV_F16) {
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)elements)[start + i * step] = ml_f32_to_f16(x[i]);
    } else {
        float *scale = ml_kv_scales(layout, page, layer, half, head) + slot;
        if (half == ML_KV_KEYS)
            store_q8_key(layout, elements, scale, slot, x);
        else
            ml_quantize_head((int8_t *)elements + start, scale, x, layout->head_dim);
    }
}

void ml_kv_store(const ml_kv_layout *layout, unsigned char *page, int layer, int position, const float *keys,
                 const float *values)
{
    int slot = position % ML_KV_PAGE;
    for (int head = 0; head < layout->n_kv_heads; head++) {
        size_t at = (size_t)head * (size_t)layout->head_dim;
        store_head(layout, page, layer, ML_KV_KEYS, head, slot, keys + at);
        store_head(layout, page, layer, ML_KV_VALUES, head, slot, values + at);
    }
}
