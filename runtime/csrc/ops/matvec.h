/*
 * matvec.h: matrix products on quantized activations, split over the pool by groups of rows. Each output
 * element is computed by one worker in a fixed order, so the split never shows in the bits.
 */
#ifndef ML_MATVEC_H
#define ML_MATVEC_H

#include "../core/arena.h"
#include "../core/threads.h"
#include "../model/mlb.h"

/* Work below this many multiply-adds stays on the caller: waking the others would cost more. */
enum { ML_PARALLEL_WORK = 1 << 18 };

/* Rows of activations as the products read them: quantized, and (for packed weights) in tiles of rows. */
typedef struct ml_quantized {
    int8_t *quants; /* [rows][cols] */
    float *scales;  /* [rows][cols / ML_BLOCK] */
    int32_t *sums;  /* of each block's quants */
    int8_t *tile_quants;
    float *tile_scales;
    int32_t *tile_sums;
    bool tiled;
    int rows;
    int cols;
    double *squares; /* [cols], to which every input's squares are added, or NULL */
} ml_quantized;

/* The rows that belong to one tile: work on rows is split in multiples of it. */
int ml_quantized_grain(const ml_quantized *x);
/* Buffers for up to `rows` rows of up to `widest` columns. */
void ml_quantized_carve(ml_quantized *x, ml_arena *arena, bool tiled, int rows, int widest);
/* The input of one row of a product, in floats, passes here and nowhere else. */
void ml_quantize_row(ml_quantized *x, int row, const float *values);
/* After rows [first, last) are quantized: arranges their tiles. `first` is a multiple of the grain. */
void ml_quantized_arrange(ml_quantized *x, int first, int last);

/* y[row * stride + r] = matrix[r] . x[row] */
typedef struct ml_product {
    const ml_matrix *matrix;
    float *y;
    size_t stride;
} ml_product;

/* Several products of the same activations with one wake-up of the pool. */
void ml_products_run(ml_pool *pool, const ml_quantized *x, const ml_product *products, int count);

/* gate.y = activate(gate.matrix . x) * (up.matrix . x); both have the same rows. */
typedef struct ml_gated {
    ml_product gate;
    ml_product up;
    void (*activate)(float *gate, const float *up, int n);
} ml_gated;

void ml_gated_run(ml_pool *pool, const ml_quantized *x, const ml_gated *gated);

#endif
