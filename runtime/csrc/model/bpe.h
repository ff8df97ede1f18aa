/*
 * bpe.h: the inside of a tokenizer. Two readers fill it (mlt.c for .mlt, llama2_tokenizer.c for
 * tokenizer.bin), bpe.c makes it ready and encodes with it, tokenizer.c is the public face.
 */
#ifndef ML_BPE_H
#define ML_BPE_H

#include "core/file.h"
#include "core/ml.h"
#include "krafla.h"

/* Flags of the .mlt header. */
enum {
    ML_MLT_BOS = 1,           /* prepend BOS */
    ML_MLT_IGNORE_MERGES = 2, /* a whole pre-token found in the vocabulary is one token */
    ML_MLT_PREFIX_ONCE = 4,   /* SentencePiece: prefix only at the start of the text */
    ML_MLT_NFC = 8,           /* byte-level: normalize the text between added tokens */
    ML_MLT_ONE_NUMBER = 16,   /* byte-level: \p{N} instead of \p{N}{1,3} */
    ML_MLT_GPT2 = 32,         /* byte-level: the GPT-2 regex instead of the Llama 3 one */
    ML_MLT_SPLIT_DIGITS = 64, /* byte-level: every number is split off before the regex */
    ML_MLT_NO_PREFIX = 128,   /* SentencePiece: no prefix anywhere */
    ML_MLT_MARKS = 256,       /* byte-level: \p{M} counts as a letter in the Llama 3 regex */
    ML_MLT_ALL_FLAGS = 511,
};

enum { ML_PIECE_ADDED = 1, ML_PIECE_BYTE = 2 };

enum { ML_MAX_VOCAB = 1 << 24, ML_MAX_EOS = 4096 };

typedef struct ml_piece {
    const uint8_t *bytes; /* as encoding matches it */
    const uint8_t *text;  /* as decoding writes it: U+2581 is a space */
    uint32_t length;
    uint32_t text_length;
    uint8_t attr; /* 0, ML_PIECE_ADDED or ML_PIECE_BYTE */
} ml_piece;

typedef struct ml_merge {
    uint32_t left;
    uint32_t right;
    uint32_t merged;
    uint32_t rank;
} ml_merge;

typedef struct ml_added {
    const uint8_t *bytes;
    uint32_t length;
    uint32_t id;
} ml_added;

/* Memory that grows and is kept for the next call. */
typedef struct ml_buffer {
    void *data;
    size_t bytes;
} ml_buffer;

struct ml_tokenizer {
    ml_file file; /* stays open: pieces point into it */
    bool byte_level;
    uint32_t flags;
    int32_t bos; /* or -1 */
    int32_t *eos;
    uint32_t n_eos;
    uint32_t n_pieces;
    uint32_t n_merges;
    ml_piece *pieces;
    ml_merge *merges;
    uint8_t *texts;    /* SentencePiece: what the pieces' `text` points to */
    const char *space; /* what a space becomes: U+2581, or itself in tokenizer.bin */
    bool match_added;

    /* Made by ml_bpe_index. */
    int32_t byte_ids[256];
    uint32_t *by_bytes; /* hash table of ids + 1, 0 is free */
    uint32_t bytes_mask;
    uint32_t *by_pair; /* hash table of merge indices + 1, 0 is free */
    uint32_t pair_mask;
    uint32_t longest_piece;
    ml_added *added; /* in the order of their bytes */
    uint32_t n_added;
    bool starts_added[256]; /* by first byte */

    /* The workspace of encoding. */
    ml_buffer clean, normal, codes, scratch, symbols, heap;
};

/* Readers: fill a zeroed tokenizer whose file is open; `path` is for the sentence. */
ml_status ml_mlt_read(ml_tokenizer *tokenizer, const char *path, ml_error *error);
ml_status ml_llama2_read(ml_tokenizer *tokenizer, const char *path, ml_error *error);

/* Builds the hash table of the pieces. Merges may be added to the tokenizer afterwards. */
ml_status ml_bpe_index_pieces(ml_tokenizer *tokenizer, const char *path, ml_error *error);
/* Builds the rest: pairs, single bytes, added pieces. Refuses repeated pairs and missing byte pieces. */
ml_status ml_bpe_index(ml_tokenizer *tokenizer, const char *path, ml_error *error);
/* The id of the ordinary piece with these bytes (or, for one character, of an added one), or -1. */
int32_t ml_bpe_find(const ml_tokenizer *tokenizer, const uint8_t *bytes, size_t length);

/* Where ids go; what does not fit is only counted. */
typedef struct ml_ids {
    int32_t *ids;
    size_t capacity;
    size_t count;
} ml_ids;

/* Appends the ids of the text, without BOS. */
ml_status ml_bpe_encode(ml_tokenizer *tokenizer, const uint8_t *text, size_t length, bool match_added,
                        ml_ids *out, ml_error *error);

/* calloc with a checked product; NULL if it does not fit. */
void *ml_allocate(size_t count, size_t size);

#endif
