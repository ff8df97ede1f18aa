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
    int32_t positions;   /* of all sequences and held pages together; 0: the context of every sequence */
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
    uint32_t pages;  /* of the cache of keys and values, in all */
    uint32_t page;   /* positions in one: ML_PAGE */
    uint32_t linear; /* 1: it has linear attention, so ml_sequence_reachable matters */
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
 * Pages, for caches of prefixes. A sequence's positions lie in pages of ML_PAGE positions; whoever holds a
 * page keeps it when its sequence is closed, and can start another sequence from it. What is in a page
 * depends on the tokens up to its end only.
 */
/* The pages of a sequence, the last perhaps unfinished: copies at most `capacity`, returns how many there
 * are; -1 if the sequence is not open. */
ML_API int32_t ml_sequence_pages(const ml_engine *engine, int32_t sequence, int32_t *pages, int32_t capacity);
/*
 * A new sequence whose first `length` positions lie in these pages, which must be in use and hold one text
 * from its start. In models with linear attention it may come out shorter, see ml_sequence_reachable.
 */
ML_API ml_status ml_sequence_resume(ml_engine *engine, const int32_t *pages, int32_t length,
                                    int32_t *sequence, ml_error *error);
/* Holds a page in use once more, or lets go of it. */
ML_API ml_status ml_page_hold(ml_engine *engine, int32_t page, ml_error *error);
ML_API ml_status ml_page_drop(ml_engine *engine, int32_t page, ml_error *error);
/* How many sequences and holders share a page; 0 if it is free. */
ML_API int32_t ml_page_references(const ml_engine *engine, int32_t page);
ML_API int32_t ml_pages_free(const ml_engine *engine);

/*
 * Runs the rows, in steps of at most `batch`. Rows that want logits write `vocab` floats each to `logits`, in
 * row order. The bits of a row's logits depend on its own sequence only. On error no sequence has changed;
 * ML_E_NOMEM if there are not enough free pages.
 */
ML_API ml_status ml_forward(ml_engine *engine, const ml_row *rows, int32_t n_rows, float *logits,
                            ml_error *error);

/* The same, but the rows write the model's last hidden state, normalized: `dim` floats each to `states`. */
ML_API ml_status ml_forward_states(ml_engine *engine, const ml_row *rows, int32_t n_rows, float *states,
                                   ml_error *error);
/* The free pages that these rows would take, or -1 if ml_forward would refuse them for another reason. */
ML_API int32_t ml_forward_pages(ml_engine *engine, const ml_row *rows, int32_t n_rows);

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

/*
 * Choosing with everything that changes the logits first, in this order: the repeat penalty divides positive
 * and multiplies negative logits of tokens that were seen; presence is subtracted for tokens with a count,
 * and frequency times the count; biases are added; tokens that are not allowed become -infinity. All of it
 * happens to a copy. Log-probabilities are those of the logits as they came: (logit - largest) - log(sum of
 * exp(logit - largest)), in double and in a fixed order, then rounded to float.
 */
typedef struct ml_choice {
    const float *logits;
    ml_sampler *sampler; /* NULL: `token` is given, only its log-probability is asked for */
    float repeat;        /* 1: off */
    float presence;
    float frequency;
    int32_t n_bias;
    const uint8_t *seen;   /* per token: not 0 if the repeat penalty is for it; or NULL */
    const int32_t *counts; /* per token, for presence and frequency; or NULL */
    const int32_t *bias_ids;
    const float *bias;
    const uint32_t *allowed; /* token i: bit i % 32 of word i / 32; NULL: all are */
    int32_t n_top;           /* how many of the likeliest tokens to tell; -1: no log-probabilities at all */
    int32_t token;           /* the choice */
    float logprob;           /* its log-probability */
    int32_t reserved;
    int32_t *top_ids; /* the likeliest first, among equals the lower id */
    float *top_logprobs;
} ml_choice;
/* Makes independent choices, on all threads. */
ML_API ml_status ml_choose(ml_engine *engine, ml_choice *choices, int32_t n_choices, ml_error *error);

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
/* 1 if the token is an added one (<s>, <|im_end|>). */
ML_API int32_t ml_tokenizer_is_added(const ml_tokenizer *tokenizer, int32_t id);
/* 1 if the token is no part of an answer's text: added, and neither white space nor a tag of HTML. */
ML_API int32_t ml_tokenizer_is_silent(const ml_tokenizer *tokenizer, int32_t id);

#endif
