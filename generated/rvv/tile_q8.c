/*
 * ml_k_tile_q8_rvv
 * Arranges quantized activations of some tokens as this ISA's packed kernels read them.
 *
 * Written by krafla-gen from templates/tile_q8.c.j2 and isa_specs/rvv.py (facets: pack, tile); do not edit.
 *
 * No byte dot product, but bytes times a scalar: a step is one byte of each of sixteen rows, so the
 * activation is a scalar operand. Two products (at most 32258) fit into 16 bits before they are widened.
 * Q4 bytes are stored XOR 0x88, so that a nibble is the signed value q - 8; all 32 products of a block (at
 * most 32512) fit into 16 bits.
 */
#include "ml_config.h"
#include "core/riscv_common.h"

/* One tile of `count` tokens: [block][step][token], so that the kernels read on from one pointer. */
static void one_tile(int8_t *xt, float *xdt, int32_t *xst, const int8_t *xq, const float *xd,
                     const int32_t *xs, size_t blocks, size_t count)
{
    for (size_t b = 0; b < blocks; b++) {
        for (size_t step = 0; step < 16; step++) {
            for (size_t t = 0; t < count; t++) {
                const int8_t *source = xq + (t * blocks + b) * ML_BLOCK + step * 2;
                int8_t *to = xt + ((b * 16 + step) * count + t) * 2;
                memcpy(to, source, 2);
            }
        }
        for (size_t t = 0; t < count; t++) {
            xdt[b * count + t] = xd[t * blocks + b];
            xst[2 * b * count + t] = -0 * xs[t * blocks + b];
            xst[(2 * b + 1) * count + t] = -0 * xs[t * blocks + b];
        }
    }
}

void ml_k_tile_q8_rvv(int8_t *xt, float *xdt, int32_t *xst, const int8_t *xq, const float *xd,
                      const int32_t *xs, int cols, int tokens)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    size_t t = 0;
    for (; t + 2 <= (size_t)tokens; t += 2)
        one_tile(xt + t * blocks * 32, xdt + t * blocks, xst + t * blocks * 2, xq + t * blocks * ML_BLOCK,
                 xd + t * blocks, xs + t * blocks, blocks, 2);
    for (; t + 1 <= (size_t)tokens; t += 1)
        one_tile(xt + t * blocks * 32, xdt + t * blocks, xst + t * blocks * 2, xq + t * blocks * ML_BLOCK,
                 xd + t * blocks, xs + t * blocks, blocks, 1);
}
