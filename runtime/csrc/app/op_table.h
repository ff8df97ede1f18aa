/*
 * op_table.h: every op that this build binds, as data: its arguments, how to call it and its scalar twin,
 * test cases and bench shapes. The table is generated/ml_ops.c, made from the op registry.
 */
#ifndef ML_OP_TABLE_H
#define ML_OP_TABLE_H

#include "core/ml.h"
#include "ml_op_sizes.h"

/* What the numbers of an array are; the packed and tiled ones come from others by packing and tile_q8. */
typedef enum ml_op_data {
    ML_DATA_NONE, /* a size */
    ML_DATA_F32,
    ML_DATA_F16,
    ML_DATA_QUANTS,
    ML_DATA_SCALES,
    ML_DATA_SUMS,
    ML_DATA_Q8_QUANTS,
    ML_DATA_Q4_QUANTS,
    ML_DATA_PACKED_Q8,
    ML_DATA_PACKED_Q4,
    ML_DATA_PACKED_SCALES_F32,
    ML_DATA_PACKED_SCALES_F16,
    ML_DATA_TILED_QUANTS,
    ML_DATA_TILED_SCALES,
    ML_DATA_TILED_CORRECTIONS,
    ML_DATA_PACKED_KEYS,
    ML_DATA_CORRECTIONS,
} ml_op_data;

typedef enum ml_op_role { ML_ROLE_IN, ML_ROLE_OUT, ML_ROLE_INOUT, ML_ROLE_SIZE, ML_ROLE_VALUE } ml_op_role;

enum { ML_OP_MAX_ARGS = 16 };

typedef struct ml_op_arg {
    const char *name;
    ml_op_role role;
    ml_op_data data;
    size_t element; /* bytes; 0: not an array */
} ml_op_arg;

/* One value per argument: an array's address, or a number of role VALUE; sizes come from ml_op_sizes. */
typedef struct ml_op_call {
    void *arrays[ML_OP_MAX_ARGS];
    float values[ML_OP_MAX_ARGS];
} ml_op_call;

typedef struct ml_op {
    const char *name;
    const char *kernel; /* the function that the op is bound to */
    const char *twin;   /* packed ops: the row-major op that computes the same; else NULL */
    const ml_op_arg *args;
    int n_args;
    size_t (*count)(const ml_op_sizes *s, int arg); /* elements of an array */
    void (*bound)(const ml_op_call *c, const ml_op_sizes *s);
    void (*scalar)(const ml_op_call *c, const ml_op_sizes *s); /* NULL if there is none */
    double (*flops)(const ml_op_sizes *s);
    double (*bytes)(const ml_op_sizes *s);
    const ml_op_sizes *cases;
    int n_cases;
    const ml_op_sizes *bench;
    int n_bench;
} ml_op;

extern const ml_op ml_ops[];
extern const int ml_op_count;

/* The op of that name, or NULL if this build has none. */
const ml_op *ml_op_find(const char *name);
/* One line per op: the kernel that serves it. */
void ml_op_print_bindings(void);

#endif
