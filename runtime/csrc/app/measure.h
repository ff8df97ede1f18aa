/*
 * measure.h: what `krafla bench --kernels` times: calls of a kernel, and the limits that the machine sets it.
 * Each function returns the seconds that its work took.
 */
#ifndef ML_MEASURE_H
#define ML_MEASURE_H

#include "core/ml.h"

enum { ML_MEASURED_ARGS = 16 };

/* The arguments of a kernel by their index: an array's address, a number, or a size. */
typedef struct ml_measured_call {
    void *arrays[ML_MEASURED_ARGS];
    float values[ML_MEASURED_ARGS];
    size_t sizes[ML_MEASURED_ARGS];
} ml_measured_call;

/* Calls one kernel; such functions are made from the op registry. */
typedef void (*ml_measured)(const ml_measured_call *call);

/* `repeats` calls of a kernel, with each of the `count` sets of arguments in turn. */
ML_API double ml_measure_calls(ml_measured kernel, const ml_measured_call *calls, int count, int repeats);
/* Reads `bytes` (a multiple of 1024) at `data` over and over, by the widest loads of this build. */
ML_API double ml_measure_read(const void *data, size_t bytes, int passes);
/*
 * The build's fastest int8 inner product and its float multiply-add, on registers alone; *operations becomes
 * the number of multiplications and additions done.
 */
ML_API double ml_measure_int8(int rounds, double *operations);
ML_API double ml_measure_float(int rounds, double *operations);
/* The instructions of the latter two. */
ML_API const char *ml_measure_int8_name(void);
ML_API const char *ml_measure_float_name(void);

#endif
