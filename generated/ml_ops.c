/* Written by krafla-gen from the op registry (codegen/ops.py); do not edit. */

#include "app/op_table.h"
#include "ml_config.h"
#include "scalar/k_scalar.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

#ifndef ML_TILE_X_BYTES
#define ML_TILE_X_BYTES ML_BLOCK
#endif
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

static size_t count_matvec_q8(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return s->rows;
    case 1:
        return s->rows * s->cols;
    case 2:
        return s->rows * s->cols / 32;
    case 3:
        return s->cols;
    case 4:
        return s->cols / 32;
    case 5:
        return s->cols / 32;
    default:
        return 0;
    }
}
static void bound_matvec_q8(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_matvec_q8(c->arrays[0], c->arrays[1], c->arrays[2], c->arrays[3], c->arrays[4], c->arrays[5],
                   (int)s->cols, (int)s->r0, (int)s->r1);
}
static void scalar_matvec_q8(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_matvec_q8_scalar(c->arrays[0], c->arrays[1], c->arrays[2], c->arrays[3], c->arrays[4], c->arrays[5],
                          (int)s->cols, (int)s->r0, (int)s->r1);
}
static double flops_matvec_q8(const ml_op_sizes *s)
{

    return (double)(2 * s->rows * s->cols);
}
static double bytes_matvec_q8(const ml_op_sizes *s)
{

    return (double)(s->rows * s->cols * 36 / 32);
}
static const ml_op_sizes cases_matvec_q8[] = {{.rows = 1, .cols = 32, .r0 = 0, .r1 = 1},
                                              {.rows = 7, .cols = 96, .r0 = 0, .r1 = 7},
                                              {.rows = 33, .cols = 288, .r0 = 5, .r1 = 30},
                                              {.rows = 16, .cols = 1024, .r0 = 0, .r1 = 16}};
static const ml_op_sizes bench_matvec_q8[] = {{.rows = 2048, .cols = 2048, .r0 = 0, .r1 = 2048}};
static const ml_op_arg args_matvec_q8[] = {
    {"y", ML_ROLE_OUT, ML_DATA_F32, 4},      {"wq", ML_ROLE_IN, ML_DATA_Q8_QUANTS, 1},
    {"wd", ML_ROLE_IN, ML_DATA_SCALES, 4},   {"xq", ML_ROLE_IN, ML_DATA_QUANTS, 1},
    {"xd", ML_ROLE_IN, ML_DATA_SCALES, 4},   {"xs", ML_ROLE_IN, ML_DATA_SUMS, 4},
    {"cols", ML_ROLE_SIZE, ML_DATA_NONE, 0}, {"r0", ML_ROLE_SIZE, ML_DATA_NONE, 0},
    {"r1", ML_ROLE_SIZE, ML_DATA_NONE, 0}};

static size_t count_matvec_q4(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return s->rows;
    case 1:
        return s->rows * s->cols / 2;
    case 2:
        return s->rows * s->cols / 32;
    case 3:
        return s->cols;
    case 4:
        return s->cols / 32;
    case 5:
        return s->cols / 32;
    default:
        return 0;
    }
}
static void bound_matvec_q4(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_matvec_q4(c->arrays[0], c->arrays[1], c->arrays[2], c->arrays[3], c->arrays[4], c->arrays[5],
                   (int)s->cols, (int)s->r0, (int)s->r1);
}
static void scalar_matvec_q4(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_matvec_q4_scalar(c->arrays[0], c->arrays[1], c->arrays[2], c->arrays[3], c->arrays[4], c->arrays[5],
                          (int)s->cols, (int)s->r0, (int)s->r1);
}
static double flops_matvec_q4(const ml_op_sizes *s)
{

    return (double)(2 * s->rows * s->cols);
}
static double bytes_matvec_q4(const ml_op_sizes *s)
{

    return (double)(s->rows * s->cols * 20 / 32);
}
static const ml_op_sizes cases_matvec_q4[] = {{.rows = 1, .cols = 32, .r0 = 0, .r1 = 1},
                                              {.rows = 7, .cols = 96, .r0 = 0, .r1 = 7},
                                              {.rows = 33, .cols = 288, .r0 = 5, .r1 = 30},
                                              {.rows = 16, .cols = 1024, .r0 = 0, .r1 = 16}};
static const ml_op_sizes bench_matvec_q4[] = {{.rows = 2048, .cols = 2048, .r0 = 0, .r1 = 2048}};
static const ml_op_arg args_matvec_q4[] = {
    {"y", ML_ROLE_OUT, ML_DATA_F32, 4},      {"wq", ML_ROLE_IN, ML_DATA_Q4_QUANTS, 1},
    {"wd", ML_ROLE_IN, ML_DATA_SCALES, 4},   {"xq", ML_ROLE_IN, ML_DATA_QUANTS, 1},
    {"xd", ML_ROLE_IN, ML_DATA_SCALES, 4},   {"xs", ML_ROLE_IN, ML_DATA_SUMS, 4},
    {"cols", ML_ROLE_SIZE, ML_DATA_NONE, 0}, {"r0", ML_ROLE_SIZE, ML_DATA_NONE, 0},
    {"r1", ML_ROLE_SIZE, ML_DATA_NONE, 0}};

#if defined(ml_k_matvec_q8_pk)
static size_t count_matvec_q8_pk(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return s->rows;
    case 1:
        return CEIL_DIV(s->rows, ML_PACK_GROUP) * ML_PACK_GROUP * (s->cols / 32) * 32;
    case 2:
        return CEIL_DIV(s->rows, ML_PACK_GROUP) * ML_PACK_GROUP * (s->cols / 32);
    case 3:
        return 1 * (s->cols / 32) * ML_TILE_X_BYTES;
    case 4:
        return 1 * (s->cols / 32);
    case 5:
        return 1 * (s->cols / 32) * 2;
    default:
        return 0;
    }
}
static void bound_matvec_q8_pk(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_matvec_q8_pk(c->arrays[0], c->arrays[1], c->arrays[2], c->arrays[3], c->arrays[4], c->arrays[5],
                      (int)s->cols, (int)s->r0, (int)s->r1);
}
static double flops_matvec_q8_pk(const ml_op_sizes *s)
{

    return (double)(2 * s->rows * s->cols);
}
static double bytes_matvec_q8_pk(const ml_op_sizes *s)
{

    return (double)(s->rows * s->cols * 36 / 32);
}
static const ml_op_sizes cases_matvec_q8_pk[] = {{.rows = 1, .cols = 32, .r0 = 0, .r1 = 1},
                                                 {.rows = 16, .cols = 96, .r0 = 0, .r1 = 16},
                                                 {.rows = 35, .cols = 288, .r0 = 16, .r1 = 35},
                                                 {.rows = 64, .cols = 1024, .r0 = 0, .r1 = 64}};
