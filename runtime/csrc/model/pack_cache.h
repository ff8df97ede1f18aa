/*
 * pack_cache.h: MODEL.pk<G>, the packed arrays of a model as they lie in memory, behind a 512-byte header:
 *
 *      0  "MLPK", u32 version, u32 group, u32 q8 offset, u32 q4 xor, u32 step bytes, u32 f16 scales, u32 zero
 *     32  u64 bytes of the body, u64 bytes of the model file, u64 hash of bytes sampled across the model
 *     64  zeros
 *    248  u64 hash of bytes sampled across the body
 *    256  the model's header
 *
 * Little-endian. Everything but the body's hash is known before packing; a file that differs is stale.
 */
#ifndef ML_PACK_CACHE_H
#define ML_PACK_CACHE_H

#include "mlb.h"

enum { ML_PACK_CACHE_HEADER = 512 };

typedef struct ml_pack_key {
    unsigned char header[ML_PACK_CACHE_HEADER]; /* with a zero body hash */
    size_t body_bytes;
} ml_pack_key;

/* What a cache of this model must say in this build. Reads the sampled bytes of the model. */
void ml_pack_cache_key(ml_pack_key *key, ml_model *model, size_t body_bytes);
/* Maps the cache if it is there, complete and of this key; otherwise false, and nothing is open. */
bool ml_pack_cache_map(ml_file *cache, const char *path, const ml_pack_key *key);
/* Writes header and body through a temporary file and a rename. */
ml_status ml_pack_cache_write(const char *path, const ml_pack_key *key, const void *body, ml_error *error);

#endif
