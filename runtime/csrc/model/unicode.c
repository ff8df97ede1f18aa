#include "model/unicode.h"

#include "model/unicode_tables.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    HANGUL_SYLLABLES = 0xAC00,
    HANGUL_LEADS = 0x1100,
    HANGUL_VOWELS = 0x1161,
    HANGUL_TAILS = 0x11A7, /* one before the first tail: index 0 is "no tail" */
    LEAD_COUNT = 19,
    VOWEL_COUNT = 21,
    TAIL_COUNT = 28,
    SYLLABLE_COUNT = LEAD_COUNT * VOWEL_COUNT * TAIL_COUNT,
};

size_t ml_utf8_decode(const uint8_t *text, size_t length, uint32_t *code, bool *valid)
{
    uint8_t first = text[0];
    *code = first;
    if (first < 0x80)
        return 1;
    size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    /* The second byte's range keeps out overlong forms, surrogates and what lies above U+10FFFF. */
    uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    size_t taken = 1;
    if (first >= 0xc2 && first <= 0xf4) {
        uint32_t value = first & (0x3fu >> more);
        for (; taken <= more && taken < length && text[taken] >= low && text[taken] <= high; taken++) {
            value = value << 6 | (text[taken] & 0x3fu);
            low = 0x80;
            high = 0xbf;
        }
        if (taken == more + 1) {
            *code = value;
            return taken;
        }
    }
    *code = 0xfffd;
    *valid = false;
    return taken;
}

size_t ml_utf8_encode(uint8_t *text, uint32_t code)
{
    size_t more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    for (size_t i = more; i > 0; i--, code >>= 6)
        text[i] = (uint8_t)(0x80u | (code & 0x3fu));
    text[0] = (uint8_t)(lead[more] | code);
    return more + 1;
}

static bool in_ranges(const ml_range *ranges, size_t count, uint32_t code)
{
    size_t low = 0;
    while (count > 0) {
        size_t half = count / 2;
        if (ranges[low + half].last < code) {
            low += half + 1;
            count -= half + 1;
        } else if (ranges[low + half].first > code) {
            count = half;
        } else {
            return true;
        }
    }
    return false;
}

bool ml_is_letter(uint32_t code)
{
    if (code < 0x80)
        return (code | 0x20u) - 'a' < 26;
    return in_ranges(ml_letters, COUNT(ml_letters), code);
}

bool ml_is_mark(uint32_t code)
{
    return code >= ML_NFC_FIRST && in_ranges(ml_marks, COUNT(ml_marks), code);
}

bool ml_is_number(uint32_t code)
{
    if (code < 0x80)
        return code - '0' < 10;
    return in_ranges(ml_numbers, COUNT(ml_numbers), code);
}

bool ml_is_space(uint32_t code)
{
    if (code < 0x80)
        return code == ' ' || code - '\t' < 5;
    return in_ranges(ml_spaces, COUNT(ml_spaces), code);
}

bool ml_is_digit(uint32_t code)
{
    if (code < 0x80)
        return code - '0' < 10;
    return in_ranges(ml_digits, COUNT(ml_digits), code);
}

static uint32_t combining_class(uint32_t code)
{
    if (code < ML_NFC_FIRST)
        return 0;
    size_t low = 0, high = COUNT(ml_classes);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ml_classes[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < COUNT(ml_classes) && ml_classes[low].first <= code ? ml_classes[low].value : 0;
}

size_t ml_nfc_decompose(uint32_t code, uint32_t *codes)
{
    uint32_t index = code - HANGUL_SYLLABLES;
    if (index < SYLLABLE_COUNT) {
        codes[0] = HANGUL_LEADS + index / (VOWEL_COUNT * TAIL_COUNT);
        codes[1] = HANGUL_VOWELS + index / TAIL_COUNT % VOWEL_COUNT;
        codes[2] = HANGUL_TAILS + index % TAIL_COUNT;
        return index % TAIL_COUNT ? 3 : 2;
    }
    size_t low = 0, high = COUNT(ml_decompositions);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ml_decompositions[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == COUNT(ml_decompositions) || ml_decompositions[low].code != code) {
        codes[0] = code;
        return 1;
    }
    size_t length = ml_decompositions[low].length;
    memcpy(codes, ml_decomposition_pool + ml_decompositions[low].start, length * sizeof *codes);
    return length;
}

/* The character that the pair composes to, or 0. */
static uint32_t compose_pair(uint32_t first, uint32_t second)
{
    if (first - HANGUL_LEADS < LEAD_COUNT && second - HANGUL_VOWELS < VOWEL_COUNT)
        return HANGUL_SYLLABLES +
               ((first - HANGUL_LEADS) * VOWEL_COUNT + second - HANGUL_VOWELS) * TAIL_COUNT;
    uint32_t index = first - HANGUL_SYLLABLES;
    if (index < SYLLABLE_COUNT && index % TAIL_COUNT == 0 && second - HANGUL_TAILS - 1 < TAIL_COUNT - 1)
        return first + second - HANGUL_TAILS;
    size_t low = 0, high = COUNT(ml_compositions);
    while (low < high) {
        size_t middle = (low + high) / 2;
        const ml_composition *pair = &ml_compositions[middle];
        if (pair->first < first || (pair->first == first && pair->second < second))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == COUNT(ml_compositions))
        return 0;
    const ml_composition *pair = &ml_compositions[low];
    return pair->first == first && pair->second == second ? pair->composed : 0;
}

/* Stable counting sort of marks by class: a run may be as long as the text. */
static void order_marks(uint32_t *marks, size_t count, uint32_t *scratch)
{
    size_t starts[256] = {0};
    bool ordered = true;
    for (size_t i = 0; i < count; i++) {
        uint32_t value = combining_class(marks[i]);
        ordered = ordered && (i == 0 || combining_class(marks[i - 1]) <= value);
        starts[value]++;
    }
    if (ordered)
        return;
    size_t next = 0;
    for (size_t value = 0; value < COUNT(starts); value++) {
        size_t here = starts[value];
        starts[value] = next;
        next += here;
    }
    for (size_t i = 0; i < count; i++)
        scratch[starts[combining_class(marks[i])]++] = marks[i];
    memcpy(marks, scratch, count * sizeof *marks);
}

static void order_all(uint32_t *codes, size_t count, uint32_t *scratch)
{
    for (size_t i = 0; i < count;) {
        size_t start = i;
        while (i < count && combining_class(codes[i]) != 0)
            i++;
        if (i - start > 1)
            order_marks(codes + start, i - start, scratch);
        if (i == start)
            i++;
    }
}

size_t ml_nfc_compose(uint32_t *codes, size_t count, uint32_t *scratch)
{
    order_all(codes, count, scratch);
    size_t out = 0, starter = 0;
    bool has_starter = false;
    uint32_t last = 0; /* class of the last character kept after the starter */
    for (size_t i = 0; i < count; i++) {
        uint32_t value = combining_class(codes[i]);
        bool adjacent = has_starter && out == starter + 1;
        if (has_starter && (adjacent || last < value)) {
            uint32_t composed = compose_pair(codes[starter], codes[i]);
            if (composed) {
                codes[starter] = composed;
                continue;
            }
        }
        if (value == 0) {
            starter = out;
            has_starter = true;
        }
        last = value;
        codes[out++] = codes[i];
    }
    return out;
}
