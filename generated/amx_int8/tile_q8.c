/*
 * ml_k_tile_q8_amx_int8
 * Arranges quantized activations of some tokens as this ISA's packed kernels read them.
 *
 * Written by krafla-gen from templates/tile_q8.c.j2 and isa_specs/amx_int8.py (facets: pack, tile); do not
 * edit.
 *
 * vpdpbusd wants unsigned weights: Q8 weights are stored with +128 and Q4 nibbles raw (weight + 8). Each
 * block starts from -128 * sum(x) or -8 * sum(x), so its int32 sum is exact.
 */
#include "ml_config.h"
#include "core/x86_common.h"

/* One tile of `count` tokens: [block][step][token], so that the kernels read on from one pointer. */
static void one_tile(int8_t *xt, float *xdt, int32_t *xst, const int8_t *xq, const float *xd,
                     const int32_t *xs, size_t blocks, size_t count)
{
    for (size_t b = 0; b < blocks; b++) {
        for (size_t step = 0; step < 8; step++) {
            for (size_t t = 0; t < count; t++) {
                const int8_t *source = xq + (t * blocks + b) * ML_BLOCK + step * 4;
                int8_t *to = xt + ((b * 8 + step) * count + t) * 4;
                memcpy(to, source, 4);
            }
        }
        for (size_t t = 0; t < count; t++) {
            xdt[b * count + t] = xd[t * blocks + b];
            xst[2 * b * count + t] = -128 * xs[t * blocks + b];
            xst[(2 * b + 1) * count + t] = -8 * xs[t * blocks + b];
        }
    }
}

/* What the matrix unit takes at once: [block][token][32]. */
static void matrix_tile(int8_t *xt, float *xdt, const int8_t *xq, const float *xd, size_t blocks)
{
    for (size_t b = 0; b < blocks; b++) {
        for (size_t t = 0; t < 16; t++) {
            memcpy(xt + (b * 16 + t) * ML_BLOCK, xq + (t * blocks + b) * ML_BLOCK, ML_BLOCK);
            xdt[b * 16 + t] = xd[t * blocks + b];
        }
    }
}

void ml_k_tile_q8_amx_int8(int8_t *xt, float *xdt, int32_t *xst, const int8_t *xq, const float *xd,
                           const int32_t *xs, int cols, int tokens)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    size_t t = 0;
    for (; t + 16 <= (size_t)tokens; t += 16)
        matrix_tile(xt + t * blocks * ML_BLOCK, xdt + t * blocks, xq + t * blocks * ML_BLOCK, xd + t * blocks,
                    blocks);
    for (; t + 12 <= (size_t)tokens; t += 12)
        one_tile(xt + t * blocks * 32, xdt + t * blocks, xst + t * blocks * 2, xq + t * blocks * ML_BLOCK,
                 xd + t * blocks, xs + t * blocks, blocks, 12);
    for (; t + 8 <= (size_t)tokens; t += 8)
        one_tile(xt + t * blocks * 32, xdt + t * blocks, xst + t * blocks * 2, xq + t * blocks * ML_BLOCK,
                 xd + t * blocks, xs + t * blocks, blocks, 8);
    for (; t + 4 <= (size_t)tokens; t += 4)
        one_tile(xt + t * blocks * 32, xdt + t * blocks, xst + t * blocks * 2, xq + t * blocks * ML_BLOCK,
                 xd + t * blocks, xs + t * blocks, blocks, 4);
    for (; t + 2 <= (size_t)tokens; t += 2)
        one_tile(xt + t * blocks * 32, xdt + t * blocks, xst + t * blocks * 2, xq + t * blocks * ML_BLOCK,
                 xd + t * blocks, xs + t * blocks, blocks, 2);
    for (; t + 1 <= (size_t)tokens; t += 1)
        one_tile(xt + t * blocks * 32, xdt + t * blocks, xst + t * blocks * 2, xq + t * blocks * ML_BLOCK,
                 xd + t * blocks, xs + t * blocks, blocks, 1);
}
