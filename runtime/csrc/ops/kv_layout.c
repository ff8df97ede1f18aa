/* kv_layout.c: sizes of cache pages, and how keys and values are stored in them. */
#include "kv_layout.h"

#include "../core/arena.h"

static size_t element_bytes(int type)
{
    return type == ML_KV_F32 ? sizeof(float) : type == ML_KV_F16 ? sizeof(uint16_t) : 1;
}

bool ml_kv_layout_init(ml_kv_layout *layout, int type, int n_layers, int n_kv_heads, int head_dim)
{
    *layout =
        (ml_kv_layout){.type = type, .n_layers = n_layers, .n_kv_heads = n_kv_heads, .head_dim = head_dim};
    size_t scales = type == ML_KV_Q8 ? (size_t)n_kv_heads * ML_KV_PAGE * sizeof(float) : 0;
    return ml_size_mul((size_t)head_dim * ML_KV_PAGE, element_bytes(type), &layout->head_bytes) &&
           ml_size_mul(layout->head_bytes, (size_t)n_kv_heads, &layout->scale_offset) &&
           ml_size_add(layout->scale_offset, scales, &layout->half_bytes) &&
           ml_size_mul(layout->half_bytes, 2 * (size_t)n_layers, &layout->page_bytes);
}

void ml_quantize_head(int8_t *quants, float *scale, const float *x, int n)
{
    float largest = 0.0f;
    for (int i = 0; i < n; i++) {
        float magnitude = fabsf(x[i]);
        largest = magnitude > largest ? magnitude : largest;
    }
    if (largest < 1e-30f) { /* 127 / largest would overflow */
        memset(quants, 0, (size_t)n);
        *scale = 0.0f;
        return;
    }
    float inverse = 127.0f / largest;
    for (int i = 0; i < n; i++) {
        float t = x[i] * inverse;
        t = t + copysignf(0.5f, x[i]);
        t = t > -127.0f ? t : -127.0f;
        t = t < 127.0f ? t : 127.0f;
        quants[i] = (int8_t)(int32_t)t;
    }
    *scale = largest / 127.0f;
}

/* Elements between the dimensions of one position, and where its first one is. */
static size_t element_step(const ml_kv_layout *layout, int half, int slot, size_t *start)
{
    bool position_minor = half == ML_KV_KEYS && layout->type != ML_KV_Q8;
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
        float *scales = ml_kv_scales(layout, page, layer, half, head);
        ml_quantize_head((int8_t *)elements + start, &scales[slot], x, layout->head_dim);
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
