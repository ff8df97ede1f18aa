/* options.h: the command line of ml_run and ml_bench: the flags of `krafla run`, as far as they make sense
 * here. */
#ifndef ML_APP_OPTIONS_H
#define ML_APP_OPTIONS_H

#include "krafla.h"

typedef struct ml_arguments {
    const char *prompt;
    const char *model;       /* or NULL */
    const char *tokenizer;   /* NULL: beside the model */
    const char *chat;        /* NULL: beside the model */
    const char *logits_hash; /* token ids, or NULL */
    int32_t max_tokens;
    int32_t prompt_tokens; /* ml_bench */
    ml_sampler sampler;
    uint64_t seed;
    bool raw, quiet, pack_cache, help;
    ml_options options;
} ml_arguments;

/* Fills *arguments; on a mistake prints a sentence and returns false. */
bool ml_arguments_parse(ml_arguments *arguments, int argc, char **argv);
/* Prints "NAME: sentence" and returns the exit code that goes with it. */
int ml_complain(const char *program, const ml_error *error);

#endif
