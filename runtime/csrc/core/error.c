/* error.c: the error sentence. */
#include "ml.h"

#include <stdarg.h>
#include <stdio.h>

ml_status ml_fail(ml_error *error, ml_status status, const char *format, ...)
{
    if (error) {
        error->status = status;
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
    }
    return status;
}
