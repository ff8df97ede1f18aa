/* pack_cache.c: reads and writes the pack cache. */
#include "pack_cache.h"

#include "ml_config.h"

#if defined(ML_HAS_PACK)

enum { VERSION = 1, SAMPLE = 64, SAMPLES = 256 };
enum {
    AT_BODY_BYTES = 32,
    AT_MODEL_BYTES = 40,
    AT_MODEL_HASH = 48,
    AT_BODY_HASH = 248,
    AT_MODEL_HEADER = 256
};

/* FNV-1a on 64-bit words with a final mix: not against forgers, only against mistakes. */
static uint64_t hash_bytes(uint64_t hash, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, count - i < 8 ? count - i : 8);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* SAMPLES pieces spread evenly from the first byte to the last. */
static uint64_t hash_samples(uint64_t hash, const unsigned char *bytes, size_t count)
{
    if (count <= (size_t)SAMPLE * SAMPLES)
        return hash_bytes(hash, bytes, count);
    uint64_t stride = (count - SAMPLE) / (SAMPLES - 1);
    for (uint64_t i = 0; i < SAMPLES - 1; i++)
        hash = hash_bytes(hash, bytes + i * stride, SAMPLE);
    return hash_bytes(hash, bytes + count - SAMPLE, SAMPLE);
}

/* The middle of each array of a matrix, so that a fine-tuned copy that differs in a few matrices is noticed.
 */
static ml_status sample_matrix(void *context, ml_matrix *matrix, const char *name, ml_error *error)
{
    uint64_t *hash = context;
    size_t quants, scales;
    (void)name, (void)error;
    if (ml_matrix_bytes(matrix, &quants, &scales)) {
        *hash = hash_bytes(*hash, (const unsigned char *)matrix->quants + quants / 2,
                           quants / 2 < SAMPLE ? 1 : SAMPLE);
        *hash = hash_bytes(*hash, (const unsigned char *)matrix->scales + scales / 2,
                           scales / 2 < SAMPLE ? 1 : SAMPLE);
    }
    return ML_OK;
}

static void put_u32(unsigned char *at, uint32_t value)
{
    memcpy(at, &value, sizeof value);
}

static void put_u64(unsigned char *at, uint64_t value)
{
    memcpy(at, &value, sizeof value);
}

void ml_pack_cache_key(ml_pack_key *key, ml_model *model, size_t body_bytes)
{
    static const uint32_t build[] = {VERSION,        ML_PACK_GROUP, ML_PACK_Q8_OFFSET,
                                     ML_PACK_Q4_XOR, ML_PACK_STEP,  ML_PACK_F16_SCALES};
    uint64_t hash = hash_samples(0xcbf29ce484222325u, model->file.data, model->file.size);
    ml_model_visit(model, sample_matrix, &hash, NULL);
    ml_file_discard(&model->file, model->file.data,
                    model->file.size); /* a sample may have mapped a huge page */
    *key = (ml_pack_key){.body_bytes = body_bytes};
    memcpy(key->header, "MLPK", 4);
    for (size_t i = 0; i < sizeof build / sizeof *build; i++)
        put_u32(key->header + 4 + 4 * i, build[i]);
    put_u64(key->header + AT_BODY_BYTES, body_bytes);
    put_u64(key->header + AT_MODEL_BYTES, model->file.size);
    put_u64(key->header + AT_MODEL_HASH, hash);
    memcpy(key->header + AT_MODEL_HEADER, model->file.data, 256);
}

static void finish_header(unsigned char *header, const ml_pack_key *key, const void *body)
{
    memcpy(header, key->header, ML_PACK_CACHE_HEADER);
    put_u64(header + AT_BODY_HASH, hash_samples(0xcbf29ce484222325u, body, key->body_bytes));
}

bool ml_pack_cache_map(ml_file *cache, const char *path, const ml_pack_key *key)
{
    unsigned char header[ML_PACK_CACHE_HEADER];
    if (ml_file_open(cache, path, NULL) != ML_OK)
        return false;
    if (cache->size == ML_PACK_CACHE_HEADER + key->body_bytes) {
        finish_header(header, key, cache->data + ML_PACK_CACHE_HEADER);
        if (memcmp(header, cache->data, sizeof header) == 0)
            return true;
    }
    ml_file_close(cache);
    return false;
}

ml_status ml_pack_cache_write(const char *path, const ml_pack_key *key, const void *body, ml_error *error)
{
    unsigned char header[ML_PACK_CACHE_HEADER];
    finish_header(header, key, body);
    const ml_span spans[] = {{header, sizeof header}, {body, key->body_bytes}};
    return ml_file_write_atomically(path, spans, 2, error);
}

#endif
