/*
 * rope.h: tables of the cosines and sines by which pairs of query and key dimensions are rotated. Computed
 * once at load with the project's own functions, so that no bit depends on a libc.
 */
#ifndef ML_ROPE_H
#define ML_ROPE_H

#include "../core/arena.h"
#include "mlb.h"

typedef struct ml_rope {
    float *cosines; /* [positions][pairs] */
    float *sines;
    int pairs;
} ml_rope;

/* A dimension pair's angle per position: of the global base with the model's scaling, or of the local base.
 */
double ml_rope_frequency(const ml_config *config, bool local, int pair);
void ml_rope_carve(ml_rope *rope, ml_arena *arena, const ml_config *config, int positions);
/* Fills carved tables for one of the two bases. */
void ml_rope_fill(ml_rope *rope, const ml_config *config, bool local, int positions);

#endif
