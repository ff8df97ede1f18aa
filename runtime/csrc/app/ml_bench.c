/* ml_bench.c: which kernel serves each op, how fast each is beside plain C, and the speed of a model. */
#include "main_guard.h"
#include "op_table.h"
#include "options.h"

#include "ml_config.h"
#include "model/profile.h"

#include <stdio.h>
#include <stdlib.h>

static const char HELP[] = "usage: ml_bench [-m MODEL.mlb] [options]\n"
                           "Measures kernels on one thread; with a model also prompt and generation.\n\n"
                           "  -p, --prompt-tokens N tokens of the prompt (128)\n"
                           "  -n, --tokens N        tokens generated (32)\n"
                           "  -t, -c, -b, --kv, --isa, --no-pack as in ml_run\n";

/* Numbers that every kind of data can be: small floats, halves near one, bytes of any value but -128. */
static void fill(unsigned char *bytes, size_t count, ml_op_data data, size_t element)
{
    uint32_t state = 12345;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        float real = (float)(int32_t)state * 0x1p-31f;
        uint16_t half = (uint16_t)(0x3800u | (state >> 22));
        int32_t integer = (int32_t)(state >> 24) - 127;
        if (data == ML_DATA_SUMS || data == ML_DATA_TILED_CORRECTIONS || data == ML_DATA_CORRECTIONS)
            memcpy(bytes + i * element, &integer, element);
        else if (element == 4)
            memcpy(bytes + i * element, &real, element);
        else if (element == 2)
            memcpy(bytes + i * element, &half, element);
        else
            bytes[i] = (unsigned char)(integer == 128 ? 127 : integer);
    }
}

static bool prepare(ml_op_call *c, const ml_op *op, const ml_op_sizes *s)
{
    *c = (ml_op_call){0};
    for (int i = 0; i < op->n_args; i++) {
        const ml_op_arg *arg = &op->args[i];
        c->values[i] = 0.001f;
        if (!arg->element)
            continue;
        size_t count = op->count(s, i), bytes = (count * arg->element + ML_ALIGN) / ML_ALIGN * ML_ALIGN;
        unsigned char *raw = malloc(bytes + ML_ALIGN);
        if (!raw)
            return false;
        unsigned char *aligned = raw + (ML_ALIGN - (uintptr_t)raw % ML_ALIGN);
        aligned[-1] = (unsigned char)(aligned - raw); /* the way back */
        fill(aligned, count, arg->data, arg->element);
        c->arrays[i] = aligned;
    }
    return true;
}

static void release(ml_op_call *c)
{
    for (int i = 0; i < ML_OP_MAX_ARGS; i++) {
        unsigned char *aligned = c->arrays[i];
        if (aligned)
            free(aligned - aligned[-1]);
    }
}

/* Seconds per call: the best of three runs of a tenth of a second. */
static double seconds_per_call(void (*kernel)(const ml_op_call *, const ml_op_sizes *), const ml_op_call *c,
                               const ml_op_sizes *s)
{
    double best = 1e9;
    for (int attempt = 0; attempt < 3; attempt++) {
        double started = ml_clock(), elapsed;
        int calls = 0;
        do {
            kernel(c, s);
            calls++;
        } while ((elapsed = ml_clock() - started) < 0.1);
        best = elapsed / calls < best ? elapsed / calls : best;
    }
    return best;
}

static bool bench_op(const ml_op *op)
{
    for (int i = 0; i < op->n_bench; i++) {
        const ml_op_sizes *s = &op->bench[i];
        const ml_op *twin = op->twin ? ml_op_find(op->twin) : op;
        ml_op_call c, plain;
        if (!prepare(&c, op, s) || !prepare(&plain, twin, s))
            return false;
        double seconds = seconds_per_call(op->bound, &c, s);
        printf("%-18s %10.1f us %8.2f GB/s %8.2f GOPS", op->name, seconds * 1e6,
               op->bytes(s) / seconds * 1e-9, op->flops(s) / seconds * 1e-9);
        if (twin->scalar) {
            double tokens = op->twin && s->tokens ? (double)s->tokens : 1.0;
            printf(" %7.1f x scalar", seconds_per_call(twin->scalar, &plain, s) * tokens / seconds);
        }
        putchar('\n');
        fflush(stdout);
        release(&c);
        release(&plain);
    }
    return true;
}

/* Any tokens do: the time does not depend on which. */
static ml_status feed(ml_engine *engine, int32_t sequence, int32_t count, float *logits, ml_error *error)
{
    ml_row *rows = calloc((size_t)count, sizeof *rows);
    int32_t start = ml_sequence_length(engine, sequence);
    if (!rows)
        return ml_fail(error, ML_E_NOMEM, "no memory for %d tokens", count);
    for (int32_t i = 0; i < count; i++)
        rows[i] = (ml_row){sequence, start + i, (start + i) % 3, i + 1 == count};
    ml_status status = ml_forward(engine, rows, count, logits, error);
    free(rows);
    return status;
}

static ml_status bench_model(const ml_arguments *a, ml_error *error)
{
    ml_engine *engine = NULL;
    ml_info info;
    int32_t sequence, made = a->max_tokens < 0 ? 32 : a->max_tokens;
    ml_status status = ml_engine_open(&engine, a->model, &a->options, error);
    if (status != ML_OK)
        return status;
    ml_engine_info(engine, &info);
    float *logits = calloc(info.vocab, sizeof *logits);
    if (!logits)
        status = ml_fail(error, ML_E_NOMEM, "no memory for the logits of %u tokens", info.vocab);
    if (status == ML_OK && a->prompt_tokens + made > (int32_t)info.context)
        status = ml_fail(error, ML_E_ARGUMENT, "%d and %d tokens do not fit into a context of %u",
                         a->prompt_tokens, made, info.context);
    if (status == ML_OK)
        status = ml_sequence_open(engine, &sequence, error);
    double started = ml_clock();
    if (status == ML_OK)
        status = feed(engine, sequence, a->prompt_tokens, logits, error);
    double prompt = ml_clock() - started;
    for (int32_t i = 0; i < made && status == ML_OK; i++)
        status = feed(engine, sequence, 1, logits, error);
    double decode = ml_clock() - started - prompt;
    if (status == ML_OK)
        printf("%s: %u threads; prompt %d tokens at %.1f/s; %d tokens at %.1f/s\n", a->model, info.threads,
               a->prompt_tokens, a->prompt_tokens / prompt, made, made / decode);
    free(logits);
    ml_engine_close(engine);
    return status;
}

int ml_main(int argc, char **argv)
{
    ml_arguments a;
    ml_error error;
    if (!ml_arguments_parse(&a, ML_PROGRAM_BENCH, argc, argv))
        return ML_EXIT_USAGE;
    if (a.help) {
        fputs(HELP, stdout);
        return ML_EXIT_OK;
    }
    ml_op_print_bindings();
    if (a.model)
        return bench_model(&a, &error) == ML_OK ? ML_EXIT_OK : ml_complain("ml_bench", &error);
    for (int i = 0; i < ml_op_count; i++)
        if (!bench_op(&ml_ops[i])) {
            fprintf(stderr, "ml_bench: no memory for %s\n", ml_ops[i].name);
            return ML_EXIT_NOMEM;
        }
    return ML_EXIT_OK;
}