static const ml_op_sizes bench_matvec_q8_pk[] = {{.rows = 2048, .cols = 2048, .r0 = 0, .r1 = 2048}};
static const ml_op_arg args_matvec_q8_pk[] = {{"y", ML_ROLE_OUT, ML_DATA_F32, 4},
                                              {"wq", ML_ROLE_IN, ML_DATA_PACKED_Q8, 1},
                                              {"wd", ML_ROLE_IN, ML_DATA_PACKED_SCALES_F32, 4},
                                              {"xt", ML_ROLE_IN, ML_DATA_TILED_QUANTS, 1},
                                              {"xd", ML_ROLE_IN, ML_DATA_TILED_SCALES, 4},
                                              {"xs", ML_ROLE_IN, ML_DATA_TILED_CORRECTIONS, 4},
                                              {"cols", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                              {"r0", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                              {"r1", ML_ROLE_SIZE, ML_DATA_NONE, 0}};
#endif

#if defined(ml_k_matvec_q8_pk_f16)
static size_t count_matvec_q8_pk_f16(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return s->rows;
    case 1:
        return CEIL_DIV(s->rows, ML_PACK_GROUP) * ML_PACK_GROUP * (s->cols / 32) * 32;
    case 2:
        return CEIL_DIV(s->rows, ML_PACK_GROUP) * ML_PACK_GROUP * (s->cols / 32);
    case 3:
        return 1 * (s->cols / 32) * ML_TILE_X_BYTES;
    case 4:
        return 1 * (s->cols / 32);
    case 5:
        return 1 * (s->cols / 32) * 2;
    default:
        return 0;
    }
}
static void bound_matvec_q8_pk_f16(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_matvec_q8_pk_f16(c->arrays[0], c->arrays[1], c->arrays[2], c->arrays[3], c->arrays[4], c->arrays[5],
                          (int)s->cols, (int)s->r0, (int)s->r1);
}
static double flops_matvec_q8_pk_f16(const ml_op_sizes *s)
{

    return (double)(2 * s->rows * s->cols);
}
static double bytes_matvec_q8_pk_f16(const ml_op_sizes *s)
{

    return (double)(s->rows * s->cols * 34 / 32);
}
static const ml_op_sizes cases_matvec_q8_pk_f16[] = {{.rows = 1, .cols = 32, .r0 = 0, .r1 = 1},
                                                     {.rows = 16, .cols = 96, .r0 = 0, .r1 = 16},
                                                     {.rows = 35, .cols = 288, .r0 = 16, .r1 = 35},
                                                     {.rows = 64, .cols = 1024, .r0 = 0, .r1 = 64}};
static const ml_op_sizes bench_matvec_q8_pk_f16[] = {{.rows = 2048, .cols = 2048, .r0 = 0, .r1 = 2048}};
static const ml_op_arg args_matvec_q8_pk_f16[] = {{"y", ML_ROLE_OUT, ML_DATA_F32, 4},
                                                  {"wq", ML_ROLE_IN, ML_DATA_PACKED_Q8, 1},
                                                  {"wd", ML_ROLE_IN, ML_DATA_PACKED_SCALES_F16, 2},
                                                  {"xt", ML_ROLE_IN, ML_DATA_TILED_QUANTS, 1},
                                                  {"xd", ML_ROLE_IN, ML_DATA_TILED_SCALES, 4},
                                                  {"xs", ML_ROLE_IN, ML_DATA_TILED_CORRECTIONS, 4},
                                                  {"cols", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                                  {"r0", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                                  {"r1", ML_ROLE_SIZE, ML_DATA_NONE, 0}};
#endif

#if defined(ml_k_matvec_q4_pk)
static size_t count_matvec_q4_pk(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return s->rows;
    case 1:
        return CEIL_DIV(s->rows, ML_PACK_GROUP) * ML_PACK_GROUP * (s->cols / 32) * 16;
    case 2:
        return CEIL_DIV(s->rows, ML_PACK_GROUP) * ML_PACK_GROUP * (s->cols / 32);
    case 3:
        return 1 * (s->cols / 32) * ML_TILE_X_BYTES;
    case 4:
        return 1 * (s->cols / 32);
    case 5:
        return 1 * (s->cols / 32) * 2;
    default:
        return 0;
    }
}
static void bound_matvec_q4_pk(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_matvec_q4_pk(c->arrays[0], c->arrays[1], c->arrays[2], c->arrays[3], c->arrays[4], c->arrays[5],
                      (int)s->cols, (int)s->r0, (int)s->r1);
}
static double flops_matvec_q4_pk(const ml_op_sizes *s)
{

    return (double)(2 * s->rows * s->cols);
}
static double bytes_matvec_q4_pk(const ml_op_sizes *s)
{

    return (double)(s->rows * s->cols * 20 / 32);
}
static const ml_op_sizes cases_matvec_q4_pk[] = {{.rows = 1, .cols = 32, .r0 = 0, .r1 = 1},
                                                 {.rows = 16, .cols = 96, .r0 = 0, .r1 = 16},
                                                 {.rows = 35, .cols = 288, .r0 = 16, .r1 = 35},
                                                 {.rows = 64, .cols = 1024, .r0 = 0, .r1 = 64}};
static const ml_op_sizes bench_matvec_q4_pk[] = {{.rows = 2048, .cols = 2048, .r0 = 0, .r1 = 2048}};
static const ml_op_arg args_matvec_q4_pk[] = {{"y", ML_ROLE_OUT, ML_DATA_F32, 4},
                                              {"wq", ML_ROLE_IN, ML_DATA_PACKED_Q4, 1},
                                              {"wd", ML_ROLE_IN, ML_DATA_PACKED_SCALES_F32, 4},
                                              {"xt", ML_ROLE_IN, ML_DATA_TILED_QUANTS, 1},
                                              {"xd", ML_ROLE_IN, ML_DATA_TILED_SCALES, 4},
                                              {"xs", ML_ROLE_IN, ML_DATA_TILED_CORRECTIONS, 4},
                                              {"cols", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                              {"r0", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                              {"r1", ML_ROLE_SIZE, ML_DATA_NONE, 0}};
#endif

#if defined(ml_k_matvec_q4_pk_f16)
static size_t count_matvec_q4_pk_f16(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return s->rows;
    case 1:
        return CEIL_DIV(s->rows, ML_PACK_GROUP) * ML_PACK_GROUP * (s->cols / 32) * 16;
    case 2:
        return CEIL_DIV(s->rows, ML_PACK_GROUP) * ML_PACK_GROUP * (s->cols / 32);
    case 3:
        return 1 * (s->cols / 32) * ML_TILE_X_BYTES;
    case 4:
        return 1 * (s->cols / 32);
    case 5:
        return 1 * (s->cols / 32) * 2;
    default:
        return 0;
    }
}
static void bound_matvec_q4_pk_f16(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_matvec_q4_pk_f16(c->arrays[0], c->arrays[1], c->arrays[2], c->arrays[3], c->arrays[4], c->arrays[5],
                          (int)s->cols, (int)s->r0, (int)s->r1);
}
static double flops_matvec_q4_pk_f16(const ml_op_sizes *s)
{

    return (double)(2 * s->rows * s->cols);
}
static double bytes_matvec_q4_pk_f16(const ml_op_sizes *s)
{

    return (double)(s->rows * s->cols * 18 / 32);
}
static const ml_op_sizes cases_matvec_q4_pk_f16[] = {{.rows = 1, .cols = 32, .r0 = 0, .r1 = 1},
                                                     {.rows = 16, .cols = 96, .r0 = 0, .r1 = 16},
                                                     {.rows = 35, .cols = 288, .r0 = 16, .r1 = 35},
                                                     {.rows = 64, .cols = 1024, .r0 = 0, .r1 = 64}};
static const ml_op_sizes bench_matvec_q4_pk_f16[] = {{.rows = 2048, .cols = 2048, .r0 = 0, .r1 = 2048}};
static const ml_op_arg args_matvec_q4_pk_f16[] = {{"y", ML_ROLE_OUT, ML_DATA_F32, 4},
                                                  {"wq", ML_ROLE_IN, ML_DATA_PACKED_Q4, 1},
                                                  {"wd", ML_ROLE_IN, ML_DATA_PACKED_SCALES_F16, 2},
                                                  {"xt", ML_ROLE_IN, ML_DATA_TILED_QUANTS, 1},
                                                  {"xd", ML_ROLE_IN, ML_DATA_TILED_SCALES, 4},
                                                  {"xs", ML_ROLE_IN, ML_DATA_TILED_CORRECTIONS, 4},
                                                  {"cols", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                                  {"r0", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                                  {"r1", ML_ROLE_SIZE, ML_DATA_NONE, 0}};
#endif

#if defined(ml_k_matmul_q8_pk)
static size_t count_matmul_q8_pk(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return (s->tokens - 1) * s->y_stride + s->rows;
    case 2:
        return CEIL_DIV(s->rows, ML_PACK_GROUP) * ML_PACK_GROUP * (s->cols / 32) * 32;
    case 3:
        return CEIL_DIV(s->rows, ML_PACK_GROUP) * ML_PACK_GROUP * (s->cols / 32);
    case 4:
        return CEIL_DIV(s->tokens, ML_TILE_TOKENS) * ML_TILE_TOKENS * (s->cols / 32) * ML_TILE_X_BYTES;
    case 5:
        return CEIL_DIV(s->tokens, ML_TILE_TOKENS) * ML_TILE_TOKENS * (s->cols / 32);
    case 6:
        return CEIL_DIV(s->tokens, ML_TILE_TOKENS) * ML_TILE_TOKENS * (s->cols / 32) * 2;
    default:
        return 0;
    }
}
static void bound_matmul_q8_pk(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_matmul_q8_pk(c->arrays[0], s->y_stride, c->arrays[2], c->arrays[3], c->arrays[4], c->arrays[5],
                      c->arrays[6], (int)s->cols, (int)s->tokens, (int)s->r0, (int)s->r1);
}
static double flops_matmul_q8_pk(const ml_op_sizes *s)
{

    return (double)(2 * s->rows * s->cols * s->tokens);
}
static double bytes_matmul_q8_pk(const ml_op_sizes *s)
{

    return (double)(s->rows * s->cols * 36 / 32);
}
static const ml_op_sizes cases_matmul_q8_pk[] = {
    {.rows = 1, .cols = 32, .r0 = 0, .r1 = 1, .tokens = 1, .y_stride = 4},
    {.rows = 16, .cols = 96, .r0 = 0, .r1 = 16, .tokens = 2, .y_stride = 19},
    {.rows = 35, .cols = 288, .r0 = 16, .r1 = 35, .tokens = 3, .y_stride = 38},
    {.rows = 64, .cols = 1024, .r0 = 0, .r1 = 64, .tokens = 5, .y_stride = 67},
    {.rows = 1, .cols = 32, .r0 = 0, .r1 = 1, .tokens = 13, .y_stride = 4},
    {.rows = 16, .cols = 96, .r0 = 0, .r1 = 16, .tokens = 31, .y_stride = 19}};
static const ml_op_sizes bench_matmul_q8_pk[] = {
    {.rows = 2048, .cols = 2048, .r0 = 0, .r1 = 2048, .tokens = 128, .y_stride = 2048}};
static const ml_op_arg args_matmul_q8_pk[] = {{"y", ML_ROLE_OUT, ML_DATA_F32, 4},
                                              {"y_stride", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                              {"wq", ML_ROLE_IN, ML_DATA_PACKED_Q8, 1},
                                              {"wd", ML_ROLE_IN, ML_DATA_PACKED_SCALES_F32, 4},
                                              {"xt", ML_ROLE_IN, ML_DATA_TILED_QUANTS, 1},
                                              {"xd", ML_ROLE_IN, ML_DATA_TILED_SCALES, 4},
                                              {"xs", ML_ROLE_IN, ML_DATA_TILED_CORRECTIONS, 4},
                                              {"cols", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                              {"tokens", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                              {"r0", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                              {"r1", ML_ROLE_SIZE, ML_DATA_NONE, 0}};
#endif

#if defined(ml_k_matmul_q8_pk_f16)
static size_t count_matmul_q8_pk_f16(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return (s->tokens - 1) * s->y_stride + s->rows;
    case 2:
        return CEIL_DIV(s->rows, ML_PACK_GROUP) * ML_PACK_GROUP * (s->cols / 32) * 32;
    case 3:
        return CEIL_DIV(s->rows, ML_PACK_GROUP) * ML_PACK_GROUP * (s->cols / 32);
    case 4:
        return CEIL_DIV(s->tokens, ML_TILE_TOKENS) * ML_TILE_TOKENS * (s->cols / 32) * ML_TILE_X_BYTES;
    case 5:
        return CEIL_DIV(s->tokens, ML_TILE_TOKENS) * ML_TILE_TOKENS * (s->cols / 32);
    case 6:
        return CEIL_DIV(s->tokens, ML_TILE_TOKENS) * ML_TILE_TOKENS * (s->cols / 32) * 2;
    default:
        return 0;
    }
}
static void bound_matmul_q8_pk_f16(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_matmul_q8_pk_f16(c->arrays[0], s->y_stride, c->arrays[2], c->arrays[3], c->arrays[4], c->arrays[5],
                          c->arrays[6], (int)s->cols, (int)s->tokens, (int)s->r0, (int)s->r1);
}
static double flops_matmul_q8_pk_f16(const ml_op_sizes *s)
{

    return (double)(2 * s->rows * s->cols * s->tokens);
}
static double bytes_matmul_q8_pk_f16(const ml_op_sizes *s)
{

    return (double)(s->rows * s->cols * 34 / 32);
}
static const ml_op_sizes cases_matmul_q8_pk_f16[] = {
    {.rows = 1, .cols = 32, .r0 = 0, .r1 = 1, .tokens = 1, .y_stride = 4},
    {.rows = 16, .cols = 96, .r0 = 0, .r1 = 16, .tokens = 2, .y_stride = 19},
    {.rows = 35, .cols = 288, .r0 = 16, .r1 = 35, .tokens = 3, .y_stride = 38},
    {.rows = 64, .cols = 1024, .r0 = 0, .r1 = 64, .tokens = 5, .y_stride = 67},
    {.rows = 1, .cols = 32, .r0 = 0, .r1 = 1, .tokens = 13, .y_stride = 4},
    {.rows = 16, .cols = 96, .r0 = 0, .r1 = 16, .tokens = 31, .y_stride = 19}};
static const ml_op_sizes bench_matmul_q8_pk_f16[] = {
    {.rows = 2048, .cols = 2048, .r0 = 0, .r1 = 2048, .tokens = 128, .y_stride = 2048}};
static const ml_op_arg args_matmul_q8_pk_f16[] = {{"y", ML_ROLE_OUT, ML_DATA_F32, 4},
                                                  {"y_stride", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                                  {"wq", ML_ROLE_IN, ML_DATA_PACKED_Q8, 1},
                                                  {"wd", ML_ROLE_IN, ML_DATA_PACKED_SCALES_F16, 2},
                                                  {"xt", ML_ROLE_IN, ML_DATA_TILED_QUANTS, 1},
                                                  {"xd", ML_ROLE_IN, ML_DATA_TILED_SCALES, 4},
                                                  {"xs", ML_ROLE_IN, ML_DATA_TILED_CORRECTIONS, 4},
                                                  {"cols", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                                  {"tokens", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                                  {"r0", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                                  {"r1", ML_ROLE_SIZE, ML_DATA_NONE, 0}};
#endif

#if defined(ml_k_matmul_q4_pk)
static size_t count_matmul_q4_pk(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return (s->tokens - 1) * s->y_stride + s->rows;
    case 2:
        return CEIL_DIV(s->rows, ML_PACK_GROUP) * ML_PACK_GROUP * (s->cols / 32) * 16;
    case 3:
        return CEIL_DIV(s->rows, ML_PACK_GROUP) * ML_PACK_GROUP * (s->cols / 32);
    case 4:
        return CEIL_DIV(s->tokens, ML_TILE_TOKENS) * ML_TILE_TOKENS * (s->cols / 32) * ML_TILE_X_BYTES;
    case 5:
        return CEIL_DIV(s->tokens, ML_TILE_TOKENS) * ML_TILE_TOKENS * (s->cols / 32);
    case 6:
        return CEIL_DIV(s->tokens, ML_TILE_TOKENS) * ML_TILE_TOKENS * (s->cols / 32) * 2;
    default:
        return 0;
    }
}
static void bound_matmul_q4_pk(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_matmul_q4_pk(c->arrays[0], s->y_stride, c->arrays[2], c->arrays[3], c->arrays[4], c->arrays[5],
                      c->arrays[6], (int)s->cols, (int)s->tokens, (int)s->r0, (int)s->r1);
}
static double flops_matmul_q4_pk(const ml_op_sizes *s)
{

    return (double)(2 * s->rows * s->cols * s->tokens);
}
static double bytes_matmul_q4_pk(const ml_op_sizes *s)
{

    return (double)(s->rows * s->cols * 20 / 32);
}
static const ml_op_sizes cases_matmul_q4_pk[] = {
    {.rows = 1, .cols = 32, .r0 = 0, .r1 = 1, .tokens = 1, .y_stride = 4},
    {.rows = 16, .cols = 96, .r0 = 0, .r1 = 16, .tokens = 2, .y_stride = 19},
    {.rows = 35, .cols = 288, .r0 = 16, .r1 = 35, .tokens = 3, .y_stride = 38},
    {.rows = 64, .cols = 1024, .r0 = 0, .r1 = 64, .tokens = 5, .y_stride = 67},
    {.rows = 1, .cols = 32, .r0 = 0, .r1 = 1, .tokens = 13, .y_stride = 4},
    {.rows = 16, .cols = 96, .r0 = 0, .r1 = 16, .tokens = 31, .y_stride = 19}};
static const ml_op_sizes bench_matmul_q4_pk[] = {
    {.rows = 2048, .cols = 2048, .r0 = 0, .r1 = 2048, .tokens = 128, .y_stride = 2048}};
static const ml_op_arg args_matmul_q4_pk[] = {{"y", ML_ROLE_OUT, ML_DATA_F32, 4},
                                              {"y_stride", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                              {"wq", ML_ROLE_IN, ML_DATA_PACKED_Q4, 1},
                                              {"wd", ML_ROLE_IN, ML_DATA_PACKED_SCALES_F32, 4},
                                              {"xt", ML_ROLE_IN, ML_DATA_TILED_QUANTS, 1},
                                              {"xd", ML_ROLE_IN, ML_DATA_TILED_SCALES, 4},
                                              {"xs", ML_ROLE_IN, ML_DATA_TILED_CORRECTIONS, 4},
                                              {"cols", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                              {"tokens", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                              {"r0", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                              {"r1", ML_ROLE_SIZE, ML_DATA_NONE, 0}};
#endif

#if defined(ml_k_matmul_q4_pk_f16)
static size_t count_matmul_q4_pk_f16(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return (s->tokens - 1) * s->y_stride + s->rows;
    case 2:
        return CEIL_DIV(s->rows, ML_PACK_GROUP) * ML_PACK_GROUP * (s->cols / 32) * 16;
    case 3:
        return CEIL_DIV(s->rows, ML_PACK_GROUP) * ML_PACK_GROUP * (s->cols / 32);
    case 4:
        return CEIL_DIV(s->tokens, ML_TILE_TOKENS) * ML_TILE_TOKENS * (s->cols / 32) * ML_TILE_X_BYTES;
    case 5:
        return CEIL_DIV(s->tokens, ML_TILE_TOKENS) * ML_TILE_TOKENS * (s->cols / 32);
    case 6:
        return CEIL_DIV(s->tokens, ML_TILE_TOKENS) * ML_TILE_TOKENS * (s->cols / 32) * 2;
    default:
        return 0;
    }
}
static void bound_matmul_q4_pk_f16(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_matmul_q4_pk_f16(c->arrays[0], s->y_stride, c->arrays[2], c->arrays[3], c->arrays[4], c->arrays[5],
                          c->arrays[6], (int)s->cols, (int)s->tokens, (int)s->r0, (int)s->r1);
}
static double flops_matmul_q4_pk_f16(const ml_op_sizes *s)
{

    return (double)(2 * s->rows * s->cols * s->tokens);
}
static double bytes_matmul_q4_pk_f16(const ml_op_sizes *s)
{

    return (double)(s->rows * s->cols * 18 / 32);
}
static const ml_op_sizes cases_matmul_q4_pk_f16[] = {
    {.rows = 1, .cols = 32, .r0 = 0, .r1 = 1, .tokens = 1, .y_stride = 4},
    {.rows = 16, .cols = 96, .r0 = 0, .r1 = 16, .tokens = 2, .y_stride = 19},
    {.rows = 35, .cols = 288, .r0 = 16, .r1 = 35, .tokens = 3, .y_stride = 38},
    {.rows = 64, .cols = 1024, .r0 = 0, .r1 = 64, .tokens = 5, .y_stride = 67},
    {.rows = 1, .cols = 32, .r0 = 0, .r1 = 1, .tokens = 13, .y_stride = 4},
    {.rows = 16, .cols = 96, .r0 = 0, .r1 = 16, .tokens = 31, .y_stride = 19}};
static const ml_op_sizes bench_matmul_q4_pk_f16[] = {
    {.rows = 2048, .cols = 2048, .r0 = 0, .r1 = 2048, .tokens = 128, .y_stride = 2048}};
static const ml_op_arg args_matmul_q4_pk_f16[] = {{"y", ML_ROLE_OUT, ML_DATA_F32, 4},
                                                  {"y_stride", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                                  {"wq", ML_ROLE_IN, ML_DATA_PACKED_Q4, 1},
                                                  {"wd", ML_ROLE_IN, ML_DATA_PACKED_SCALES_F16, 2},
                                                  {"xt", ML_ROLE_IN, ML_DATA_TILED_QUANTS, 1},
                                                  {"xd", ML_ROLE_IN, ML_DATA_TILED_SCALES, 4},
                                                  {"xs", ML_ROLE_IN, ML_DATA_TILED_CORRECTIONS, 4},
                                                  {"cols", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                                  {"tokens", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                                  {"r0", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                                  {"r1", ML_ROLE_SIZE, ML_DATA_NONE, 0}};
#endif

#if defined(ml_k_tile_q8)
static size_t count_tile_q8(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return CEIL_DIV(s->tokens, ML_TILE_TOKENS) * ML_TILE_TOKENS * (s->cols / 32) * ML_TILE_X_BYTES;
    case 1:
        return CEIL_DIV(s->tokens, ML_TILE_TOKENS) * ML_TILE_TOKENS * (s->cols / 32);
    case 2:
        return CEIL_DIV(s->tokens, ML_TILE_TOKENS) * ML_TILE_TOKENS * (s->cols / 32) * 2;
    case 3:
        return s->tokens * s->cols;
    case 4:
        return s->tokens * (s->cols / 32);
    case 5:
        return s->tokens * (s->cols / 32);
    default:
        return 0;
    }
}
static void bound_tile_q8(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_tile_q8(c->arrays[0], c->arrays[1], c->arrays[2], c->arrays[3], c->arrays[4], c->arrays[5],
                 (int)s->cols, (int)s->tokens);
}
static double flops_tile_q8(const ml_op_sizes *s)
{
    (void)s;
    return (double)(0);
}
static double bytes_tile_q8(const ml_op_sizes *s)
{

    return (double)(2 * s->cols * s->tokens);
}
static const ml_op_sizes cases_tile_q8[] = {
    {.cols = 32, .tokens = 1}, {.cols = 96, .tokens = 3}, {.cols = 288, .tokens = 29}};
static const ml_op_sizes bench_tile_q8[] = {{.cols = 2048, .tokens = 128}};
static const ml_op_arg args_tile_q8[] = {{"xt", ML_ROLE_OUT, ML_DATA_TILED_QUANTS, 1},
                                         {"xdt", ML_ROLE_OUT, ML_DATA_TILED_SCALES, 4},
                                         {"xst", ML_ROLE_OUT, ML_DATA_TILED_CORRECTIONS, 4},
                                         {"xq", ML_ROLE_IN, ML_DATA_QUANTS, 1},
                                         {"xd", ML_ROLE_IN, ML_DATA_SCALES, 4},
                                         {"xs", ML_ROLE_IN, ML_DATA_SUMS, 4},
                                         {"cols", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                         {"tokens", ML_ROLE_SIZE, ML_DATA_NONE, 0}};
#endif

static size_t count_quantize_q8(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return s->n;
    case 1:
        return s->n / 32;
    case 2:
        return s->n / 32;
    case 3:
        return s->n;
    default:
        return 0;
    }
}
static void bound_quantize_q8(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_quantize_q8(c->arrays[0], c->arrays[1], c->arrays[2], c->arrays[3], (int)s->n);
}
static void scalar_quantize_q8(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_quantize_q8_scalar(c->arrays[0], c->arrays[1], c->arrays[2], c->arrays[3], (int)s->n);
}
static double flops_quantize_q8(const ml_op_sizes *s)
{

    return (double)(4 * s->n);
}
static double bytes_quantize_q8(const ml_op_sizes *s)
{

    return (double)(5 * s->n);
}
static const ml_op_sizes cases_quantize_q8[] = {{.n = 32}, {.n = 96}, {.n = 2048}};
static const ml_op_sizes bench_quantize_q8[] = {{.n = 2048}};
static const ml_op_arg args_quantize_q8[] = {{"q", ML_ROLE_OUT, ML_DATA_QUANTS, 1},
                                             {"d", ML_ROLE_OUT, ML_DATA_SCALES, 4},
                                             {"s", ML_ROLE_OUT, ML_DATA_SUMS, 4},
                                             {"x", ML_ROLE_IN, ML_DATA_F32, 4},
                                             {"n", ML_ROLE_SIZE, ML_DATA_NONE, 0}};

static size_t count_rmsnorm(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return s->n;
    case 1:
        return s->n;
    case 2:
        return s->n;
    default:
        return 0;
    }
}
static void bound_rmsnorm(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_rmsnorm(c->arrays[0], c->arrays[1], c->arrays[2], (int)s->n, c->values[4]);
}
static void scalar_rmsnorm(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_rmsnorm_scalar(c->arrays[0], c->arrays[1], c->arrays[2], (int)s->n, c->values[4]);
}
static double flops_rmsnorm(const ml_op_sizes *s)
{

    return (double)(4 * s->n);
}
static double bytes_rmsnorm(const ml_op_sizes *s)
{

    return (double)(12 * s->n);
}
static const ml_op_sizes cases_rmsnorm[] = {{.n = 1},  {.n = 4},  {.n = 15},  {.n = 16},  {.n = 31},
                                            {.n = 32}, {.n = 33}, {.n = 100}, {.n = 1025}};
static const ml_op_sizes bench_rmsnorm[] = {{.n = 2048}};
static const ml_op_arg args_rmsnorm[] = {{"o", ML_ROLE_OUT, ML_DATA_F32, 4},
                                         {"x", ML_ROLE_IN, ML_DATA_F32, 4},
                                         {"w", ML_ROLE_IN, ML_DATA_F32, 4},
                                         {"n", ML_ROLE_SIZE, ML_DATA_NONE, 0},
                                         {"eps", ML_ROLE_VALUE, ML_DATA_F32, 0}};

static size_t count_softmax(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return s->n;
    default:
        return 0;
    }
}
static void bound_softmax(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_softmax(c->arrays[0], (int)s->n);
}
static void scalar_softmax(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_softmax_scalar(c->arrays[0], (int)s->n);
}
static double flops_softmax(const ml_op_sizes *s)
{

    return (double)(20 * s->n);
}
static double bytes_softmax(const ml_op_sizes *s)
{

    return (double)(8 * s->n);
}
static const ml_op_sizes cases_softmax[] = {{.n = 1},  {.n = 4},  {.n = 15},  {.n = 16},  {.n = 31},
                                            {.n = 32}, {.n = 33}, {.n = 100}, {.n = 1025}};
static const ml_op_sizes bench_softmax[] = {{.n = 1024}};
static const ml_op_arg args_softmax[] = {{"x", ML_ROLE_INOUT, ML_DATA_F32, 4},
                                         {"n", ML_ROLE_SIZE, ML_DATA_NONE, 0}};

static size_t count_silu_mul(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return s->n;
    case 1:
        return s->n;
    default:
        return 0;
    }
}
static void bound_silu_mul(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_silu_mul(c->arrays[0], c->arrays[1], (int)s->n);
}
static void scalar_silu_mul(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_silu_mul_scalar(c->arrays[0], c->arrays[1], (int)s->n);
}
static double flops_silu_mul(const ml_op_sizes *s)
{

    return (double)(20 * s->n);
}
static double bytes_silu_mul(const ml_op_sizes *s)
{

    return (double)(12 * s->n);
}
static const ml_op_sizes cases_silu_mul[] = {{.n = 1},  {.n = 4},  {.n = 15},  {.n = 16},  {.n = 31},
                                             {.n = 32}, {.n = 33}, {.n = 100}, {.n = 1025}};
static const ml_op_sizes bench_silu_mul[] = {{.n = 8192}};
static const ml_op_arg args_silu_mul[] = {{"g", ML_ROLE_INOUT, ML_DATA_F32, 4},
                                          {"u", ML_ROLE_IN, ML_DATA_F32, 4},
                                          {"n", ML_ROLE_SIZE, ML_DATA_NONE, 0}};

static size_t count_gelu_mul(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return s->n;
    case 1:
        return s->n;
    default:
        return 0;
    }
}
static void bound_gelu_mul(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_gelu_mul(c->arrays[0], c->arrays[1], (int)s->n);
}
static void scalar_gelu_mul(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_gelu_mul_scalar(c->arrays[0], c->arrays[1], (int)s->n);
}
static double flops_gelu_mul(const ml_op_sizes *s)
{

    return (double)(25 * s->n);
}
static double bytes_gelu_mul(const ml_op_sizes *s)
{

    return (double)(12 * s->n);
}
static const ml_op_sizes cases_gelu_mul[] = {{.n = 1},  {.n = 4},  {.n = 15},  {.n = 16},  {.n = 31},
                                             {.n = 32}, {.n = 33}, {.n = 100}, {.n = 1025}};
static const ml_op_sizes bench_gelu_mul[] = {{.n = 8192}};
static const ml_op_arg args_gelu_mul[] = {{"g", ML_ROLE_INOUT, ML_DATA_F32, 4},
                                          {"u", ML_ROLE_IN, ML_DATA_F32, 4},
                                          {"n", ML_ROLE_SIZE, ML_DATA_NONE, 0}};

static size_t count_add(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return s->n;
    case 1:
        return s->n;
    default:
        return 0;
    }
}
static void bound_add(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_add(c->arrays[0], c->arrays[1], (int)s->n);
}
static void scalar_add(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_add_scalar(c->arrays[0], c->arrays[1], (int)s->n);
}
static double flops_add(const ml_op_sizes *s)
{

    return (double)(1 * s->n);
}
static double bytes_add(const ml_op_sizes *s)
{

    return (double)(12 * s->n);
}
static const ml_op_sizes cases_add[] = {{.n = 1},  {.n = 4},  {.n = 15},  {.n = 16},  {.n = 31},
                                        {.n = 32}, {.n = 33}, {.n = 100}, {.n = 1025}};
static const ml_op_sizes bench_add[] = {{.n = 8192}};
static const ml_op_arg args_add[] = {{"y", ML_ROLE_INOUT, ML_DATA_F32, 4},
                                     {"x", ML_ROLE_IN, ML_DATA_F32, 4},
                                     {"n", ML_ROLE_SIZE, ML_DATA_NONE, 0}};

static size_t count_rope(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return s->n_heads * s->head_dim;
    case 1:
        return s->n_kv_heads * s->head_dim;
    case 2:
        return s->rot_dim / 2;
    case 3:
        return s->rot_dim / 2;
    default:
        return 0;
    }
}
static void bound_rope(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_rope(c->arrays[0], c->arrays[1], c->arrays[2], c->arrays[3], (int)s->head_dim, (int)s->rot_dim,
              (int)s->n_heads, (int)s->n_kv_heads);
}
static void scalar_rope(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_rope_scalar(c->arrays[0], c->arrays[1], c->arrays[2], c->arrays[3], (int)s->head_dim,
                     (int)s->rot_dim, (int)s->n_heads, (int)s->n_kv_heads);
}
static double flops_rope(const ml_op_sizes *s)
{

    return (double)(3 * (s->n_heads + s->n_kv_heads) * s->rot_dim);
}
static double bytes_rope(const ml_op_sizes *s)
{

    return (double)(8 * (s->n_heads + s->n_kv_heads) * s->rot_dim);
}
static const ml_op_sizes cases_rope[] = {{.head_dim = 2, .rot_dim = 2, .n_heads = 1, .n_kv_heads = 1},
                                         {.head_dim = 16, .rot_dim = 16, .n_heads = 3, .n_kv_heads = 1},
                                         {.head_dim = 64, .rot_dim = 64, .n_heads = 9, .n_kv_heads = 3},
                                         {.head_dim = 80, .rot_dim = 80, .n_heads = 2, .n_kv_heads = 2},
                                         {.head_dim = 128, .rot_dim = 32, .n_heads = 4, .n_kv_heads = 1}};
static const ml_op_sizes bench_rope[] = {{.head_dim = 64, .rot_dim = 64, .n_heads = 32, .n_kv_heads = 8}};
static const ml_op_arg args_rope[] = {
    {"q", ML_ROLE_INOUT, ML_DATA_F32, 4},        {"k", ML_ROLE_INOUT, ML_DATA_F32, 4},
    {"cos_t", ML_ROLE_IN, ML_DATA_F32, 4},       {"sin_t", ML_ROLE_IN, ML_DATA_F32, 4},
    {"head_dim", ML_ROLE_SIZE, ML_DATA_NONE, 0}, {"rot_dim", ML_ROLE_SIZE, ML_DATA_NONE, 0},
    {"n_heads", ML_ROLE_SIZE, ML_DATA_NONE, 0},  {"n_kv_heads", ML_ROLE_SIZE, ML_DATA_NONE, 0}};

static size_t count_dot_f32(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return (s->queries - 1) * s->s_stride + 64;
    case 2:
        return (s->queries - 1) * s->q_stride + s->n;
    case 5:
        return 64 * s->n;
    default:
        return 0;
    }
}
static void bound_dot_f32(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_dot_f32(c->arrays[0], s->s_stride, c->arrays[2], s->q_stride, (int)s->queries, c->arrays[5],
                 (int)s->n);
}
static void scalar_dot_f32(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_dot_f32_scalar(c->arrays[0], s->s_stride, c->arrays[2], s->q_stride, (int)s->queries, c->arrays[5],
                        (int)s->n);
}
static double flops_dot_f32(const ml_op_sizes *s)
{

    return (double)(2 * 64 * s->n * s->queries);
}
static double bytes_dot_f32(const ml_op_sizes *s)
{

    return (double)(4 * 64 * s->n);
}
static const ml_op_sizes cases_dot_f32[] = {{.queries = 1, .n = 2, .s_stride = 64, .q_stride = 2},
                                            {.queries = 3, .n = 16, .s_stride = 69, .q_stride = 21},
                                            {.queries = 6, .n = 64, .s_stride = 128, .q_stride = 128},
                                            {.queries = 13, .n = 80, .s_stride = 64, .q_stride = 80},
                                            {.queries = 4, .n = 128, .s_stride = 65, .q_stride = 129},
                                            {.queries = 2, .n = 34, .s_stride = 67, .q_stride = 37}};
static const ml_op_sizes bench_dot_f32[] = {{.queries = 6, .n = 64, .s_stride = 64, .q_stride = 64}};
static const ml_op_arg args_dot_f32[] = {
    {"s", ML_ROLE_OUT, ML_DATA_F32, 4},         {"s_stride", ML_ROLE_SIZE, ML_DATA_NONE, 0},
    {"q", ML_ROLE_IN, ML_DATA_F32, 4},          {"q_stride", ML_ROLE_SIZE, ML_DATA_NONE, 0},
    {"queries", ML_ROLE_SIZE, ML_DATA_NONE, 0}, {"k", ML_ROLE_IN, ML_DATA_F32, 4},
    {"n", ML_ROLE_SIZE, ML_DATA_NONE, 0}};

static size_t count_axpy_f32(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return (s->queries - 1) * s->y_stride + s->n;
    case 2:
        return (s->queries - 1) * s->p_stride + s->rows;
    case 5:
        return s->rows * s->n;
    default:
        return 0;
    }
}
static void bound_axpy_f32(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_axpy_f32(c->arrays[0], s->y_stride, c->arrays[2], s->p_stride, (int)s->queries, c->arrays[5],
                  (int)s->rows, (int)s->n);
}
static void scalar_axpy_f32(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_axpy_f32_scalar(c->arrays[0], s->y_stride, c->arrays[2], s->p_stride, (int)s->queries, c->arrays[5],
                         (int)s->rows, (int)s->n);
}
static double flops_axpy_f32(const ml_op_sizes *s)
{

    return (double)(2 * s->rows * s->n * s->queries);
}
static double bytes_axpy_f32(const ml_op_sizes *s)
{

    return (double)(4 * s->rows * s->n);
}
static const ml_op_sizes cases_axpy_f32[] = {
    {.queries = 1, .rows = 1, .n = 2, .y_stride = 2, .p_stride = 1},
    {.queries = 3, .rows = 5, .n = 16, .y_stride = 21, .p_stride = 10},
    {.queries = 6, .rows = 64, .n = 64, .y_stride = 128, .p_stride = 128},
    {.queries = 13, .rows = 64, .n = 80, .y_stride = 80, .p_stride = 64},
    {.queries = 4, .rows = 7, .n = 128, .y_stride = 129, .p_stride = 8},
    {.queries = 2, .rows = 9, .n = 34, .y_stride = 37, .p_stride = 12}};
static const ml_op_sizes bench_axpy_f32[] = {
    {.queries = 6, .rows = 64, .n = 64, .y_stride = 64, .p_stride = 64}};
static const ml_op_arg args_axpy_f32[] = {
    {"y", ML_ROLE_INOUT, ML_DATA_F32, 4},       {"y_stride", ML_ROLE_SIZE, ML_DATA_NONE, 0},
    {"p", ML_ROLE_IN, ML_DATA_F32, 4},          {"p_stride", ML_ROLE_SIZE, ML_DATA_NONE, 0},
    {"queries", ML_ROLE_SIZE, ML_DATA_NONE, 0}, {"v", ML_ROLE_IN, ML_DATA_F32, 4},
    {"rows", ML_ROLE_SIZE, ML_DATA_NONE, 0},    {"n", ML_ROLE_SIZE, ML_DATA_NONE, 0}};

static size_t count_dot_f16(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return (s->queries - 1) * s->s_stride + 64;
    case 2:
        return (s->queries - 1) * s->q_stride + s->n;
    case 5:
        return 64 * s->n;
    default:
        return 0;
    }
}
static void bound_dot_f16(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_dot_f16(c->arrays[0], s->s_stride, c->arrays[2], s->q_stride, (int)s->queries, c->arrays[5],
                 (int)s->n);
}
static void scalar_dot_f16(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_dot_f16_scalar(c->arrays[0], s->s_stride, c->arrays[2], s->q_stride, (int)s->queries, c->arrays[5],
                        (int)s->n);
}
static double flops_dot_f16(const ml_op_sizes *s)
{

    return (double)(2 * 64 * s->n * s->queries);
}
static double bytes_dot_f16(const ml_op_sizes *s)
{

    return (double)(2 * 64 * s->n);
}
static const ml_op_sizes cases_dot_f16[] = {{.queries = 1, .n = 2, .s_stride = 64, .q_stride = 2},
                                            {.queries = 3, .n = 16, .s_stride = 69, .q_stride = 21},
                                            {.queries = 6, .n = 64, .s_stride = 128, .q_stride = 128},
                                            {.queries = 13, .n = 80, .s_stride = 64, .q_stride = 80},
                                            {.queries = 4, .n = 128, .s_stride = 65, .q_stride = 129},
                                            {.queries = 2, .n = 34, .s_stride = 67, .q_stride = 37}};
static const ml_op_sizes bench_dot_f16[] = {{.queries = 6, .n = 64, .s_stride = 64, .q_stride = 64}};
static const ml_op_arg args_dot_f16[] = {
    {"s", ML_ROLE_OUT, ML_DATA_F32, 4},         {"s_stride", ML_ROLE_SIZE, ML_DATA_NONE, 0},
    {"q", ML_ROLE_IN, ML_DATA_F32, 4},          {"q_stride", ML_ROLE_SIZE, ML_DATA_NONE, 0},
    {"queries", ML_ROLE_SIZE, ML_DATA_NONE, 0}, {"k", ML_ROLE_IN, ML_DATA_F16, 2},
    {"n", ML_ROLE_SIZE, ML_DATA_NONE, 0}};

static size_t count_axpy_f16(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return (s->queries - 1) * s->y_stride + s->n;
    case 2:
        return (s->queries - 1) * s->p_stride + s->rows;
    case 5:
        return s->rows * s->n;
    default:
        return 0;
    }
}
static void bound_axpy_f16(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_axpy_f16(c->arrays[0], s->y_stride, c->arrays[2], s->p_stride, (int)s->queries, c->arrays[5],
                  (int)s->rows, (int)s->n);
}
static void scalar_axpy_f16(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_axpy_f16_scalar(c->arrays[0], s->y_stride, c->arrays[2], s->p_stride, (int)s->queries, c->arrays[5],
                         (int)s->rows, (int)s->n);
}
static double flops_axpy_f16(const ml_op_sizes *s)
{

    return (double)(2 * s->rows * s->n * s->queries);
}
static double bytes_axpy_f16(const ml_op_sizes *s)
{

    return (double)(2 * s->rows * s->n);
}
static const ml_op_sizes cases_axpy_f16[] = {
    {.queries = 1, .rows = 1, .n = 2, .y_stride = 2, .p_stride = 1},
    {.queries = 3, .rows = 5, .n = 16, .y_stride = 21, .p_stride = 10},
    {.queries = 6, .rows = 64, .n = 64, .y_stride = 128, .p_stride = 128},
    {.queries = 13, .rows = 64, .n = 80, .y_stride = 80, .p_stride = 64},
    {.queries = 4, .rows = 7, .n = 128, .y_stride = 129, .p_stride = 8},
    {.queries = 2, .rows = 9, .n = 34, .y_stride = 37, .p_stride = 12}};
static const ml_op_sizes bench_axpy_f16[] = {
    {.queries = 6, .rows = 64, .n = 64, .y_stride = 64, .p_stride = 64}};
static const ml_op_arg args_axpy_f16[] = {
    {"y", ML_ROLE_INOUT, ML_DATA_F32, 4},       {"y_stride", ML_ROLE_SIZE, ML_DATA_NONE, 0},
    {"p", ML_ROLE_IN, ML_DATA_F32, 4},          {"p_stride", ML_ROLE_SIZE, ML_DATA_NONE, 0},
    {"queries", ML_ROLE_SIZE, ML_DATA_NONE, 0}, {"v", ML_ROLE_IN, ML_DATA_F16, 2},
    {"rows", ML_ROLE_SIZE, ML_DATA_NONE, 0},    {"n", ML_ROLE_SIZE, ML_DATA_NONE, 0}};

static size_t count_dot_q8(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return (s->queries - 1) * s->s_stride + 64;
    case 2:
        return s->queries * (s->n / 32) * ML_TILE_X_BYTES;
    case 3:
        return s->queries;
    case 4:
        return s->queries;
    case 6:
        return 64 * s->n;
    case 7:
        return 64;
    default:
        return 0;
    }
}
static void bound_dot_q8(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_dot_q8(c->arrays[0], s->s_stride, c->arrays[2], c->arrays[3], c->arrays[4], (int)s->queries,
                c->arrays[6], c->arrays[7], (int)s->n);
}
static void scalar_dot_q8(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_dot_q8_scalar(c->arrays[0], s->s_stride, c->arrays[2], c->arrays[3], c->arrays[4], (int)s->queries,
                       c->arrays[6], c->arrays[7], (int)s->n);
}
static double flops_dot_q8(const ml_op_sizes *s)
{

    return (double)(2 * 64 * s->n * s->queries);
}
static double bytes_dot_q8(const ml_op_sizes *s)
{

    return (double)(1 * 64 * s->n);
}
static const ml_op_sizes cases_dot_q8[] = {{.queries = 1, .n = 32, .s_stride = 64},
                                           {.queries = 3, .n = 64, .s_stride = 69},
                                           {.queries = 6, .n = 64, .s_stride = 128},
                                           {.queries = 13, .n = 96, .s_stride = 64},
                                           {.queries = 4, .n = 128, .s_stride = 65}};
static const ml_op_sizes bench_dot_q8[] = {{.queries = 6, .n = 64, .s_stride = 64}};
static const ml_op_arg args_dot_q8[] = {
    {"s", ML_ROLE_OUT, ML_DATA_F32, 4},          {"s_stride", ML_ROLE_SIZE, ML_DATA_NONE, 0},
    {"xt", ML_ROLE_IN, ML_DATA_TILED_QUANTS, 1}, {"dq", ML_ROLE_IN, ML_DATA_SCALES, 4},
    {"xs", ML_ROLE_IN, ML_DATA_CORRECTIONS, 4},  {"queries", ML_ROLE_SIZE, ML_DATA_NONE, 0},
    {"k", ML_ROLE_IN, ML_DATA_PACKED_KEYS, 1},   {"dk", ML_ROLE_IN, ML_DATA_SCALES, 4},
    {"n", ML_ROLE_SIZE, ML_DATA_NONE, 0}};

static size_t count_axpy_q8(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return (s->queries - 1) * s->y_stride + s->n;
    case 2:
        return (s->queries - 1) * s->p_stride + s->rows;
    case 5:
        return s->rows * s->n;
    default:
        return 0;
    }
}
static void bound_axpy_q8(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_axpy_q8(c->arrays[0], s->y_stride, c->arrays[2], s->p_stride, (int)s->queries, c->arrays[5],
                 (int)s->rows, (int)s->n);
}
static void scalar_axpy_q8(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_axpy_q8_scalar(c->arrays[0], s->y_stride, c->arrays[2], s->p_stride, (int)s->queries, c->arrays[5],
                        (int)s->rows, (int)s->n);
}
static double flops_axpy_q8(const ml_op_sizes *s)
{

    return (double)(2 * s->rows * s->n * s->queries);
}
static double bytes_axpy_q8(const ml_op_sizes *s)
{

    return (double)(1 * s->rows * s->n);
}
static const ml_op_sizes cases_axpy_q8[] = {
    {.queries = 1, .rows = 1, .n = 2, .y_stride = 2, .p_stride = 1},
    {.queries = 3, .rows = 5, .n = 16, .y_stride = 21, .p_stride = 10},
    {.queries = 6, .rows = 64, .n = 64, .y_stride = 128, .p_stride = 128},
    {.queries = 13, .rows = 64, .n = 80, .y_stride = 80, .p_stride = 64},
    {.queries = 4, .rows = 7, .n = 128, .y_stride = 129, .p_stride = 8},
    {.queries = 2, .rows = 9, .n = 34, .y_stride = 37, .p_stride = 12}};
static const ml_op_sizes bench_axpy_q8[] = {
    {.queries = 6, .rows = 64, .n = 64, .y_stride = 64, .p_stride = 64}};
static const ml_op_arg args_axpy_q8[] = {
    {"y", ML_ROLE_INOUT, ML_DATA_F32, 4},       {"y_stride", ML_ROLE_SIZE, ML_DATA_NONE, 0},
    {"p", ML_ROLE_IN, ML_DATA_F32, 4},          {"p_stride", ML_ROLE_SIZE, ML_DATA_NONE, 0},
    {"queries", ML_ROLE_SIZE, ML_DATA_NONE, 0}, {"v", ML_ROLE_IN, ML_DATA_QUANTS, 1},
    {"rows", ML_ROLE_SIZE, ML_DATA_NONE, 0},    {"n", ML_ROLE_SIZE, ML_DATA_NONE, 0}};

static size_t count_widen_f16(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return s->n;
    case 1:
        return s->n;
    default:
        return 0;
    }
}
static void bound_widen_f16(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_widen_f16(c->arrays[0], c->arrays[1], (int)s->n);
}
static void scalar_widen_f16(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_widen_f16_scalar(c->arrays[0], c->arrays[1], (int)s->n);
}
static double flops_widen_f16(const ml_op_sizes *s)
{

    return (double)(s->n);
}
static double bytes_widen_f16(const ml_op_sizes *s)
{

    return (double)(6 * s->n);
}
static const ml_op_sizes cases_widen_f16[] = {{.n = 1},  {.n = 4},  {.n = 15},  {.n = 16},  {.n = 31},
                                              {.n = 32}, {.n = 33}, {.n = 100}, {.n = 1025}};
static const ml_op_sizes bench_widen_f16[] = {{.n = 4096}};
static const ml_op_arg args_widen_f16[] = {{"o", ML_ROLE_OUT, ML_DATA_F32, 4},
                                           {"x", ML_ROLE_IN, ML_DATA_F16, 2},
                                           {"n", ML_ROLE_SIZE, ML_DATA_NONE, 0}};

static size_t count_widen_q8(const ml_op_sizes *s, int arg)
{
    switch (arg) {
    case 0:
        return s->n;
    case 1:
        return s->n;
    default:
        return 0;
    }
}
static void bound_widen_q8(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_widen_q8(c->arrays[0], c->arrays[1], (int)s->n);
}
static void scalar_widen_q8(const ml_op_call *c, const ml_op_sizes *s)
{
    ml_k_widen_q8_scalar(c->arrays[0], c->arrays[1], (int)s->n);
}
static double flops_widen_q8(const ml_op_sizes *s)
{

    return (double)(s->n);
}
static double bytes_widen_q8(const ml_op_sizes *s)
{

    return (double)(5 * s->n);
}
static const ml_op_sizes cases_widen_q8[] = {{.n = 1},  {.n = 4},  {.n = 15},  {.n = 16},  {.n = 31},
                                             {.n = 32}, {.n = 33}, {.n = 100}, {.n = 1025}};
static const ml_op_sizes bench_widen_q8[] = {{.n = 4096}};
static const ml_op_arg args_widen_q8[] = {{"o", ML_ROLE_OUT, ML_DATA_F32, 4},
                                          {"x", ML_ROLE_IN, ML_DATA_QUANTS, 1},
                                          {"n", ML_ROLE_SIZE, ML_DATA_NONE, 0}};

const ml_op ml_ops[] = {
    {"matvec_q8", TEXT(ml_k_matvec_q8), NULL, args_matvec_q8, 9, count_matvec_q8, bound_matvec_q8,
     scalar_matvec_q8, flops_matvec_q8, bytes_matvec_q8, cases_matvec_q8, 4, bench_matvec_q8, 1},
    {"matvec_q4", TEXT(ml_k_matvec_q4), NULL, args_matvec_q4, 9, count_matvec_q4, bound_matvec_q4,
     scalar_matvec_q4, flops_matvec_q4, bytes_matvec_q4, cases_matvec_q4, 4, bench_matvec_q4, 1},
#if defined(ml_k_matvec_q8_pk)
    {"matvec_q8_pk", TEXT(ml_k_matvec_q8_pk), "matvec_q8", args_matvec_q8_pk, 9, count_matvec_q8_pk,
     bound_matvec_q8_pk, NULL, flops_matvec_q8_pk, bytes_matvec_q8_pk, cases_matvec_q8_pk, 4,
     bench_matvec_q8_pk, 1},
#endif
#if defined(ml_k_matvec_q8_pk_f16)
    {"matvec_q8_pk_f16", TEXT(ml_k_matvec_q8_pk_f16), "matvec_q8", args_matvec_q8_pk_f16, 9,
     count_matvec_q8_pk_f16, bound_matvec_q8_pk_f16, NULL, flops_matvec_q8_pk_f16, bytes_matvec_q8_pk_f16,
     cases_matvec_q8_pk_f16, 4, bench_matvec_q8_pk_f16, 1},
#endif
#if defined(ml_k_matvec_q4_pk)
    {"matvec_q4_pk", TEXT(ml_k_matvec_q4_pk), "matvec_q4", args_matvec_q4_pk, 9, count_matvec_q4_pk,
     bound_matvec_q4_pk, NULL, flops_matvec_q4_pk, bytes_matvec_q4_pk, cases_matvec_q4_pk, 4,
     bench_matvec_q4_pk, 1},
#endif
#if defined(ml_k_matvec_q4_pk_f16)
    {"matvec_q4_pk_f16", TEXT(ml_k_matvec_q4_pk_f16), "matvec_q4", args_matvec_q4_pk_f16, 9,
     count_matvec_q4_pk_f16, bound_matvec_q4_pk_f16, NULL, flops_matvec_q4_pk_f16, bytes_matvec_q4_pk_f16,
     cases_matvec_q4_pk_f16, 4, bench_matvec_q4_pk_f16, 1},
#endif
#if defined(ml_k_matmul_q8_pk)
    {"matmul_q8_pk", TEXT(ml_k_matmul_q8_pk), "matvec_q8", args_matmul_q8_pk, 11, count_matmul_q8_pk,
     bound_matmul_q8_pk, NULL, flops_matmul_q8_pk, bytes_matmul_q8_pk, cases_matmul_q8_pk, 6,
     bench_matmul_q8_pk, 1},
#endif
#if defined(ml_k_matmul_q8_pk_f16)
    {"matmul_q8_pk_f16", TEXT(ml_k_matmul_q8_pk_f16), "matvec_q8", args_matmul_q8_pk_f16, 11,
     count_matmul_q8_pk_f16, bound_matmul_q8_pk_f16, NULL, flops_matmul_q8_pk_f16, bytes_matmul_q8_pk_f16,
     cases_matmul_q8_pk_f16, 6, bench_matmul_q8_pk_f16, 1},
#endif
#if defined(ml_k_matmul_q4_pk)
    {"matmul_q4_pk", TEXT(ml_k_matmul_q4_pk), "matvec_q4", args_matmul_q4_pk, 11, count_matmul_q4_pk,
     bound_matmul_q4_pk, NULL, flops_matmul_q4_pk, bytes_matmul_q4_pk, cases_matmul_q4_pk, 6,
     bench_matmul_q4_pk, 1},
#endif
#if defined(ml_k_matmul_q4_pk_f16)
    {"matmul_q4_pk_f16", TEXT(ml_k_matmul_q4_pk_f16), "matvec_q4", args_matmul_q4_pk_f16, 11,
     count_matmul_q4_pk_f16, bound_matmul_q4_pk_f16, NULL, flops_matmul_q4_pk_f16, bytes_matmul_q4_pk_f16,
     cases_matmul_q4_pk_f16, 6, bench_matmul_q4_pk_f16, 1},
#endif
#if defined(ml_k_tile_q8)
    {"tile_q8", TEXT(ml_k_tile_q8), NULL, args_tile_q8, 8, count_tile_q8, bound_tile_q8, NULL, flops_tile_q8,
     bytes_tile_q8, cases_tile_q8, 3, bench_tile_q8, 1},
#endif
    {"quantize_q8", TEXT(ml_k_quantize_q8), NULL, args_quantize_q8, 5, count_quantize_q8, bound_quantize_q8,
     scalar_quantize_q8, flops_quantize_q8, bytes_quantize_q8, cases_quantize_q8, 3, bench_quantize_q8, 1},
    {"rmsnorm", TEXT(ml_k_rmsnorm), NULL, args_rmsnorm, 5, count_rmsnorm, bound_rmsnorm, scalar_rmsnorm,
     flops_rmsnorm, bytes_rmsnorm, cases_rmsnorm, 9, bench_rmsnorm, 1},
    {"softmax", TEXT(ml_k_softmax), NULL, args_softmax, 2, count_softmax, bound_softmax, scalar_softmax,
     flops_softmax, bytes_softmax, cases_softmax, 9, bench_softmax, 1},
    {"silu_mul", TEXT(ml_k_silu_mul), NULL, args_silu_mul, 3, count_silu_mul, bound_silu_mul, scalar_silu_mul,
     flops_silu_mul, bytes_silu_mul, cases_silu_mul, 9, bench_silu_mul, 1},
    {"gelu_mul", TEXT(ml_k_gelu_mul), NULL, args_gelu_mul, 3, count_gelu_mul, bound_gelu_mul, scalar_gelu_mul,
     flops_gelu_mul, bytes_gelu_mul, cases_gelu_mul, 9, bench_gelu_mul, 1},
    {"add", TEXT(ml_k_add), NULL, args_add, 3, count_add, bound_add, scalar_add, flops_add, bytes_add,
     cases_add, 9, bench_add, 1},
    {"rope", TEXT(ml_k_rope), NULL, args_rope, 8, count_rope, bound_rope, scalar_rope, flops_rope, bytes_rope,
     cases_rope, 5, bench_rope, 1},
    {"dot_f32", TEXT(ml_k_dot_f32), NULL, args_dot_f32, 7, count_dot_f32, bound_dot_f32, scalar_dot_f32,
     flops_dot_f32, bytes_dot_f32, cases_dot_f32, 6, bench_dot_f32, 1},
    {"axpy_f32", TEXT(ml_k_axpy_f32), NULL, args_axpy_f32, 8, count_axpy_f32, bound_axpy_f32, scalar_axpy_f32,
     flops_axpy_f32, bytes_axpy_f32, cases_axpy_f32, 6, bench_axpy_f32, 1},
    {"dot_f16", TEXT(ml_k_dot_f16), NULL, args_dot_f16, 7, count_dot_f16, bound_dot_f16, scalar_dot_f16,
     flops_dot_f16, bytes_dot_f16, cases_dot_f16, 6, bench_dot_f16, 1},
    {"axpy_f16", TEXT(ml_k_axpy_f16), NULL, args_axpy_f16, 8, count_axpy_f16, bound_axpy_f16, scalar_axpy_f16,
     flops_axpy_f16, bytes_axpy_f16, cases_axpy_f16, 6, bench_axpy_f16, 1},
    {"dot_q8", TEXT(ml_k_dot_q8), NULL, args_dot_q8, 9, count_dot_q8, bound_dot_q8, scalar_dot_q8,
     flops_dot_q8, bytes_dot_q8, cases_dot_q8, 5, bench_dot_q8, 1},
    {"axpy_q8", TEXT(ml_k_axpy_q8), NULL, args_axpy_q8, 8, count_axpy_q8, bound_axpy_q8, scalar_axpy_q8,
     flops_axpy_q8, bytes_axpy_q8, cases_axpy_q8, 6, bench_axpy_q8, 1},
    {"widen_f16", TEXT(ml_k_widen_f16), NULL, args_widen_f16, 3, count_widen_f16, bound_widen_f16,
     scalar_widen_f16, flops_widen_f16, bytes_widen_f16, cases_widen_f16, 9, bench_widen_f16, 1},
    {"widen_q8", TEXT(ml_k_widen_q8), NULL, args_widen_q8, 3, count_widen_q8, bound_widen_q8, scalar_widen_q8,
     flops_widen_q8, bytes_widen_q8, cases_widen_q8, 9, bench_widen_q8, 1},
};

const int ml_op_count = (int)(sizeof ml_ops / sizeof *ml_ops);
