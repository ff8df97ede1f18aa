/* bundle.c: the directory at the end of a bundle, and its checksums. */
#include "bundle.h"

#include "file.h"

enum { FOOTER = 16, ENTRY = 56, NAME = 32 };

static uint64_t little(const unsigned char *p, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

/* CRC-32 as in zlib, eight bytes a round: table k steps a byte over k further zero bytes. */
static uint32_t crc32_of(const unsigned char *p, size_t count)
{
    uint32_t table[8][256];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = (c >> 1) ^ (c & 1u ? 0xedb88320u : 0u);
        table[0][i] = c;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t i = 0; i < 256; i++)
            table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 0xff];
    uint32_t crc = 0xffffffffu;
    for (; count >= 8; count -= 8, p += 8) {
        uint32_t low = crc ^ (uint32_t)little(p, 4);
        crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^
              table[4][low >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; count > 0; count--, p++)
        crc = (crc >> 8) ^ table[0][(crc ^ *p) & 0xff];
    return ~crc;
}

/* The directory, or NULL if the file does not end like a bundle. */
static const unsigned char *directory_of(const unsigned char *file, size_t size, uint32_t *members)
{
    *members = 0;
    if (size < FOOTER || memcmp(file + size - 8, "KRAFLAB1", 8) != 0)
        return NULL;
    const unsigned char *footer = file + size - FOOTER;
    uint64_t count = little(footer, 4);
    if (count > 64 || count * ENTRY > size - FOOTER)
        return NULL;
    *members = (uint32_t)count;
    return footer - count * ENTRY;
}

static bool entry_range(const unsigned char *entry, size_t size, size_t *offset, size_t *bytes)
{
    uint64_t start = little(entry + NAME, 8), length = little(entry + NAME + 8, 8);
    *offset = (size_t)start;
    *bytes = (size_t)length;
    return start <= size && length <= size - start && entry[NAME - 1] == 0;
}

bool ml_bundle_find(const unsigned char *file, size_t size, const char *name, size_t *offset, size_t *bytes)
{
    uint32_t members;
    const unsigned char *entry = directory_of(file, size, &members);
    for (uint32_t i = 0; i < members; i++, entry += ENTRY)
        if (entry_range(entry, size, offset, bytes) && strcmp((const char *)entry, name) == 0)
            return true;
    return false;
}

static ml_status check_members(const ml_file *file, const char *path, uint32_t *members, ml_error *error)
{
    const unsigned char *entry = directory_of(file->data, file->size, members);
    if (!entry)
        return ML_OK;
    const unsigned char *footer = file->data + file->size - FOOTER;
    if (crc32_of(entry, *members * (size_t)ENTRY) != little(footer + 4, 4))
        return ml_fail(error, ML_E_FORMAT, "%s: the directory of the files inside is damaged", path);
    for (uint32_t i = 0; i < *members; i++, entry += ENTRY) {
        size_t offset, bytes;
        if (!entry_range(entry, file->size, &offset, &bytes))
            return ml_fail(error, ML_E_FORMAT, "%s: file %u inside lies beyond its end", path, i);
        if (crc32_of(file->data + offset, bytes) != little(entry + NAME + 16, 4))
            return ml_fail(error, ML_E_FORMAT, "%s::%s: damaged, its checksum is not the recorded one", path,
                           (const char *)entry);
    }
    return ML_OK;
}

ml_status ml_bundle_check(const char *path, uint32_t *members, ml_error *error)
{
    ml_file file;
    *members = 0;
    ml_status status = ml_file_open(&file, path, error);
    if (status != ML_OK)
        return status;
    status = check_members(&file, path, members, error);
    ml_file_close(&file);
    return status;
}
