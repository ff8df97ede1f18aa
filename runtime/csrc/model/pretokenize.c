#include "model/pretokenize.h"

#include "model/unicode.h"

typedef enum char_class { END, LETTER, NUMBER, SPACE, OTHER } char_class;

static char_class classify(const uint8_t *text, size_t length, bool marks, uint32_t *code, size_t *bytes)
{
    *code = 0;
    *bytes = 0;
    if (length == 0)
        return END;
    bool valid = true;
    *bytes = ml_utf8_decode(text, length, code, &valid);
    if (ml_is_letter(*code) || (marks && ml_is_mark(*code)))
        return LETTER;
    return ml_is_number(*code) ? NUMBER : ml_is_space(*code) ? SPACE : OTHER;
}

/* Bytes of the run of `wanted` at the start of the text, of at most `most` characters if that is not
 * negative. */
static size_t run_of(char_class wanted, const uint8_t *text, size_t length, bool marks, int most)
{
    size_t at = 0, bytes;
    uint32_t code;
    for (int n = 0; n != most && classify(text + at, length - at, marks, &code, &bytes) == wanted; n++)
        at += bytes;
    return at;
}

static bool is_newline(uint32_t code)
{
    return code == '\r' || code == '\n';
}

/* 's 't 'm 'd 're 've 'll, in any case if `fold` (then long s is an s, too); 0 if there is none. */
static size_t match_contraction(const uint8_t *text, size_t length, bool fold)
{
    if (length < 2 || text[0] != '\'')
        return 0;
    if (fold && length >= 3 && text[1] == 0xc5 && text[2] == 0xbf)
        return 3;
    uint8_t ignored = fold ? 0x20 : 0;
    uint8_t a = text[1] | ignored;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    uint8_t b = length >= 3 ? (uint8_t)(text[2] | ignored) : 0;
    return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/*
 * The text starts with white space that the alternatives before left over. `newlines` adds \s*[\r\n]+; then
 * \s+(?!\S) gives the last character back to what follows, unless it is the only one.
 */
static size_t match_spaces(const uint8_t *text, size_t length, bool newlines)
{
    size_t at = 0, last = 0, after_newline = 0, bytes;
    uint32_t code;
    while (classify(text + at, length - at, false, &code, &bytes) == SPACE) {
        last = at;
        at += bytes;
        if (newlines && is_newline(code))
            after_newline = at;
    }
    if (after_newline > 0)
        return after_newline;
    return at == length || last == 0 ? at : last;
}

size_t ml_match_llama3(const uint8_t *text, size_t length, int max_numbers, bool marks)
{
    size_t contraction = match_contraction(text, length, true);
    if (contraction > 0)
        return contraction;
    uint32_t first, second;
    size_t bytes, more;
    char_class class = classify(text, length, marks, &first, &bytes);
    if (class == NUMBER)
        return run_of(NUMBER, text, length, marks, max_numbers);
    if (class == LETTER)
        return run_of(LETTER, text, length, marks, -1);
    if (!is_newline(first) && classify(text + bytes, length - bytes, marks, &second, &more) == LETTER)
        return bytes + run_of(LETTER, text + bytes, length - bytes, marks, -1);
    size_t at = first == ' ' ? 1 : 0;
    size_t others = run_of(OTHER, text + at, length - at, marks, -1);
    if (others == 0)
        return match_spaces(text, length, true);
    at += others;
    while (at < length && is_newline(text[at]))
        at++;
    return at;
}

size_t ml_match_gpt2(const uint8_t *text, size_t length)
{
    size_t contraction = match_contraction(text, length, false);
    if (contraction > 0)
        return contraction;
    size_t start = text[0] == ' ' ? 1 : 0, bytes;
    uint32_t code;
    char_class class = classify(text + start, length - start, false, &code, &bytes);
    if (class == END || class == SPACE)
        return match_spaces(text, length, false);
    return start + run_of(class, text + start, length - start, false, -1);
}

size_t ml_match_digit_split(const uint8_t *text, size_t length, bool *is_digit)
{
    bool valid = true;
    uint32_t code;
    size_t at = ml_utf8_decode(text, length, &code, &valid);
    *is_digit = ml_is_digit(code);
    while (!*is_digit && at < length) {
        size_t bytes = ml_utf8_decode(text + at, length - at, &code, &valid);
        if (ml_is_digit(code))
            break;
        at += bytes;
    }
    return at;
}
