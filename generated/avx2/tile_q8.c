/*
 * ml_k_tile_q8_avx2
 * Arranges quantized activations of some tokens as this ISA's packed kernels read them.
 *
 * Written by krafla-gen from templates/tile_q8.c.j2 and isa_specs/avx2.py (facets: pack, tile); do not edit.
 *
 * pmaddubsw wants one unsigned operand: |w| times x with w's sign (psignb) is w times x, and 127 * 127 * 2
 * stays below 32767. Q4 nibbles are unsigned already; the eight pair sums of a block (at most 30480) are
 * added in int16 before a single pmaddwd, and -8 * sum(x) makes the sum exact.
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
            xst[2 * b * count + t] = -0 * xs[t * blocks + b];
            xst[(2 * b + 1) * count + t] = -8 * xs[t * blocks + b];
        }
    }
}

void ml_k_tile_q8_avx2(int8_t *xt, float *xdt, int32_t *xst, const int8_t *xq, const float *xd,
                       const int32_t *xs, int cols, int tokens)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    size_t t = 0;
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
