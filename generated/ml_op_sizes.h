/* Written by krafla-gen from the op registry (codegen/ops.py); do not edit. */

#ifndef ML_OP_SIZES_H
#define ML_OP_SIZES_H

#include <stddef.h>

typedef struct ml_op_sizes {
    size_t rows, cols, r0, r1, tokens, y_stride, n, head_dim, rot_dim, n_heads, n_kv_heads, queries, s_stride,
        q_stride, p_stride;
} ml_op_sizes;

#endif
