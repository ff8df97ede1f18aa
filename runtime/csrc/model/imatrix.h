/*
 * imatrix.h: importance matrices: for the input of every product, the sum over all tokens of each channel's
 * square. A quantizer spends its accuracy on the channels that matter. While sums are taken, rows pass on one
 * thread, in order, and all rows go through the whole last layer: the sums depend on the tokens only.
 */
#ifndef ML_IMATRIX_H
#define ML_IMATRIX_H

#include "../core/arena.h"
#include "plan.h"

/* The inputs of a layer's products, in the order of the file. */
enum { ML_INPUT_MIX, ML_INPUT_OUT, ML_INPUT_FFN, ML_INPUT_DOWN, ML_INPUTS };

typedef struct ml_imatrix {
    bool on;
    double *sums; /* as in the file: layer by layer, then the classifier's input */
    size_t count;
    uint64_t layer_tokens;
    uint64_t classifier_tokens;
} ml_imatrix;

void ml_imatrix_carve(ml_imatrix *imatrix, ml_arena *arena, const ml_plan *plan);
/* The sums of one input; of the classifier's for layer n_layers. NULL if none are taken. */
double *ml_imatrix_sums(const ml_imatrix *imatrix, const ml_plan *plan, int layer, int input);
/* Writes the file. */
ml_status ml_imatrix_save(const ml_imatrix *imatrix, const ml_plan *plan, const char *path, ml_error *error);

#endif
