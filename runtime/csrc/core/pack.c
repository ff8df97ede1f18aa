/*
 * pack.c: packing by words. A row's part of a step is ML_PACK_STEP bytes, so a block of a row is read in
 * order and its steps are written G * ML_PACK_STEP bytes apart; the G rows of a group fill the same cache
 * lines in turn.
 */
#include "pack.h"

#include "arena.h"

#if defined(ML_HAS_PACK)

#define G ML_PACK_GROUP

#if ML_PACK_STEP == 4
typedef uint32_t step;
#define REPEAT(byte) (0x01010101u * (uint32_t)(byte))
#elif ML_PACK_STEP == 1
typedef uint8_t step;
#define REPEAT(byte) ((uint8_t)(byte))
#else
#error "ML_PACK_STEP must be 1 or 4"
#endif

_Static_assert(ML_PACK_Q8_OFFSET == 0 || ML_PACK_Q8_OFFSET == 128,
               "adding 128 to a byte is flipping its top bit");

uint32_t ml_pack_groups(const ml_matrix *matrix)
{
    return (matrix->rows + G - 1) / G;
}

bool ml_pack_f16(const ml_matrix *matrix)
{
    return matrix->f16_scales && ML_PACK_F16_SCALES;
}

bool ml_pack_bytes(const ml_matrix *matrix, size_t *quant_bytes, size_t *scale_bytes)
{
    ml_matrix padded = *matrix;
    padded.f16_scales = ml_pack_f16(matrix);
    padded.rows = ml_pack_groups(matrix) * G; /* rows and G are far below 2^31 */
    return ml_matrix_bytes(&padded, quant_bytes, scale_bytes);
}

/* Some blocks of one row of a group. The constant `steps` unrolls the inner loop. */
ML_ALWAYS_INLINE void pack_row(step *out, const unsigned char *row, size_t blocks, int steps, step flip)
{
    for (size_t b = 0; b < blocks; b++) {
        for (int s = 0; s < steps; s++) {
            step word;
            memcpy(&word, row, sizeof word);
            row += sizeof word;
            out[s * G] = (step)(word ^ flip);
        }
        out += (size_t)steps * G;
    }
}

ML_ALWAYS_INLINE void fill_row(step *out, size_t blocks, int steps, step value)
{
    for (size_t i = 0; i < blocks * (size_t)steps; i++)
        out[i * G] = value;
}

/* All rows of a group, CHUNK blocks at a time: their output stays in the first-level cache until it is
 * complete. */
ML_ALWAYS_INLINE void pack_quants(const ml_matrix *matrix, unsigned char *out, uint32_t group, int steps,
                                  step flip, step zero)
{
    enum { CHUNK = 16 };
    size_t blocks = matrix->cols / ML_BLOCK, block_bytes = (size_t)steps * sizeof(step);
    size_t first = (size_t)group * G;
    step *to = (step *)(void *)(out + first * blocks * block_bytes);
    for (size_t b = 0; b < blocks; b += CHUNK) {
        size_t count = blocks - b < CHUNK ? blocks - b : CHUNK;
        step *chunk = to + b * (size_t)steps * G;
        for (size_t r = 0; r < G; r++) {
            const unsigned char *row =
                (const unsigned char *)matrix->quants + (first + r) * blocks * block_bytes;
            if (first + r < matrix->rows)
                pack_row(chunk + r, row + b * block_bytes, count, steps, flip);
            else
                fill_row(chunk + r, count, steps, zero);
        }
    }
}

static void pack_scales(const ml_matrix *matrix, void *out, uint32_t group)
{
    size_t blocks = matrix->cols / ML_BLOCK, first = (size_t)group * G;
    const uint16_t *halves = matrix->scales;
    const float *floats = matrix->scales;
    uint16_t *half_out = (uint16_t *)out + first * blocks;
    float *float_out = (float *)out + first * blocks;
    for (size_t r = 0; r < G; r++) {
        size_t from = (first + r) * blocks;
        bool padding = first + r >= matrix->rows;
        if (ml_pack_f16(matrix))
            for (size_t b = 0; b < blocks; b++)
                half_out[b * G + r] = padding ? 0 : halves[from + b];
        else if (matrix->f16_scales)
            for (size_t b = 0; b < blocks; b++)
                float_out[b * G + r] = padding ? 0 : ml_f16_to_f32(halves[from + b]);
        else
            for (size_t b = 0; b < blocks; b++)
                float_out[b * G + r] = padding ? 0 : floats[from + b];
    }
}

void ml_pack_part(const ml_matrix *matrix, void *quants, void *scales, uint32_t start, uint32_t end)
{
    enum { Q8_STEPS = ML_BLOCK / ML_PACK_STEP, Q4_STEPS = ML_BLOCK / 2 / ML_PACK_STEP };
    for (uint32_t group = start; group < end; group++) {
        if (matrix->wtype == ML_WTYPE_Q8_0)
            pack_quants(matrix, quants, group, Q8_STEPS, REPEAT(ML_PACK_Q8_OFFSET),
                        REPEAT(ML_PACK_Q8_OFFSET));
        else
            pack_quants(matrix, quants, group, Q4_STEPS, REPEAT(ML_PACK_Q4_XOR),
                        REPEAT(0x88 ^ ML_PACK_Q4_XOR));
        pack_scales(matrix, scales, group);
    }
}

void ml_pack_matrix(const ml_matrix *matrix, void *quants, void *scales)
{
    ml_pack_part(matrix, quants, scales, 0, ml_pack_groups(matrix));
}

#endif
