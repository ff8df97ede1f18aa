/* imatrix.c: where sums lie, and the file they go to. */
#include "imatrix.h"

#include "../core/file.h"

enum { HEADER_BYTES = 40 };

static int width_of(const ml_plan *plan, const ml_layer_plan *layer, int input)
{
    switch (input) {
    case ML_INPUT_OUT:
        return layer->linear ? (int)layer->weights->lz.rows : plan->q_dim;
    case ML_INPUT_DOWN:
        return plan->hidden_dim;
    default:
        return plan->dim;
    }
}

static size_t offset_of(const ml_plan *plan, int layer, int input)
{
    size_t offset = 0;
    for (int i = 0; i <= layer && i < plan->n_layers; i++)
        for (int k = 0; k < (i == layer ? input : (int)ML_INPUTS); k++)
            offset += (size_t)width_of(plan, &plan->layers[i], k);
    return offset;
}

void ml_imatrix_carve(ml_imatrix *imatrix, ml_arena *arena, const ml_plan *plan)
{
    if (!imatrix->on)
        return;
    imatrix->count = offset_of(plan, plan->n_layers, 0) + (size_t)plan->dim;
    imatrix->sums = ml_arena_take(arena, imatrix->count, sizeof *imatrix->sums);
}

double *ml_imatrix_sums(const ml_imatrix *imatrix, const ml_plan *plan, int layer, int input)
{
    return imatrix->on ? imatrix->sums + offset_of(plan, layer, input) : NULL;
}

ml_status ml_imatrix_save(const ml_imatrix *imatrix, const ml_plan *plan, const char *path, ml_error *error)
{
    unsigned char header[HEADER_BYTES] = "MLI1";
    const uint32_t numbers[] = {1, (uint32_t)plan->n_layers, (uint32_t)plan->dim, (uint32_t)plan->hidden_dim,
                                plan->q_dim != plan->dim ? (uint32_t)plan->q_dim : 0};
    memcpy(header + 4, numbers, sizeof numbers);
    memcpy(header + 24, &imatrix->layer_tokens, sizeof imatrix->layer_tokens);
    memcpy(header + 32, &imatrix->classifier_tokens, sizeof imatrix->classifier_tokens);
    const ml_span spans[] = {{header, sizeof header}, {imatrix->sums, imatrix->count * sizeof(double)}};
    return ml_file_write_atomically(path, spans, 2, error);
}
