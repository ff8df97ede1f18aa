#include "model/bpe.h"

#include "core/arena.h"
#include "model/pretokenize.h"
#include "model/unicode.h"

#include <stdlib.h>

/* Keeps every count, also after NFC and byte fallback, below 2^31. */
#define MAX_TEXT ((size_t)1 << 29)
#define DEAD UINT32_MAX

/* A symbol of the piece being merged, in a doubly linked list of indices. */
typedef struct symbol {
    uint32_t id;
    int32_t previous;
    int32_t next;
} symbol;

/* A merge that was possible when it was found; `key` is its rank, then its position. */
typedef struct candidate {
    uint64_t key;
    uint32_t merge;
} candidate;

void *ml_allocate(size_t count, size_t size)
{
    size_t bytes;
    if (!ml_size_mul(count, size, &bytes))
        return NULL;
    return calloc(bytes ? bytes : 1, 1);
}

static ml_status no_memory(ml_error *error)
{
    return ml_fail(error, ML_E_NOMEM, "no memory for the tokenizer's buffers");
}

static bool reserve(ml_buffer *buffer, size_t count, size_t size)
{
    size_t need, grown;
    if (!ml_size_mul(count, size, &need))
        return false;
    if (need <= buffer->bytes)
        return true;
    if (!ml_size_add(need, need / 2, &grown))
        return false;
    void *data = realloc(buffer->data, grown);
    if (!data)
        return false;
    buffer->data = data;
    buffer->bytes = grown;
    return true;
}

/* ---- Index ---- */

static uint32_t hash_bytes(const uint8_t *bytes, size_t length)
{
    uint32_t hash = 2166136261u; /* FNV-1a, its high bits mixed into the low ones */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return hash ^ hash >> 15;
}

static uint32_t hash_pair(uint32_t left, uint32_t right)
{
    uint64_t hash = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(hash >> 32);
}

static bool same_bytes(const ml_piece *piece, const uint8_t *bytes, size_t length)
{
    return piece->length == length && memcmp(piece->bytes, bytes, length) == 0;
}

/* The slot that holds these bytes or is free for them. */
static uint32_t *slot_of_bytes(const ml_tokenizer *tokenizer, const uint8_t *bytes, size_t length)
{
    uint32_t at = hash_bytes(bytes, length) & tokenizer->bytes_mask;
    while (tokenizer->by_bytes[at] &&
           !same_bytes(&tokenizer->pieces[tokenizer->by_bytes[at] - 1], bytes, length))
        at = (at + 1) & tokenizer->bytes_mask;
    return &tokenizer->by_bytes[at];
}

static uint32_t *slot_of_pair(const ml_tokenizer *tokenizer, uint32_t left, uint32_t right)
{
    uint32_t at = hash_pair(left, right) & tokenizer->pair_mask;
    for (; tokenizer->by_pair[at]; at = (at + 1) & tokenizer->pair_mask) {
        const ml_merge *merge = &tokenizer->merges[tokenizer->by_pair[at] - 1];
        if (merge->left == left && merge->right == right)
            break;
    }
    return &tokenizer->by_pair[at];
}

int32_t ml_bpe_find(const ml_tokenizer *tokenizer, const uint8_t *bytes, size_t length)
{
    if (length == 0 || length > tokenizer->longest_piece)
        return -1;
    return (int32_t)*slot_of_bytes(tokenizer, bytes, length) - 1;
}

/* A table of at least twice `count` slots, so that searches end; its mask is below 2^32. */
static uint32_t *make_table(uint32_t count, uint32_t *mask)
{
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)count)
        slots *= 2;
    *mask = (uint32_t)(slots - 1);
    return slots > UINT32_MAX ? NULL : ml_allocate((size_t)slots, sizeof(uint32_t));
}

static bool is_one_character(const ml_tokenizer *tokenizer, const ml_piece *piece)
{
    uint32_t code;
    bool valid = true;
    if (tokenizer->byte_level)
        return piece->length == 1;
    return piece->length > 0 && ml_utf8_decode(piece->bytes, piece->length, &code, &valid) == piece->length;
}

