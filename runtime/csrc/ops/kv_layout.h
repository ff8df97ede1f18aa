/*
 * kv_layout.h: how a page of cached keys and values lies in memory. A page holds ML_KV_PAGE positions of
 * every layer: [layer][K, V][kv head] and there [position][head_dim] elements. Keys lie so that a lane of a
 * score kernel owns a position: float and half-precision ones [head_dim][position], int8 ones packed like the
 * rows of a weight matrix (pack.h). For Q8, [kv head][position] float scales follow. What one head reads of a
 * page is one contiguous block.
 */
#ifndef ML_KV_LAYOUT_H
#define ML_KV_LAYOUT_H

#include "../krafla.h"

/* Positions per page: also the block in which attention walks the cache. */
enum { ML_KV_PAGE = ML_PAGE };

typedef struct ml_kv_layout {
    int type; /* ML_KV_* */
    int n_layers;
    int n_kv_heads;
    int head_dim;
    int key_dim;         /* head_dim; for Q8 rounded up to whole blocks, the rest zero */
    size_t head_bytes;   /* elements of one head in a page */
    size_t scale_offset; /* from the start of a half to its Q8 scales */
    size_t half_bytes;   /* K or V of one layer */
    size_t page_bytes;
} ml_kv_layout;

/* False if a page's size overflows. */
bool ml_kv_layout_init(ml_kv_layout *layout, int type, int n_layers, int n_kv_heads, int head_dim);

enum { ML_KV_KEYS = 0, ML_KV_VALUES = 1 };

/* The elements of a head. */
ML_ALWAYS_INLINE unsigned char *ml_kv_elements(const ml_kv_layout *layout, unsigned char *page, int layer,
                                               int half, int head)
{
    return page + (2 * (size_t)layer + (size_t)half) * layout->half_bytes + (size_t)head * layout->head_bytes;
}

/* The first position's Q8 scale of a head. */
ML_ALWAYS_INLINE float *ml_kv_scales(const ml_kv_layout *layout, unsigned char *page, int layer, int half,
                                     int head)
{
    unsigned char *start =
        page + (2 * (size_t)layer + (size_t)half) * layout->half_bytes + layout->scale_offset;
    return (float *)(void *)start + (size_t)head * ML_KV_PAGE;
}

/* Stores one position's keys and values (all heads of a layer) into slot `position % ML_KV_PAGE` of its page.
 */
void ml_kv_store(const ml_kv_layout *layout, unsigned char *page, int layer, int position, const float *keys,
                 const float *values);

/* The activations' quantization rule over `n` values with a single scale, in two halves and as a whole. */
float ml_head_scale(float *scale, const float *x, int n); /* the factor to quantize by; 0: all quants are 0 */
void ml_quantize_by(int8_t *quants, const float *x, int n, float inverse);
void ml_quantize_head(int8_t *quants, float *scale, const float *x, int n);

/*
 * Turns heads (side by side in x) by a Hadamard matrix over the largest power of two that divides head_dim,
 * then multiplies by `factor`. A few large elements become many of middling size, which a single scale suits
 * better; turned queries and keys have the product of the plain ones times that power of two.
 */
void ml_rotate_heads(float *x, int heads, int head_dim, float factor);
/* That power of two. */
int ml_rotation_size(int head_dim);

#endif
