/*
 * krafla.h: the public interface of the engine. A program opens an engine on an .mlb file, opens sequences in
 * it, and runs forward steps over rows of (sequence, position, token). Nothing is allocated after
 * ml_engine_open.
 *
 * The Python bindings are made from this header: every prototype starts with ML_API and stands on its own.
 */
#ifndef KRAFLA_H
#define KRAFLA_H

#include "core/isa_check.h"
#include "core/ml.h"

typedef struct ml_engine ml_engine;
typedef struct ml_tokenizer ml_tokenizer;

enum { ML_KV_F32 = 0, ML_KV_F16 = 1, ML_KV_Q8 = 2 };

/* Called while a long step runs; done goes from 0 to total. A non-zero return asks to stop. */
typedef int32_t (*ml_progress)(void *context, const char *what, uint64_t done, uint64_t total);

typedef struct ml_options {
    int32_t threads;     /* 0: ml_threads_default() */
    int32_t context;     /* positions per sequence; 0: the model's max_seq, at most 4096 */
    int32_t batch;       /* rows per step at most; 0: 128 */
    int32_t sequences;   /* open at the same time; 0: 1 */
    int32_t kv_type;     /* ML_KV_* */
    int32_t pack;        /* 0: keep the row-major kernels */
    int32_t profile;     /* 1: measure stages */
    int32_t checkpoints; /* states kept to go back to, in models with linear attention; 0: 4 per sequence */
    int32_t imatrix;     /* 1: add up squares of activations, for ml_imatrix_write */
    int32_t reserved;
    const char *pack_cache; /* path of the packed copy to map or write, or NULL */
    ml_progress progress;   /* or NULL */
    void *progress_context;
} ml_options;

/* What an engine is and needs, for messages and `doctor`. */
typedef struct ml_info {
    uint32_t dim;
    uint32_t n_layers;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t hidden_dim;
    uint32_t vocab;
    uint32_t max_seq;
    uint32_t wtype;
    uint32_t context;
    uint32_t batch;
    uint32_t threads;
    uint32_t sequences;
    uint32_t kv_type;
    uint32_t packed;
    uint32_t pack_cache_hit;
    uint64_t file_bytes;
    uint64_t weight_bytes; /* resident while running */
    uint64_t arena_bytes;  /* activations, tables, logits */
    uint64_t kv_bytes;
    uint64_t peak_bytes; /* predicted: by how much the process grows at most, loading included */
} ml_info;

/* One row of a forward step. */
typedef struct ml_row {
    int32_t sequence;
    int32_t position; /* must continue the sequence: its current length plus earlier rows of this call */
    int32_t token;
    int32_t wants_logits;
} ml_row;

/* Fills `info` from the header alone (no weights read): the predicted memory for these options. */
ML_API ml_status ml_engine_predict(ml_info *info, const char *path, const ml_options *options,
                                   ml_error *error);
ML_API ml_status ml_engine_open(ml_engine **engine, const char *path, const ml_options *options,
                                ml_error *error);
ML_API void ml_engine_close(ml_engine *engine);
ML_API void ml_engine_info(const ml_engine *engine, ml_info *info);
/* What the user should read though it is no error (why the pack cache was not written), or "". */
ML_API const char *ml_engine_notice(const ml_engine *engine);

/* A new empty sequence, or ML_E_NOMEM when all are open. */
ML_API ml_status ml_sequence_open(ml_engine *engine, int32_t *sequence, ml_error *error);
/* A new sequence that shares the first `length` positions (which must be reachable) of another; pages are
 * copied when written. */
ML_API ml_status ml_sequence_fork(ml_engine *engine, int32_t source, int32_t length, int32_t *sequence,
                                  ml_error *error);
/*
 * The largest length, up to `length`, to which a sequence can be truncated, or at which it can be forked:
 * `length` itself, except in models with linear attention, which can only go back to 0 and to the multiples
 * of 64 positions of which a checkpoint is kept. -1 if the sequence is not open or shorter.
 */
