/*
 * ml_k_tile_q8_sse2
 * Arranges quantized activations of some tokens as this ISA's packed kernels read them.
 *
 * Written by krafla-gen from templates/tile_q8.c.j2 and isa_specs/sse2.py (facets: pack, tile); do not edit.
 *
 * There is no 8-bit multiply. A 16-bit lane of a weight step holds two bytes of one row; they are split
 * into the even byte (w & 0xff) and the odd byte (w >> 8, logical), and pair sums of 16-bit products give
 * one partial sum per row. That needs unsigned weights: Q8 is stored with +128, and -128 * sum(x) is
 * added. Activations are expanded once per call into matching broadcast pairs, so the inner loop has no
 * shuffles, which matters on CPUs with one shuffle port.
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
                int8_t *to = xt + ((b * 8 + step) * count + t) * 32;
                _mm_storeu_si128((void *)(to), _mm_set1_epi32(ml_pair_i16(source[0], source[2])));
                _mm_storeu_si128((void *)(to + 16), _mm_set1_epi32(ml_pair_i16(source[1], source[3])));
            }
        }
        for (size_t t = 0; t < count; t++) {
            xdt[b * count + t] = xd[t * blocks + b];
            xst[2 * b * count + t] = -128 * xs[t * blocks + b];
            xst[(2 * b + 1) * count + t] = -8 * xs[t * blocks + b];
        }
    }
}

void ml_k_tile_q8_sse2(int8_t *xt, float *xdt, int32_t *xst, const int8_t *xq, const float *xd,
                       const int32_t *xs, int cols, int tokens)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    size_t t = 0;
    for (; t + 4 <= (size_t)tokens; t += 4)
        one_tile(xt + t * blocks * 256, xdt + t * blocks, xst + t * blocks * 2, xq + t * blocks * ML_BLOCK,
                 xd + t * blocks, xs + t * blocks, blocks, 4);
    for (; t + 2 <= (size_t)tokens; t += 2)
        one_tile(xt + t * blocks * 256, xdt + t * blocks, xst + t * blocks * 2, xq + t * blocks * ML_BLOCK,
                 xd + t * blocks, xs + t * blocks, blocks, 2);
    for (; t + 1 <= (size_t)tokens; t += 1)
        one_tile(xt + t * blocks * 256, xdt + t * blocks, xst + t * blocks * 2, xq + t * blocks * ML_BLOCK,
                 xd + t * blocks, xs + t * blocks, blocks, 1);
}
