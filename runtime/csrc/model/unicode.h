/*
 * unicode.h: UTF-8, character classes and NFC as the tokenizers library has them (unicode_tables.h is made
 * from it).
 */
#ifndef ML_UNICODE_H
#define ML_UNICODE_H

#include "core/ml.h"

/*
 * Decodes the character at `text` (length > 0) and returns how many bytes it takes. Bytes that are not UTF-8
 * give U+FFFD, one for each maximal part of a character, and set *valid to false (valid bytes leave it
 * alone).
 */
size_t ml_utf8_decode(const uint8_t *text, size_t length, uint32_t *code, bool *valid);
/* Writes the character's 1 to 4 bytes and returns how many. */
size_t ml_utf8_encode(uint8_t *text, uint32_t code);

bool ml_is_letter(uint32_t code);
bool ml_is_mark(uint32_t code);
bool ml_is_number(uint32_t code);
bool ml_is_space(uint32_t code);
/* What a Digits pre-tokenizer splits off: its Unicode version is newer than that of ml_is_number. */
bool ml_is_digit(uint32_t code);

/* No character below this one changes under NFC or combines with one before it. */
#define ML_NFC_FIRST 0x300u
/* The longest canonical decomposition; `codes` of ml_nfc_decompose holds at least this many. */
#define ML_NFC_MAX 4u

/* The full canonical decomposition of one character; returns its length. */
size_t ml_nfc_decompose(uint32_t code, uint32_t *codes);
/*
 * Puts decomposed characters into canonical order and composes them in place; returns the new count.
 * `scratch` holds `count` values. Linear in `count`.
 */
size_t ml_nfc_compose(uint32_t *codes, size_t count, uint32_t *scratch);

#endif
