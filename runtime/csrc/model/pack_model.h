/*
 * pack_model.h: makes a mapped model ready to run: checks its Q8 quants, and either packs every matrix (or
 * maps the pack cache), or widens half-precision scales for the row-major kernels. Embedding rows stay in the
 * file.
 *
 *     ml_model_map(&model, path, error)             header, sizes, pointers: reads no weights
 *     ml_model_predict(&model, pack, &memory)       what the next call will need
 *     ml_weights_prepare(&weights, &model, pool, &how, error)
 *     ... run ...
 *     ml_weights_release(&weights); ml_model_close(&model)
 */
#ifndef ML_PACK_MODEL_H
#define ML_PACK_MODEL_H

#include "../core/threads.h"
#include "../krafla.h"
#include "mlb.h"

typedef struct ml_weights_how {
    bool pack;              /* false, or a build without packed kernels: row-major */
    const char *cache_path; /* the pack cache to map or write, or NULL */
    ml_progress
        progress; /* or NULL; what: "packing weights", "checking weights" or "writing the pack cache" */
    void *progress_context;
} ml_weights_how;

typedef struct ml_weights {
    void *pages; /* packed arrays or widened scales in memory of our own, or NULL */
    size_t bytes;
    ml_file cache; /* the mapped pack cache if cache_hit */
    bool packed;
    bool cache_hit;
    char notice[1020]; /* why the pack cache was not written: not an error, but the user should read it; or ""
                        */
} ml_weights;

typedef struct ml_memory {
    uint64_t own;    /* allocated for the weights: packed arrays or widened scales */
    uint64_t mapped; /* file bytes that running reads: norms, biases, row-major matrices, at most all
                        embedding rows */
    uint64_t peak;   /* resident at most while preparing, embedding rows and engine buffers not included */
} ml_memory;

/* Predicts from the header alone; ML_E_NOMEM if the sizes overflow. */
ml_status ml_model_predict(const ml_model *model, bool pack, ml_memory *memory, ml_error *error);
/*
 * Sets `packed`, `packed_scales`, `packed_f16` of every matrix but tok_emb (and quants, scales to NULL), or
 * leaves them row-major with float scales. tok_emb keeps its quants and scales as in the file (float or
 * half). On error nothing stays allocated. A stop asked for by `progress` gives ML_E_ARGUMENT and "stopped".
 */
ml_status ml_weights_prepare(ml_weights *weights, ml_model *model, ml_pool *pool, const ml_weights_how *how,
                             ml_error *error);
void ml_weights_release(ml_weights *weights);

#endif
