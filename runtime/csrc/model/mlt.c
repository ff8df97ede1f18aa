#include "model/bpe.h"
#include "model/unicode.h"

#include <stdlib.h>

enum { KIND_SENTENCEPIECE = 1, KIND_BYTE_LEVEL = 2, HEADER_BYTES = 32 };

typedef struct reader {
    const uint8_t *data;
    size_t size;
    size_t at;
} reader;

static uint32_t u32_at(const uint8_t *data)
{
    return data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

static bool take_u32(reader *reader, uint32_t *value)
{
    if (reader->size - reader->at < 4)
        return false;
    *value = u32_at(reader->data + reader->at);
    reader->at += 4;
    return true;
}

static ml_status check_flags(const ml_tokenizer *tokenizer, const char *path, ml_error *error)
{
    const uint32_t byte_level =
        ML_MLT_NFC | ML_MLT_ONE_NUMBER | ML_MLT_GPT2 | ML_MLT_SPLIT_DIGITS | ML_MLT_MARKS;
    const uint32_t prefixes = ML_MLT_PREFIX_ONCE | ML_MLT_NO_PREFIX; /* SentencePiece's */
    uint32_t flags = tokenizer->flags;
    uint32_t foreign = flags & (tokenizer->byte_level ? prefixes : byte_level);
    if (flags & ~(uint32_t)ML_MLT_ALL_FLAGS)
        return ml_fail(error, ML_E_FORMAT, "%s: flags are 0x%x, bits above 256 must be 0", path, flags);
    if (foreign)
        return ml_fail(error, ML_E_FORMAT, "%s: flags are 0x%x, but bits 0x%x do not apply to a %s tokenizer",
                       path, flags, foreign, tokenizer->byte_level ? "byte-level" : "SentencePiece-style");
    if ((flags & (ML_MLT_ONE_NUMBER | ML_MLT_MARKS)) && (flags & ML_MLT_GPT2))
        return ml_fail(error, ML_E_FORMAT,
                       "%s: flags are 0x%x, but 16 and 256 are no variants of the GPT-2 regex (32)", path,
                       flags);
    if ((flags & prefixes) == prefixes)
        return ml_fail(error, ML_E_FORMAT,
                       "%s: flags are 0x%x, but 4 (a prefix once) and 128 (none) exclude each other", path,
                       flags);
    if ((flags & ML_MLT_BOS) && tokenizer->bos < 0)
        return ml_fail(error, ML_E_FORMAT, "%s: flags ask for BOS, but bos is -1", path);
    return ML_OK;
}

static ml_status check_special(const char *path, const char *field, int32_t id, uint32_t n_pieces,
                               ml_error *error)
{
    if (id < -1 || (id >= 0 && (uint32_t)id >= n_pieces))
        return ml_fail(error, ML_E_FORMAT, "%s: %s is %d, must be -1 or a token below %u", path, field, id,
                       n_pieces);
    return ML_OK;
}

static ml_status read_header(ml_tokenizer *tokenizer, const char *path, int32_t *eos, ml_error *error)
{
    const uint8_t *data = tokenizer->file.data;
    if (tokenizer->file.size < HEADER_BYTES)
        return ml_fail(error, ML_E_FORMAT, "%s: %zu bytes are no .mlt file, its header alone has %d", path,
                       tokenizer->file.size, HEADER_BYTES);
    uint32_t version = u32_at(data + 4), kind = u32_at(data + 8);
    if (version != 1)
        return ml_fail(error, ML_E_FORMAT, "%s: version is %u, must be 1", path, version);
    if (kind != KIND_SENTENCEPIECE && kind != KIND_BYTE_LEVEL)
        return ml_fail(error, ML_E_FORMAT,
                       "%s: kind is %u, must be 1 (SentencePiece-style) or 2 (byte-level)", path, kind);
    tokenizer->byte_level = kind == KIND_BYTE_LEVEL;
    tokenizer->n_pieces = u32_at(data + 12);
    tokenizer->n_merges = u32_at(data + 16);
    tokenizer->bos = (int32_t)u32_at(data + 20);
    *eos = (int32_t)u32_at(data + 24);
    tokenizer->flags = u32_at(data + 28);
    if (tokenizer->n_pieces == 0 || tokenizer->n_pieces > ML_MAX_VOCAB)
        return ml_fail(error, ML_E_FORMAT, "%s: n_vocab is %u, must be from 1 to %d", path,
                       tokenizer->n_pieces, ML_MAX_VOCAB);
    ml_status status = check_special(path, "bos", tokenizer->bos, tokenizer->n_pieces, error);
    if (status == ML_OK)
        status = check_special(path, "eos", *eos, tokenizer->n_pieces, error);
    if (status == ML_OK)
        status = check_flags(tokenizer, path, error);
    return status;
}

static ml_status check_piece(const ml_tokenizer *tokenizer, const char *path, uint32_t id, ml_error *error)
{
    const ml_piece *piece = &tokenizer->pieces[id];
    if (piece->attr > ML_PIECE_BYTE)
        return ml_fail(error, ML_E_FORMAT, "%s: attr of token %u is %d, must be 0, 1 or 2", path, id,
                       piece->attr);
    if (piece->attr == ML_PIECE_BYTE && tokenizer->byte_level)
        return ml_fail(error, ML_E_FORMAT,
                       "%s: attr of token %u is 2, which a byte-level tokenizer does not have", path, id);
    if (piece->attr == ML_PIECE_BYTE && piece->length != 1)
        return ml_fail(error, ML_E_FORMAT, "%s: len of token %u is %u, must be 1 for a byte token", path, id,
                       piece->length);
    if (piece->attr == ML_PIECE_ADDED && piece->length == 0)
        return ml_fail(error, ML_E_FORMAT, "%s: len of token %u is 0, an added token needs text", path, id);
    if (piece->attr == ML_PIECE_BYTE || (piece->attr == 0 && tokenizer->byte_level))
        return ML_OK;
    bool valid = true;
    uint32_t code;
    for (size_t at = 0; at < piece->length && valid;)
        at += ml_utf8_decode(piece->bytes + at, piece->length - at, &code, &valid);
    if (!valid)
        return ml_fail(error, ML_E_FORMAT, "%s: token %u is not valid UTF-8", path, id);
    return ML_OK;
}

static ml_status read_pieces(ml_tokenizer *tokenizer, reader *reader, const char *path, ml_error *error)
{
    /* Five bytes a token are there at least: checked first, so that a wrong count takes no memory. */
    if (tokenizer->n_pieces > (reader->size - reader->at) / 5)
        return ml_fail(error, ML_E_FORMAT, "%s: n_vocab is %u, more than fit into %zu bytes", path,
                       tokenizer->n_pieces, reader->size);
    tokenizer->pieces = ml_allocate(tokenizer->n_pieces, sizeof *tokenizer->pieces);
    if (!tokenizer->pieces)
        return ml_fail(error, ML_E_NOMEM, "%s: no memory for %u tokens", path, tokenizer->n_pieces);
    for (uint32_t id = 0; id < tokenizer->n_pieces; id++) {
        ml_piece *piece = &tokenizer->pieces[id];
        bool whole = reader->at < reader->size;
        if (whole)
            piece->attr = reader->data[reader->at++];
        if (!whole || !take_u32(reader, &piece->length))
            return ml_fail(error, ML_E_FORMAT, "%s: the file ends in token %u of %u", path, id,
                           tokenizer->n_pieces);
        if (piece->length > reader->size - reader->at)
            return ml_fail(error, ML_E_FORMAT, "%s: len of token %u is %u, but %zu bytes are left", path, id,
                           piece->length, reader->size - reader->at);
        piece->bytes = piece->text = reader->data + reader->at;
        piece->text_length = piece->length;
        reader->at += piece->length;
        ml_status status = check_piece(tokenizer, path, id, error);
        if (status != ML_OK)
            return status;
    }
    return ML_OK;
}

/* What decoding writes: the pieces with U+2581 turned back into spaces. */
static ml_status write_texts(ml_tokenizer *tokenizer, const char *path, ml_error *error)
{
    size_t at = 0, meta = strlen(tokenizer->space);
    tokenizer->texts = ml_allocate(tokenizer->file.size, 1);
    if (!tokenizer->texts)
        return ml_fail(error, ML_E_NOMEM, "%s: no memory for %zu bytes of text", path, tokenizer->file.size);
    for (uint32_t id = 0; id < tokenizer->n_pieces; id++) {
        ml_piece *piece = &tokenizer->pieces[id];
        piece->text = tokenizer->texts + at;
        for (size_t i = 0; i < piece->length;) {
            bool space = piece->length - i >= meta && memcmp(piece->bytes + i, tokenizer->space, meta) == 0;
            tokenizer->texts[at++] = space ? ' ' : piece->bytes[i];
            i += space ? meta : 1;
        }
        piece->text_length = (uint32_t)(tokenizer->texts + at - piece->text);
    }
    return ML_OK;
}

static bool joins(const ml_piece *left, const ml_piece *right, const ml_piece *merged)
{
    return merged->length >= left->length && merged->length - left->length == right->length &&
           memcmp(merged->bytes, left->bytes, left->length) == 0 &&
           memcmp(merged->bytes + left->length, right->bytes, right->length) == 0;
}

static ml_status read_merges(ml_tokenizer *tokenizer, reader *reader, const char *path, ml_error *error)
{
    if (tokenizer->n_merges > (reader->size - reader->at) / 12)
        return ml_fail(error, ML_E_FORMAT, "%s: n_merges is %u, but %zu bytes are left for merges of 12",
                       path, tokenizer->n_merges, reader->size - reader->at);
    tokenizer->merges = ml_allocate(tokenizer->n_merges, sizeof *tokenizer->merges);
    if (!tokenizer->merges)
        return ml_fail(error, ML_E_NOMEM, "%s: no memory for %u merges", path, tokenizer->n_merges);
    for (uint32_t i = 0; i < tokenizer->n_merges; i++, reader->at += 12) {
        ml_merge *merge = &tokenizer->merges[i];
        const uint8_t *data = reader->data + reader->at;
        *merge = (ml_merge){u32_at(data), u32_at(data + 4), u32_at(data + 8), i};
        const uint32_t ids[3] = {merge->left, merge->right, merge->merged};
        for (int k = 0; k < 3; k++)
            if (ids[k] >= tokenizer->n_pieces)
                return ml_fail(error, ML_E_FORMAT, "%s: merge %u names token %u of %u", path, i, ids[k],
                               tokenizer->n_pieces);
        if (!joins(&tokenizer->pieces[ids[0]], &tokenizer->pieces[ids[1]], &tokenizer->pieces[ids[2]]))
            return ml_fail(error, ML_E_FORMAT, "%s: merge %u: tokens %u and %u do not make token %u", path, i,
                           ids[0], ids[1], ids[2]);
    }
    return ML_OK;
}

/* The header's id alone, or the optional trailer: "EOTS", a count, that many ids. */
static ml_status read_eos(ml_tokenizer *tokenizer, reader *reader, const char *path, int32_t eos,
                          ml_error *error)
{
    size_t left = reader->size - reader->at;
    bool trailer = left >= 8 && memcmp(reader->data + reader->at, "EOTS", 4) == 0;
    if (left > 0 && !trailer)
        return ml_fail(error, ML_E_FORMAT, "%s: %zu bytes after the merges are no EOTS trailer", path, left);
    uint32_t count = trailer ? u32_at(reader->data + reader->at + 4) : eos >= 0;
    if (trailer && (count == 0 || count > ML_MAX_EOS || left - 8 != 4 * (size_t)count))
        return ml_fail(error, ML_E_FORMAT,
                       "%s: the EOTS trailer says %u ids (1 to %d) and has %zu bytes of them", path, count,
                       ML_MAX_EOS, left - 8);
    tokenizer->eos = ml_allocate(count, sizeof *tokenizer->eos);
    if (!tokenizer->eos)
        return ml_fail(error, ML_E_NOMEM, "%s: no memory for %u end-of-text ids", path, count);
    tokenizer->n_eos = count;
    bool has_header_eos = eos < 0;
    for (uint32_t i = 0; i < count; i++) {
        int32_t id = trailer ? (int32_t)u32_at(reader->data + reader->at + 8 + 4 * (size_t)i) : eos;
        if (id < 0 || (uint32_t)id >= tokenizer->n_pieces)
            return ml_fail(error, ML_E_FORMAT, "%s: end-of-text id %u is %d, must be below %u", path, i, id,
                           tokenizer->n_pieces);
        tokenizer->eos[i] = id;
        has_header_eos = has_header_eos || id == eos;
    }
    if (!has_header_eos || (trailer && eos < 0))
        return ml_fail(error, ML_E_FORMAT, "%s: eos is %d, which is not among the ids of the EOTS trailer",
                       path, eos);
    return ML_OK;
}

ml_status ml_mlt_read(ml_tokenizer *tokenizer, const char *path, ml_error *error)
{
    reader reader = {tokenizer->file.data, tokenizer->file.size, HEADER_BYTES};
    int32_t eos = -1;
    tokenizer->space = "\xe2\x96\x81";
    tokenizer->match_added = true;
    ml_status status = read_header(tokenizer, path, &eos, error);
    if (status == ML_OK)
        status = read_pieces(tokenizer, &reader, path, error);
    if (status == ML_OK && !tokenizer->byte_level)
        status = write_texts(tokenizer, path, error);
    if (status == ML_OK)
        status = read_merges(tokenizer, &reader, path, error);
    if (status == ML_OK)
        status = read_eos(tokenizer, &reader, path, eos, error);
    if (status == ML_OK)
        status = ml_bpe_index_pieces(tokenizer, path, error);
    return status == ML_OK ? ml_bpe_index(tokenizer, path, error) : status;
}
