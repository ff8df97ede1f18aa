/* file.h: a whole file as read-only bytes: mapped, or read into memory with -DML_NO_MMAP. */
#ifndef ML_FILE_H
#define ML_FILE_H

#include "ml.h"

typedef struct ml_file {
    const unsigned char *data;
    size_t size;
    bool mapped;
    const unsigned char *base; /* of the whole file, of which a bundle's member is a part */
    size_t base_size;
} ml_file;

/* PATH is a file, or FILE::NAME for a member of a bundle (bundle.h) where there is no file of that name. */
ml_status ml_file_open(ml_file *file, const char *path, ml_error *error);
/* Tells the system that these bytes will not be read again soon (a no-op where there is nothing to tell). */
void ml_file_discard(const ml_file *file, const void *start, size_t bytes);
void ml_file_close(ml_file *file);

/* Writes all parts to PATH through a temporary file beside it and a rename; on error nothing is left behind.
 */
typedef struct ml_span {
    const void *data;
    size_t bytes;
} ml_span;
ml_status ml_file_write_atomically(const char *path, const ml_span *spans, size_t count, ml_error *error);

#endif
