/*
 * ml_k_tile_q8_neon
 * Arranges quantized activations of some tokens as this ISA's packed kernels read them.
 *
 * Written by krafla-gen from templates/tile_q8.c.j2 and isa_specs/neon.py (facets: pack, tile); do not edit.
 *
 * No dot product: vmull_s8 and vmlal_s8 add two steps' products of two rows in 16 bits (at most 2 * 128 *
 * 127), vpadalq_s16 adds pairs of those to 32 bits. Q4 products (nibbles of 0 to 15, eight of them a lane)
 * stay in 16 bits over the whole block; each of a row's four lanes starts with a quarter of -8 * sum(x).
 * tile_q8 writes every four activations four times, to meet four rows in the same halves of registers.
 */
#include "ml_config.h"
#include "core/arm_common.h"

/* One tile of `count` tokens: [block][step][token], so that the kernels read on from one pointer. */
static void one_tile(int8_t *xt, float *xdt, int32_t *xst, const int8_t *xq, const float *xd,
                     const int32_t *xs, size_t blocks, size_t count)
{
    for (size_t b = 0; b < blocks; b++) {
        for (size_t step = 0; step < 8; step++) {
            for (size_t t = 0; t < count; t++) {
                const int8_t *source = xq + (t * blocks + b) * ML_BLOCK + step * 4;
                int8_t *to = xt + ((b * 8 + step) * count + t) * 16;
                vst1q_s8(to, vreinterpretq_s8_s32(vdupq_n_s32(ml_load_i32(source))));
            }
        }
        for (size_t t = 0; t < count; t++) {
            xdt[b * count + t] = xd[t * blocks + b];
            xst[2 * b * count + t] = -0 * xs[t * blocks + b];
            xst[(2 * b + 1) * count + t] = -2 * xs[t * blocks + b];
        }
    }
}

/* One tile of `count` tokens: [block][step][token], so that the kernels read on from one pointer. */
static void paired_tile(int8_t *xt, float *xdt, int32_t *xst, const int8_t *xq, const float *xd,
                        const int32_t *xs, size_t blocks, size_t count)
{
    for (size_t b = 0; b < blocks; b++) {
        for (size_t step = 0; step < 4; step++) {
            for (size_t t = 0; t < count; t++) {
                const int8_t *source = xq + (t * blocks + b) * ML_BLOCK + step * 8;
                int8_t *to = xt + ((b * 4 + step) * count + t) * 16;
                ml_store_twice_neon(to, source);
            }
        }
        for (size_t t = 0; t < count; t++) {
            xdt[b * count + t] = xd[t * blocks + b];
            xst[2 * b * count + t] = -0 * xs[t * blocks + b];
            xst[(2 * b + 1) * count + t] = -2 * xs[t * blocks + b];
        }
    }
}

void ml_k_tile_q8_neon(int8_t *xt, float *xdt, int32_t *xst, const int8_t *xq, const float *xd,
                       const int32_t *xs, int cols, int tokens)
{
    const size_t blocks = (size_t)cols / ML_BLOCK;
    size_t t = 0;
    for (; t + 4 <= (size_t)tokens; t += 4)
        paired_tile(xt + t * blocks * 128, xdt + t * blocks, xst + t * blocks * 2, xq + t * blocks * ML_BLOCK,
                    xd + t * blocks, xs + t * blocks, blocks, 4);
    for (; t + 2 <= (size_t)tokens; t += 2)
        paired_tile(xt + t * blocks * 128, xdt + t * blocks, xst + t * blocks * 2, xq + t * blocks * ML_BLOCK,
                    xd + t * blocks, xs + t * blocks, blocks, 2);
    for (; t + 1 <= (size_t)tokens; t += 1)
        one_tile(xt + t * blocks * 128, xdt + t * blocks, xst + t * blocks * 2, xq + t * blocks * ML_BLOCK,
                 xd + t * blocks, xs + t * blocks, blocks, 1);
}
