/* options.h: the command line of ml_run and ml_bench: the flags of `krafla run`, as far as they make sense
 * here. */
#ifndef ML_APP_OPTIONS_H
#define ML_APP_OPTIONS_H

#include "krafla.h"

/* Who reads the command line; each refuses flags that are only the other's. */
typedef enum ml_program { ML_PROGRAM_RUN = 1, ML_PROGRAM_BENCH = 2 } ml_program;

typedef struct ml_arguments {
    const char *prompt;      /* ml_run */
    const char *model;       /* or NULL */
    const char *tokenizer;   /* NULL: beside the model */
    const char *chat;        /* NULL: beside the model */
    const char *system;      /* system message, or NULL */
    const char *imatrix;     /* where the importance matrix goes, or NULL */
    const char *logits_hash; /* token ids, or NULL */
    int32_t max_tokens;
    int32_t prompt_tokens; /* ml_bench */
    ml_sampler sampler;
    uint64_t seed;
    bool raw, quiet, json, pack_cache, help;
    ml_options options;
} ml_arguments;

/* Fills *arguments; on a mistake prints a sentence and returns false. */
bool ml_arguments_parse(ml_arguments *arguments, ml_program program, int argc, char **argv);
/* Prints "NAME: sentence" and returns the exit code that goes with it. */
int ml_complain(const char *program, const ml_error *error);

#endif
