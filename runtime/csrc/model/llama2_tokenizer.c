/*
 * llama2.c's tokenizer.bin: i32 longest token, then for each token f32 score, i32 length, bytes. Ids 0 to 2
 * are <unk>, <s> and </s>, 3 to 258 the bytes. It has no merges: any two tokens whose texts join to a token
 * may merge, the best score first. Here every such pair becomes a merge at load, so that both kinds share one
 * encoder.
 */
#include "model/bpe.h"

#include <stdio.h>
#include <stdlib.h>

enum { UNK = 0, BOS = 1, EOS = 2, FIRST_BYTE = 3, FIRST_PIECE = FIRST_BYTE + 256, LONGEST_TOKEN = 512 };

typedef struct score {
    float value;
    uint32_t id;
} score;

static int32_t i32_at(const uint8_t *data)
{
    return (int32_t)(data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
}

static ml_status not_a_tokenizer(const char *path, const ml_file *file, const char *reason, long long value,
                                 ml_error *error)
{
    char magic[5] = {0};
    for (size_t i = 0; i < 4 && i < file->size; i++)
        magic[i] = file->data[i] >= 0x20 && file->data[i] < 0x7f ? (char)file->data[i] : '?';
    return ml_fail(error, ML_E_FORMAT,
                   "%s: magic is \"%s\", not MLT1, and as a llama2.c tokenizer.bin %s %lld", path, magic,
                   reason, value);
}

/* Walks over the tokens; counts them, and keeps them if `pieces` is given. */
static ml_status walk(const ml_file *file, const char *path, ml_piece *pieces, score *scores, uint32_t *count,
                      ml_error *error)
{
    int32_t longest = file->size >= 4 ? i32_at(file->data) : 0;
    if (longest < 1 || longest > LONGEST_TOKEN)
        return not_a_tokenizer(path, file, "its longest token is", longest, error);
    *count = 0;
    for (size_t at = 4; at < file->size; (*count)++) {
        if (*count >= ML_MAX_VOCAB)
            return not_a_tokenizer(path, file, "it has more tokens than", ML_MAX_VOCAB, error);
        if (file->size - at < 8)
            return not_a_tokenizer(path, file, "it ends in token", *count, error);
        float value = ml_float_of((uint32_t)i32_at(file->data + at));
        int32_t length = i32_at(file->data + at + 4);
        at += 8;
        if (length < 0 || length > longest || (size_t)length > file->size - at)
            return not_a_tokenizer(path, file, "it has a token of length", length, error);
        if (!isfinite(value))
            return not_a_tokenizer(path, file, "it has a score that is not finite, of token", *count, error);
        if (pieces) {
            pieces[*count] =
                (ml_piece){file->data + at, file->data + at, (uint32_t)length, (uint32_t)length, 0};
            scores[*count] = (score){value, *count};
        }
        at += (size_t)length;
    }
    if (*count < FIRST_PIECE)
        return not_a_tokenizer(path, file, "it has too few tokens:", *count, error);
    return ML_OK;
}

/* Tokens 3 to 258 are written <0x00> to <0xFF> in the file and stand for single bytes. */
static ml_status set_bytes(ml_tokenizer *tokenizer, const char *path, ml_error *error)
{
    tokenizer->texts = ml_allocate(256, 1);
    if (!tokenizer->texts)
        return ml_fail(error, ML_E_NOMEM, "%s: no memory for the byte tokens", path);
    for (uint32_t byte = 0; byte < 256; byte++) {
        ml_piece *piece = &tokenizer->pieces[FIRST_BYTE + byte];
        char expected[8];
        snprintf(expected, sizeof expected, "<0x%02X>", byte);
        if (piece->length != 6 || memcmp(piece->bytes, expected, 6) != 0)
            return not_a_tokenizer(path, &tokenizer->file, "it has no byte token at",
                                   FIRST_BYTE + (long long)byte, error);
        tokenizer->texts[byte] = (uint8_t)byte;
        *piece = (ml_piece){tokenizer->texts + byte, tokenizer->texts + byte, 1, 1, ML_PIECE_BYTE};
    }
    return ML_OK;
}

/* Calls for every pair that joins to an ordinary piece; writes the pairs if `merges` is given, and returns
 * their count. */
static size_t find_merges(const ml_tokenizer *tokenizer, const uint32_t *ranks, ml_merge *merges)
{
    size_t count = 0;
    for (uint32_t id = FIRST_PIECE; id < tokenizer->n_pieces; id++) {
        const ml_piece *piece = &tokenizer->pieces[id];
        if (ml_bpe_find(tokenizer, piece->bytes, piece->length) != (int32_t)id)
            continue; /* repeats an earlier one */
        for (uint32_t cut = 1; cut < piece->length; cut++) {
            int32_t left = ml_bpe_find(tokenizer, piece->bytes, cut);
            int32_t right = left < 0 ? -1 : ml_bpe_find(tokenizer, piece->bytes + cut, piece->length - cut);
            if (right < 0)
                continue;
            if (merges)
                merges[count] = (ml_merge){(uint32_t)left, (uint32_t)right, id, ranks[id]};
            count++;
        }
    }
    return count;
}

static int compare_scores(const void *a, const void *b)
{
    const score *left = a, *right = b;
    return left->value > right->value ? -1 : left->value < right->value;
}

/* Ranks tokens by falling score (equal scores share a rank) and makes the merges. */
static ml_status make_merges(ml_tokenizer *tokenizer, score *scores, uint32_t *ranks, const char *path,
                             ml_error *error)
{
    qsort(scores, tokenizer->n_pieces, sizeof *scores, compare_scores);
    for (uint32_t i = 0; i < tokenizer->n_pieces; i++) {
        bool tie = i > 0 && !(scores[i].value < scores[i - 1].value);
        ranks[scores[i].id] = tie ? ranks[scores[i - 1].id] : i;
    }
    size_t count = find_merges(tokenizer, ranks, NULL);
    tokenizer->merges = count <= UINT32_MAX / 2 ? ml_allocate(count, sizeof *tokenizer->merges) : NULL;
    if (!tokenizer->merges)
        return ml_fail(error, ML_E_NOMEM, "%s: no memory for %zu merges", path, count);
    find_merges(tokenizer, ranks, tokenizer->merges);
    tokenizer->n_merges = (uint32_t)count;
    return ML_OK;
}

static ml_status read_all(ml_tokenizer *tokenizer, score *scores, uint32_t *ranks, const char *path,
                          ml_error *error)
{
    uint32_t count;
    ml_status status = walk(&tokenizer->file, path, tokenizer->pieces, scores, &count, error);
    if (status == ML_OK)
        status = set_bytes(tokenizer, path, error);
    if (status != ML_OK)
        return status;
    for (uint32_t id = UNK; id <= EOS; id++)
        tokenizer->pieces[id].attr = ML_PIECE_ADDED;
    status = ml_bpe_index_pieces(tokenizer, path, error);
    if (status == ML_OK)
        status = make_merges(tokenizer, scores, ranks, path, error);
    return status == ML_OK ? ml_bpe_index(tokenizer, path, error) : status;
}

ml_status ml_llama2_read(ml_tokenizer *tokenizer, const char *path, ml_error *error)
{
    ml_status status = walk(&tokenizer->file, path, NULL, NULL, &tokenizer->n_pieces, error);
    if (status != ML_OK)
        return status;
    tokenizer->space = " ";
    tokenizer->flags = ML_MLT_BOS;
    tokenizer->bos = BOS;
    tokenizer->n_eos = 2;
    tokenizer->eos = ml_allocate(tokenizer->n_eos, sizeof *tokenizer->eos);
    tokenizer->pieces = ml_allocate(tokenizer->n_pieces, sizeof *tokenizer->pieces);
    score *scores = ml_allocate(tokenizer->n_pieces, sizeof *scores);
    uint32_t *ranks = ml_allocate(tokenizer->n_pieces, sizeof *ranks);
    if (tokenizer->eos && tokenizer->pieces && scores && ranks) {
        tokenizer->eos[0] = EOS;
        tokenizer->eos[1] = BOS; /* the TinyStories models end a text with the next one's BOS */
        status = read_all(tokenizer, scores, ranks, path, error);
    } else {
        status = ml_fail(error, ML_E_NOMEM, "%s: no memory for %u tokens", path, tokenizer->n_pieces);
    }
    free(scores);
    free(ranks);
    return status;
}
