/* text_stream.c: a character is held back until its last byte is there. */
#include "text_stream.h"

static int length_by_first(unsigned char byte)
{
    return byte < 0x80                    ? 1
           : byte >= 0xc2 && byte <= 0xdf ? 2
           : (byte & 0xf0) == 0xe0        ? 3
           : byte >= 0xf0 && byte <= 0xf4 ? 4
                                          : 0;
}

/* Overlong forms, surrogates and what lies beyond U+10FFFF show in the second byte. */
static bool continues(const ml_text_stream *stream, unsigned char byte)
{
    unsigned char low = 0x80, high = 0xbf;
    if (stream->n_held == 1) {
        unsigned char first = stream->held[0];
        low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    }
    return byte >= low && byte <= high;
}

/* A whole character. */
static void put(const ml_text_stream *stream)
{
    unsigned char first = stream->held[0];
    if (stream->json && first < 0x20)
        fprintf(stream->out, "\\u%04x", first);
    else if (stream->json && (first == '"' || first == '\\'))
        fprintf(stream->out, "\\%c", first);
    else
        fwrite(stream->held, 1, (size_t)stream->n_held, stream->out);
}

static void push_byte(ml_text_stream *stream, unsigned char byte)
{
    if (stream->n_held && !continues(stream, byte))
        ml_text_finish(stream);
    if (!stream->n_held)
        stream->wanted = length_by_first(byte);
    if (!stream->wanted) {
        fputs("\xef\xbf\xbd", stream->out);
        return;
    }
    stream->held[stream->n_held++] = byte;
    if (stream->n_held == stream->wanted) {
        put(stream);
        stream->n_held = 0;
    }
}

void ml_text_push(ml_text_stream *stream, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        push_byte(stream, (unsigned char)bytes[i]);
    fflush(stream->out);
}

void ml_text_finish(ml_text_stream *stream)
{
    if (stream->n_held)
        fputs("\xef\xbf\xbd", stream->out);
    stream->n_held = 0;
    fflush(stream->out);
}
