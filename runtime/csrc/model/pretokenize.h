/* pretokenize.h: the regular expressions of byte-level tokenizers, matched by hand on code points. */
#ifndef ML_PRETOKENIZE_H
#define ML_PRETOKENIZE_H

#include "core/ml.h"

/* Each returns the bytes of the match at the start of valid UTF-8 `text`; length > 0, and so is the result.
 */

/*
 * (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,MAX_NUMBERS}| ?[^\s\p{L}\p{N}]+[\r\n]*
 * |\s*[\r\n]+|\s+(?!\S)|\s+
 * With marks, \p{M} counts as a letter: [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+ and ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*;
 * that a mark may also be the optional first character changes nothing about what is matched.
 */
size_t ml_match_llama3(const uint8_t *text, size_t length, int max_numbers, bool marks);
/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t ml_match_gpt2(const uint8_t *text, size_t length);

/*
 * What a Digits(individual_digits) pre-tokenizer cuts off first: one digit (*is_digit is true), or everything
 * up to the next one.
 */
size_t ml_match_digit_split(const uint8_t *text, size_t length, bool *is_digit);

#endif
