/* text_stream.h: bytes of tokens to text, whole characters only; what is no UTF-8 becomes U+FFFD. */
#ifndef ML_TEXT_STREAM_H
#define ML_TEXT_STREAM_H

#include "core/ml.h"

#include <stdio.h>

typedef struct ml_text_stream {
    FILE *out;
    bool json;             /* as the inside of a JSON string */
    unsigned char held[4]; /* the start of a character */
    int n_held;
    int wanted; /* bytes of that character */
} ml_text_stream;

void ml_text_push(ml_text_stream *stream, const char *bytes, size_t count);
/* Writes U+FFFD for an unfinished character. */
void ml_text_finish(ml_text_stream *stream);

#endif
