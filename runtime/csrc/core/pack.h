/*
 * pack.h: the row-interleaved layout that the packed kernels read. G rows form a group, one 32-bit lane owns
 * one row. Inside a group, blocks follow each other; a block is a run of steps, a step holds ML_PACK_STEP
 * bytes of each of the G rows. Scales lie apart: [group][block][G]. Rows that fill up the last group are
 * zero. ML_PACK_GROUP, ML_PACK_STEP, ML_PACK_Q8_OFFSET, ML_PACK_Q4_XOR and ML_PACK_F16_SCALES come from the
 * ISA's descriptor through ml_config.h; without ML_HAS_PACK there are no packed kernels.
 */
#ifndef ML_PACK_H
#define ML_PACK_H

#include "../model/mlb.h"
#include "ml_config.h"

#if defined(ML_HAS_PACK)

/* Groups of rows, the last one filled up. */
uint32_t ml_pack_groups(const ml_matrix *matrix);
/* True if the packed scales stay halves: the file's are, and the packed kernels read them. */
bool ml_pack_f16(const ml_matrix *matrix);
/* Bytes of the packed quants and scales of a matrix; false if they overflow size_t. */
bool ml_pack_bytes(const ml_matrix *matrix, size_t *quant_bytes, size_t *scale_bytes);
/* Packs groups [start, end) into the two arrays (both ML_ALIGN-aligned, sized by ml_pack_bytes). */
void ml_pack_part(const ml_matrix *matrix, void *quants, void *scales, uint32_t start, uint32_t end);
/* Packs all groups. */
void ml_pack_matrix(const ml_matrix *matrix, void *quants, void *scales);

#endif
#endif