ml_status ml_bpe_index_pieces(ml_tokenizer *tokenizer, const char *path, ml_error *error)
{
    tokenizer->by_bytes = make_table(tokenizer->n_pieces, &tokenizer->bytes_mask);
    if (!tokenizer->by_bytes)
        return ml_fail(error, ML_E_NOMEM, "%s: no memory for the index of %u tokens", path,
                       tokenizer->n_pieces);
    /* Ordinary pieces come first: an added one is found only as a character that nothing else stands for. */
    for (uint8_t attr = 0; attr <= ML_PIECE_ADDED; attr++) {
        for (uint32_t id = 0; id < tokenizer->n_pieces; id++) {
            const ml_piece *piece = &tokenizer->pieces[id];
            if (piece->attr != attr || piece->length == 0 || (attr && !is_one_character(tokenizer, piece)))
                continue;
            if (piece->length > tokenizer->longest_piece)
                tokenizer->longest_piece = piece->length;
            uint32_t *slot = slot_of_bytes(tokenizer, piece->bytes, piece->length);
            if (*slot == 0)
                *slot = id + 1;
        }
    }
    return ML_OK;
}

static ml_status index_bytes(ml_tokenizer *tokenizer, const char *path, ml_error *error)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint8_t text = (uint8_t)byte;
        /* A byte-level vocabulary may lack bytes; the tokenizers library drops them, and so does encoding
         * here. */
        tokenizer->byte_ids[byte] = tokenizer->byte_level ? ml_bpe_find(tokenizer, &text, 1) : -1;
    }
    if (tokenizer->byte_level)
        return ML_OK;
    for (uint32_t id = 0; id < tokenizer->n_pieces; id++) {
        const ml_piece *piece = &tokenizer->pieces[id];
        if (piece->attr != ML_PIECE_BYTE)
            continue;
        int32_t *slot = &tokenizer->byte_ids[piece->bytes[0]];
        if (*slot >= 0)
            return ml_fail(error, ML_E_FORMAT, "%s: token %u repeats byte 0x%02X of token %d", path, id,
                           piece->bytes[0], *slot);
        *slot = (int32_t)id;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        if (tokenizer->byte_ids[byte] < 0)
            return ml_fail(error, ML_E_FORMAT, "%s: no token stands for byte 0x%02X", path, byte);
    return ML_OK;
}

static ml_status index_merges(ml_tokenizer *tokenizer, const char *path, ml_error *error)
{
    tokenizer->by_pair = make_table(tokenizer->n_merges, &tokenizer->pair_mask);
    if (!tokenizer->by_pair)
        return ml_fail(error, ML_E_NOMEM, "%s: no memory for the index of %u merges", path,
                       tokenizer->n_merges);
    for (uint32_t i = 0; i < tokenizer->n_merges; i++) {
        uint32_t *slot = slot_of_pair(tokenizer, tokenizer->merges[i].left, tokenizer->merges[i].right);
        if (*slot)
            return ml_fail(error, ML_E_FORMAT, "%s: merge %u repeats the pair of merge %u", path, i,
                           *slot - 1);
        *slot = i + 1;
    }
    return ML_OK;
}

static int compare_added(const void *a, const void *b)
{
    const ml_added *left = a, *right = b;
    uint32_t shorter = left->length < right->length ? left->length : right->length;
    int order = memcmp(left->bytes, right->bytes, shorter);
    if (order == 0 && left->length != right->length)
        order = left->length < right->length ? -1 : 1;
    return order ? order : left->id < right->id ? -1 : 1; /* of equal ones the lowest id comes first */
}

static ml_status index_added(ml_tokenizer *tokenizer, const char *path, ml_error *error)
{
    for (uint32_t id = 0; id < tokenizer->n_pieces; id++)
        tokenizer->n_added += tokenizer->match_added && tokenizer->pieces[id].attr == ML_PIECE_ADDED;
    tokenizer->added = ml_allocate(tokenizer->n_added, sizeof *tokenizer->added);
    if (!tokenizer->added)
        return ml_fail(error, ML_E_NOMEM, "%s: no memory for %u added tokens", path, tokenizer->n_added);
    for (uint32_t id = 0, n = 0; n < tokenizer->n_added; id++) {
        const ml_piece *piece = &tokenizer->pieces[id];
        if (piece->attr != ML_PIECE_ADDED)
            continue;
        tokenizer->added[n++] = (ml_added){piece->bytes, piece->length, id};
        tokenizer->starts_added[piece->bytes[0]] = true;
    }
    qsort(tokenizer->added, tokenizer->n_added, sizeof *tokenizer->added, compare_added);
    return ML_OK;
}