ML_API int32_t ml_sequence_reachable(const ml_engine *engine, int32_t sequence, int32_t length);
/* Forgets the positions from `length` on, which must be reachable. */
ML_API ml_status ml_sequence_truncate(ml_engine *engine, int32_t sequence, int32_t length, ml_error *error);
ML_API int32_t ml_sequence_length(const ml_engine *engine, int32_t sequence);
ML_API void ml_sequence_close(ml_engine *engine, int32_t sequence);

/*
 * Runs the rows, in steps of at most `batch`. Rows that want logits write `vocab` floats each to `logits`, in
 * row order. The bits of a row's logits depend on its own sequence only. On error no sequence has changed.
 */
ML_API ml_status ml_forward(ml_engine *engine, const ml_row *rows, int32_t n_rows, float *logits,
                            ml_error *error);

/* Writes the importance matrix of all tokens so far; the engine must have been opened with `imatrix`. */
ML_API ml_status ml_imatrix_write(const ml_engine *engine, const char *path, ml_error *error);

/* Seconds per stage since the last reset; `ml_profile_stages` names them, `count` at most ML_PROFILE_STAGES.
 */
enum { ML_PROFILE_STAGES = 6 };
ML_API const char *ml_profile_stage_name(int32_t stage);
ML_API void ml_profile_read(const ml_engine *engine, double *seconds);
ML_API void ml_profile_reset(ml_engine *engine);

/* Sampling: greedy when temperature is 0, else top-k, top-p and min-p filters and a seeded generator. */
typedef struct ml_sampler {
    float temperature;
    float top_p;    /* 1: off */
    float min_p;    /* 0: off */
    int32_t top_k;  /* 0: off */
    uint64_t state; /* of xorshift64*; ml_sampler_seed sets it */
} ml_sampler;
ML_API void ml_sampler_seed(ml_sampler *sampler, uint64_t seed);
/* Picks a token; `scratch` holds 2 * vocab 32-bit values, `logits` is not changed. */
ML_API int32_t ml_sample(ml_sampler *sampler, const float *logits, int32_t vocab, uint32_t *scratch);

/* Tokenizers: .mlt files and llama2.c's tokenizer.bin. `vocab` is the model's; a larger tokenizer is refused.
 */
ML_API ml_status ml_tokenizer_open(ml_tokenizer **tokenizer, const char *path, int32_t vocab,
                                   ml_error *error);
ML_API void ml_tokenizer_close(ml_tokenizer *tokenizer);
ML_API int32_t ml_tokenizer_vocab(const ml_tokenizer *tokenizer);
ML_API int32_t ml_tokenizer_bos(const ml_tokenizer *tokenizer);
/* Ids at which generation stops; returns how many there are and copies at most `capacity`. */
ML_API int32_t ml_tokenizer_eos(const ml_tokenizer *tokenizer, int32_t *ids, int32_t capacity);

enum { ML_ENCODE_BOS = 1, ML_ENCODE_NO_BOS = 2, ML_ENCODE_NO_ADDED = 4 }; /* 0: as the tokenizer file says */
/*
 * Encodes UTF-8 text of `length` bytes (invalid bytes count as U+FFFD). Writes at most `capacity` ids and
 * sets *count to the full number, so that a caller can come back with more room.
 */
ML_API ml_status ml_tokenizer_encode(ml_tokenizer *tokenizer, const char *text, size_t length, int32_t flags,
                                     int32_t *ids, size_t capacity, size_t *count, ml_error *error);
/* The bytes of one token (not zero-terminated, may be part of a character); `previous` is -1 at the start. */
ML_API ml_status ml_tokenizer_decode(const ml_tokenizer *tokenizer, int32_t previous, int32_t id,
                                     const char **bytes, size_t *length, ml_error *error);
/* 1 if the token is an added one (<s>, <|im_end|>): not text. */
ML_API int32_t ml_tokenizer_is_added(const ml_tokenizer *tokenizer, int32_t id);

#endif
