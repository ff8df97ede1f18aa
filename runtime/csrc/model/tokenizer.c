#include "model/bpe.h"

#include <stdlib.h>

static ml_status read_file(ml_tokenizer *tokenizer, const char *path, int32_t vocab, ml_error *error)
{
    ml_status status = ml_file_open(&tokenizer->file, path, error);
    if (status != ML_OK)
        return status;
    bool is_mlt = tokenizer->file.size >= 4 && memcmp(tokenizer->file.data, "MLT1", 4) == 0;
    status = is_mlt ? ml_mlt_read(tokenizer, path, error) : ml_llama2_read(tokenizer, path, error);
    if (status == ML_OK && vocab > 0 && tokenizer->n_pieces > (uint32_t)vocab)
        return ml_fail(error, ML_E_SHAPE, "%s: the tokenizer has %u tokens, the model's vocabulary only %d",
                       path, tokenizer->n_pieces, vocab);
    return status;
}

ml_status ml_tokenizer_open(ml_tokenizer **tokenizer, const char *path, int32_t vocab, ml_error *error)
{
    *tokenizer = NULL;
    if (vocab < 0)
        return ml_fail(error, ML_E_ARGUMENT, "%s: vocab is %d, must be that of the model or 0", path, vocab);
    ml_tokenizer *opened = ml_allocate(1, sizeof *opened);
    if (!opened)
        return ml_fail(error, ML_E_NOMEM, "%s: no memory for the tokenizer", path);
    ml_status status = read_file(opened, path, vocab, error);
    if (status != ML_OK) {
        ml_tokenizer_close(opened);
        return status;
    }
    *tokenizer = opened;
    return ML_OK;
}

void ml_tokenizer_close(ml_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    ml_buffer *buffers[] = {&tokenizer->clean,   &tokenizer->normal,  &tokenizer->codes,
                            &tokenizer->scratch, &tokenizer->symbols, &tokenizer->heap};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        free(buffers[i]->data);
    free(tokenizer->added);
    free(tokenizer->by_pair);
    free(tokenizer->by_bytes);
    free(tokenizer->texts);
    free(tokenizer->merges);
    free(tokenizer->pieces);
    free(tokenizer->eos);
    ml_file_close(&tokenizer->file);
    free(tokenizer);
}

int32_t ml_tokenizer_vocab(const ml_tokenizer *tokenizer)
{
    return (int32_t)tokenizer->n_pieces;
}

int32_t ml_tokenizer_bos(const ml_tokenizer *tokenizer)
{
    return tokenizer->bos;
}

int32_t ml_tokenizer_eos(const ml_tokenizer *tokenizer, int32_t *ids, int32_t capacity)
{
    for (int32_t i = 0; i < capacity && i < (int32_t)tokenizer->n_eos; i++)
        ids[i] = tokenizer->eos[i];
    return (int32_t)tokenizer->n_eos;
}

ml_status ml_tokenizer_encode(ml_tokenizer *tokenizer, const char *text, size_t length, int32_t flags,
                              int32_t *ids, size_t capacity, size_t *count, ml_error *error)
{
    *count = 0;
    bool bos = (flags & ML_ENCODE_BOS) || (tokenizer->flags & ML_MLT_BOS && !(flags & ML_ENCODE_NO_BOS));
    if (flags & ~(ML_ENCODE_BOS | ML_ENCODE_NO_BOS | ML_ENCODE_NO_ADDED) ||
        ((flags & ML_ENCODE_BOS) && (flags & ML_ENCODE_NO_BOS)))
        return ml_fail(error, ML_E_ARGUMENT,
                       "encoding flags are %d, must be BOS (1) or NO_BOS (2), NO_ADDED (4)", flags);
    if (bos && tokenizer->bos < 0)
        return ml_fail(error, ML_E_ARGUMENT, "this tokenizer has no BOS token to put before the text");
    ml_ids out = {ids, capacity, 0};
    if (bos) {
        if (capacity > 0)
            ids[0] = tokenizer->bos;
        out.count = 1;
    }
    bool match_added = !(flags & ML_ENCODE_NO_ADDED);
    ml_status status = ml_bpe_encode(tokenizer, (const uint8_t *)text, length, match_added, &out, error);
    *count = status == ML_OK ? out.count : 0;
    return status;
}

ml_status ml_tokenizer_decode(const ml_tokenizer *tokenizer, int32_t previous, int32_t id, const char **bytes,
                              size_t *length, ml_error *error)
{
    *bytes = NULL;
    *length = 0;
    if (id < 0 || (uint32_t)id >= tokenizer->n_pieces)
        return ml_fail(error, ML_E_ARGUMENT, "token %d is not among the tokenizer's %u", id,
                       tokenizer->n_pieces);
    const ml_piece *piece = &tokenizer->pieces[id];
    *bytes = (const char *)piece->text;
    *length = piece->text_length;
    /* The space that encoding put before the text is not part of it. */
    bool prefixed = !tokenizer->byte_level && !(tokenizer->flags & ML_MLT_NO_PREFIX);
    bool first = previous < 0 || previous == tokenizer->bos;
    if (prefixed && first && piece->attr == 0 && *length > 0 && **bytes == ' ') {
        (*bytes)++;
        (*length)--;
    }
    return ML_OK;
}

int32_t ml_tokenizer_is_added(const ml_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && (uint32_t)id < tokenizer->n_pieces && tokenizer->pieces[id].attr == ML_PIECE_ADDED;
}

/* An element of HTML that Gemma has as tokens. (Its <s> is for most others the beginning.) */
static bool is_tag(const char *text, size_t length)
{
    static const char *const names[] = {"table", "caption", "thead",      "tbody", "tfoot", "tr",
                                        "th",    "td",      "h1",         "h2",    "h3",    "h4",
                                        "h5",    "h6",      "em",         "b",     "i",     "u",
                                        "sub",   "sup",     "blockquote", "code",  "strong"};
    if (length < 3 || text[0] != '<' || text[length - 1] != '>')
        return false;
    size_t start = text[1] == '/' ? 2 : 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length - 1 - start && memcmp(text + start, names[i], length - 1 - start) == 0)
            return true;
    return false;
}

static bool is_white(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] != ' ' && (text[i] < '\t' || text[i] > '\r'))
            return false;
    return length > 0;
}

int32_t ml_tokenizer_is_silent(const ml_tokenizer *tokenizer, int32_t id)
{
    if (!ml_tokenizer_is_added(tokenizer, id))
        return 0;
    const ml_piece *piece = &tokenizer->pieces[id];
    const char *text = (const char *)piece->text;
    return !is_white(text, piece->text_length) && !is_tag(text, piece->text_length);
}
