/* options.c: a table of flags. */
#include "options.h"

#include "main_guard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef enum kind { TEXT, INTEGER, UNSIGNED, REAL, SWITCH, UNSET, KV } kind;

typedef struct flag {
    const char *brief, *full;
    kind kind;
    size_t offset;
    double low, high; /* of numbers */
} flag;

#define AT(field) offsetof(ml_arguments, field)
static const flag flags[] = {
    {"-m", "--model", TEXT, AT(model), 0, 0},
    {NULL, "--tokenizer", TEXT, AT(tokenizer), 0, 0},
    {NULL, "--chat", TEXT, AT(chat), 0, 0},
    {NULL, "--logits-hash", TEXT, AT(logits_hash), 0, 0},
    {"-n", "--tokens", INTEGER, AT(max_tokens), 0, INT32_MAX},
    {"-p", "--prompt-tokens", INTEGER, AT(prompt_tokens), 1, INT32_MAX},
    {NULL, "--temp", REAL, AT(sampler.temperature), 0, 1e9},
    {NULL, "--top-p", REAL, AT(sampler.top_p), 1e-9, 1},
    {NULL, "--top-k", INTEGER, AT(sampler.top_k), 0, INT32_MAX},
    {NULL, "--min-p", REAL, AT(sampler.min_p), 0, 1},
    {NULL, "--seed", UNSIGNED, AT(seed), 0, 0},
    {"-t", "--threads", INTEGER, AT(options.threads), 1, 1024},
    {"-c", "--ctx", INTEGER, AT(options.context), 1, INT32_MAX},
    {"-b", "--batch", INTEGER, AT(options.batch), 1, 4096},
    {NULL, "--kv", KV, AT(options.kv_type), 0, 0},
    {NULL, "--no-pack", UNSET, AT(options.pack), 0, 0},
    {NULL, "--pack-cache", SWITCH, AT(pack_cache), 0, 0},
    {NULL, "--raw", SWITCH, AT(raw), 0, 0},
    {NULL, "--profile", INTEGER, AT(options.profile), 0, 0},
    {"-q", "--quiet", SWITCH, AT(quiet), 0, 0},
    {"-h", "--help", SWITCH, AT(help), 0, 0},
};

static const flag *find(const char *word)
{
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if ((flags[i].brief && strcmp(word, flags[i].brief) == 0) || strcmp(word, flags[i].full) == 0)
            return &flags[i];
    return NULL;
}

static bool store(void *target, const flag *f, const char *text)
{
    static const char *const kv_names[] = {"f32", "f16", "q8"};
    char *end;
    errno = 0;
    if (f->kind == TEXT) {
        *(const char **)target = text;
        return true;
    }
    if (f->kind == UNSIGNED) {
        *(uint64_t *)target = strtoull(text, &end, 10);
        return *text >= '0' && *text <= '9' && !*end && !errno;
    }
    if (f->kind == KV) {
        for (int32_t i = 0; i < 3; i++)
            if (strcmp(text, kv_names[i]) == 0)
                return *(int32_t *)target = i, true;
        return false;
    }
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= f->low && value <= f->high))
        return false;
    if (f->kind == REAL)
        *(float *)target = (float)value;
    else
        *(int32_t *)target = (int32_t)value;
    return f->kind == REAL || (double)(int32_t)value == value;
}

static bool refuse(const char *program, const char *what, const char *value)
{
    fprintf(stderr, "%s: %s%s (see --help)\n", program, what, value);
    return false;
}

/* One flag; *next is its value, if it takes one. */
static bool take(ml_arguments *a, const flag *f, char **argv, int *at)
{
    void *target = (char *)a + f->offset;
    if (f->kind == SWITCH) {
        *(bool *)target = true;
    } else if (f->kind == UNSET || (f->kind == INTEGER && f->low == f->high)) {
        *(int32_t *)target = f->kind != UNSET;
    } else {
        const char *value = argv[*at + 1];
        if (!value)
            return refuse(argv[0], "a value is missing after ", f->full);
        if (!store(target, f, value)) {
            fprintf(stderr, "%s: %s is %s, which it cannot be (see --help)\n", argv[0], f->full, value);
            return false;
        }
        ++*at;
    }
    return true;
}

bool ml_arguments_parse(ml_arguments *a, int argc, char **argv)
{
    *a = (ml_arguments){
        .max_tokens = -1, .prompt_tokens = 128, .sampler = {.top_p = 1}, .options = {.pack = 1}};
    a->seed = (uint64_t)time(NULL);
    bool only_prompt = false;
    for (int i = 1; i < argc; i++) {
        const flag *f = only_prompt ? NULL : find(argv[i]);
        if (!only_prompt && strcmp(argv[i], "--") == 0)
            only_prompt = true;
        else if (f && !take(a, f, argv, &i))
            return false;
        else if (!f && !only_prompt && argv[i][0] == '-' && argv[i][1])
            return refuse(argv[0], "no such option: ", argv[i]);
        else if (!f && a->prompt)
            return refuse(argv[0], "there is more than one prompt: ", argv[i]);
        else if (!f)
            a->prompt = argv[i];
    }
    return true;
}

int ml_complain(const char *program, const ml_error *error)
{
    static const int codes[] = {
        [ML_OK] = ML_EXIT_OK,
        [ML_E_IO] = ML_EXIT_IO,
        [ML_E_FORMAT] = ML_EXIT_FORMAT,
        [ML_E_SHAPE] = ML_EXIT_SHAPE,
        [ML_E_NOMEM] = ML_EXIT_NOMEM,
        [ML_E_ISA] = ML_EXIT_ISA,
        [ML_E_UNSUPPORTED] = ML_EXIT_FORMAT,
        [ML_E_ARGUMENT] = ML_EXIT_USAGE,
    };
    fprintf(stderr, "%s: %s\n", program, error->message);
    return codes[error->status];
}