ml_status ml_bpe_index(ml_tokenizer *tokenizer, const char *path, ml_error *error)
{
    ml_status status = index_bytes(tokenizer, path, error);
    if (status == ML_OK)
        status = index_merges(tokenizer, path, error);
    if (status == ML_OK)
        status = index_added(tokenizer, path, error);
    return status;
}

/* ---- Merging ---- */

static void emit(ml_ids *out, uint32_t id)
{
    if (out->count < out->capacity)
        out->ids[out->count] = (int32_t)id;
    out->count++;
}

/* The heap's top is the lowest key. */
static void heap_push(candidate *heap, size_t count, candidate item)
{
    size_t at = count;
    for (; at > 0 && heap[(at - 1) / 2].key > item.key; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = item;
}

static candidate heap_pop(candidate *heap, size_t count)
{
    candidate top = heap[0], last = heap[count - 1];
    size_t at = 0;
    for (size_t child = 1; child < count - 1; child = 2 * at + 1) {
        if (child + 1 < count - 1 && heap[child + 1].key < heap[child].key)
            child++;
        if (heap[child].key >= last.key)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

/* Queues the merge of the symbol with its right neighbour, if there is one. */
static bool queue_pair(ml_tokenizer *tokenizer, int32_t position, size_t *count)
{
    const symbol *symbols = tokenizer->symbols.data;
    if (position < 0 || symbols[position].next < 0)
        return true;
    uint32_t found = *slot_of_pair(tokenizer, symbols[position].id, symbols[symbols[position].next].id);
    if (!found)
        return true;
    if (!reserve(&tokenizer->heap, *count + 1, sizeof(candidate)))
        return false;
    uint64_t rank = tokenizer->merges[found - 1].rank;
    heap_push(tokenizer->heap.data, (*count)++, (candidate){rank << 32 | (uint32_t)position, found - 1});
    return true;
}

/* Merges the first `n` symbols of the workspace, whose ids are set, and appends what is left. */
static ml_status merge_symbols(ml_tokenizer *tokenizer, size_t n, ml_ids *out, ml_error *error)
{
    symbol *symbols = tokenizer->symbols.data;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        symbols[i].previous = (int32_t)i - 1;
        symbols[i].next = i + 1 < n ? (int32_t)i + 1 : -1;
    }
    for (size_t i = 0; i < n; i++)
        if (!queue_pair(tokenizer, (int32_t)i, &count))
            return no_memory(error);
    while (count > 0) {
        candidate best = heap_pop(tokenizer->heap.data, count--);
        const ml_merge *merge = &tokenizer->merges[best.merge];
        int32_t position = (int32_t)(best.key & UINT32_MAX);
        symbol *left = &symbols[position];
        if (left->id != merge->left || left->next < 0 || symbols[left->next].id != merge->right)
            continue; /* one of the two has merged with another since */
        symbol *right = &symbols[left->next];
        left->id = merge->merged;
        right->id = DEAD;
        left->next = right->next;
        if (right->next >= 0)
            symbols[right->next].previous = position;
        if (!queue_pair(tokenizer, left->previous, &count) || !queue_pair(tokenizer, position, &count))
            return no_memory(error);
    }
    for (int32_t at = n > 0 ? 0 : -1; at >= 0; at = symbols[at].next)
        emit(out, symbols[at].id);
    return ML_OK;
}

/* ---- Byte-level ---- */

static ml_status encode_chunk(ml_tokenizer *tokenizer, const uint8_t *chunk, size_t length, ml_ids *out,
                              ml_error *error)
{
    if (tokenizer->flags & ML_MLT_IGNORE_MERGES) {
        int32_t whole = ml_bpe_find(tokenizer, chunk, length);
        if (whole >= 0) {
            emit(out, (uint32_t)whole);
            return ML_OK;
        }
    }
    if (!reserve(&tokenizer->symbols, length, sizeof(symbol)))
        return no_memory(error);
    symbol *symbols = tokenizer->symbols.data;
    size_t n = 0;
    for (size_t i = 0; i < length; i++)
        if (tokenizer->byte_ids[chunk[i]] >= 0)
            symbols[n++].id = (uint32_t)tokenizer->byte_ids[chunk[i]];
    return merge_symbols(tokenizer, n, out, error);
}

static ml_status encode_chunks(ml_tokenizer *tokenizer, const uint8_t *text, size_t length, ml_ids *out,
                               ml_error *error)
{
    int max_numbers = tokenizer->flags & ML_MLT_ONE_NUMBER ? 1 : 3;
    ml_status status = ML_OK;
    for (size_t at = 0, bytes; at < length && status == ML_OK; at += bytes) {
        bytes = tokenizer->flags & ML_MLT_GPT2
                    ? ml_match_gpt2(text + at, length - at)
                    : ml_match_llama3(text + at, length - at, max_numbers, tokenizer->flags & ML_MLT_MARKS);
        status = encode_chunk(tokenizer, text + at, bytes, out, error);
    }
    return status;
}

/* Points `text` to its NFC form in the workspace, unless it has no character that NFC could change. */
static ml_status normalize(ml_tokenizer *tokenizer, const uint8_t **text, size_t *length, ml_error *error)
{
    size_t count = 0;
    bool changes = false, valid = true;
    for (size_t at = 0; at < *length; count++) {
        uint32_t code;
        at += ml_utf8_decode(*text + at, *length - at, &code, &valid);
        changes = changes || code >= ML_NFC_FIRST;
    }
    if (!changes)
        return ML_OK;
    if (!reserve(&tokenizer->codes, count * ML_NFC_MAX, sizeof(uint32_t)))
        return no_memory(error);
    uint32_t *codes = tokenizer->codes.data;
    size_t n = 0;
    for (size_t at = 0; at < *length;) {
        uint32_t code;
        at += ml_utf8_decode(*text + at, *length - at, &code, &valid);
        n += ml_nfc_decompose(code, codes + n);
    }
    if (!reserve(&tokenizer->scratch, n, sizeof(uint32_t)))
        return no_memory(error);
    n = ml_nfc_compose(codes, n, tokenizer->scratch.data);
    if (!reserve(&tokenizer->normal, n, 4))
        return no_memory(error);
    uint8_t *normal = tokenizer->normal.data;
    *length = 0;
    for (size_t i = 0; i < n; i++)
        *length += ml_utf8_encode(normal + *length, codes[i]);
    *text = normal;
    return ML_OK;
}

static ml_status encode_bytes(ml_tokenizer *tokenizer, const uint8_t *text, size_t length, ml_ids *out,
                              ml_error *error)
{
    if (tokenizer->flags & ML_MLT_NFC) {
        ml_status status = normalize(tokenizer, &text, &length, error);
        if (status != ML_OK)
            return status;
    }
    if (!(tokenizer->flags & ML_MLT_SPLIT_DIGITS))
        return encode_chunks(tokenizer, text, length, out, error);
    ml_status status = ML_OK;
    for (size_t at = 0, bytes; at < length && status == ML_OK; at += bytes) {
        bool is_digit;
        bytes = ml_match_digit_split(text + at, length - at, &is_digit);
        status = encode_chunks(tokenizer, text + at, bytes, out, error);
    }
    return status;
}

/* ---- SentencePiece-style ---- */

static const uint8_t META_SPACE[3] = {0xe2, 0x96, 0x81};

/* Writes the text with its spaces replaced and the prefix before it to the workspace. */
static ml_status replace_spaces(ml_tokenizer *tokenizer, const uint8_t **text, size_t *length, bool at_start,
                                ml_error *error)
{
    size_t space = strlen(tokenizer->space), bytes;
    if (!ml_size_add(*length, 1, &bytes) || !reserve(&tokenizer->normal, bytes, 3))
        return no_memory(error);
    uint8_t *normal = tokenizer->normal.data;
    size_t n = 0;
    bool has_prefix = **text == ' ' || (*length >= 3 && memcmp(*text, META_SPACE, 3) == 0);
    /* The two kinds differ here in the tokenizers library, too: Prepend always adds one, Metaspace only if
     * none is there. */
    bool once = tokenizer->flags & ML_MLT_PREFIX_ONCE, never = tokenizer->flags & ML_MLT_NO_PREFIX;
    if (!never && (!once || (at_start && !has_prefix))) {
        memcpy(normal, tokenizer->space, space);
        n = space;
    }
    for (size_t i = 0; i < *length; i++) {
        if ((*text)[i] == ' ') {
            memcpy(normal + n, tokenizer->space, space);
            n += space;
        } else {
            normal[n++] = (*text)[i];
        }
    }
    *text = normal;
    *length = n;
    return ML_OK;
}

static ml_status encode_sentence(ml_tokenizer *tokenizer, const uint8_t *text, size_t length, bool at_start,
                                 ml_ids *out, ml_error *error)
{
    ml_status status = replace_spaces(tokenizer, &text, &length, at_start, error);
    if (status != ML_OK)
        return status;
    int32_t whole = tokenizer->flags & ML_MLT_IGNORE_MERGES ? ml_bpe_find(tokenizer, text, length) : -1;
    if (whole >= 0) {
        emit(out, (uint32_t)whole);
        return ML_OK;
    }
    if (!reserve(&tokenizer->symbols, length, sizeof(symbol)))
        return no_memory(error);
    symbol *symbols = tokenizer->symbols.data;
    size_t n = 0;
    for (size_t at = 0, bytes; at < length; at += bytes) {
        uint32_t code;
        bool valid = true;
        bytes = ml_utf8_decode(text + at, length - at, &code, &valid);
        int32_t id = ml_bpe_find(tokenizer, text + at, bytes);
        if (id >= 0)
            symbols[n++].id = (uint32_t)id;
        for (size_t i = 0; id < 0 && i < bytes; i++)
            symbols[n++].id = (uint32_t)tokenizer->byte_ids[text[at + i]];
    }
    return merge_symbols(tokenizer, n, out, error);
}

/* ---- The text as a whole ---- */

/* Points `text` to a copy with U+FFFD for what is not UTF-8, if there is any such byte. */
static ml_status clean_text(ml_tokenizer *tokenizer, const uint8_t **text, size_t *length, ml_error *error)
{
    bool valid = true;
    uint32_t code;
    for (size_t at = 0; at < *length && valid;)
        at += ml_utf8_decode(*text + at, *length - at, &code, &valid);
    if (valid)
        return ML_OK;
    if (!reserve(&tokenizer->clean, *length, 3)) /* one bad byte becomes three */
        return no_memory(error);
    uint8_t *clean = tokenizer->clean.data;
    size_t n = 0;
    for (size_t at = 0; at < *length;) {
        at += ml_utf8_decode(*text + at, *length - at, &code, &valid);
        n += ml_utf8_encode(clean + n, code);
    }
    *text = clean;
    *length = n;
    return ML_OK;
}

/* The first of added[low..high) whose byte at `depth` is at least `byte`; all of them are longer than
 * `depth`. */
static uint32_t lower_bound(const ml_added *added, uint32_t low, uint32_t high, size_t depth, unsigned byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (added[middle].bytes[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest added piece at the start of the text, or NULL. */
static const ml_added *match_added_piece(const ml_tokenizer *tokenizer, const uint8_t *text, size_t length)
{
    const ml_added *longest = NULL;
    if (!tokenizer->starts_added[text[0]])
        return NULL;
    /* Pieces that share their first `depth` bytes with the text lie together; those that end there come
     * first. */
    uint32_t low = 0, high = tokenizer->n_added;
    for (size_t depth = 0; depth < length && low < high; depth++) {
        low = lower_bound(tokenizer->added, low, high, depth, text[depth]);
        high = lower_bound(tokenizer->added, low, high, depth, text[depth] + 1u);
        if (low < high && tokenizer->added[low].length == depth + 1)
            longest = &tokenizer->added[low];
        while (low < high && tokenizer->added[low].length == depth + 1)
            low++;
    }
    return longest;
}

ml_status ml_bpe_encode(ml_tokenizer *tokenizer, const uint8_t *text, size_t length, bool match_added,
                        ml_ids *out, ml_error *error)
{
    if (length > MAX_TEXT)
        return ml_fail(error, ML_E_ARGUMENT, "the text has %zu bytes, at most %zu can be encoded", length,
                       MAX_TEXT);
    ml_status status = clean_text(tokenizer, &text, &length, error);
    for (size_t start = 0, at = 0; start < length && status == ML_OK;) {
        const ml_added *added = NULL;
        for (; at < length; at++)
            if (match_added && (added = match_added_piece(tokenizer, text + at, length - at)))
                break;
        if (at > start)
            status = tokenizer->byte_level
                         ? encode_bytes(tokenizer, text + start, at - start, out, error)
                         : encode_sentence(tokenizer, text + start, at - start, start == 0, out, error);
        if (added) {
            if (status == ML_OK)
                emit(out, added->id);
            at += added->length;
        }
        start = at;
    }
    return status;
}
