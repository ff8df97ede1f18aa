/* options.c: a table of flags. */
#include "options.h"

#include "main_guard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef enum kind { TEXT, INTEGER, UNSIGNED, REAL, SWITCH, ONE, ZERO, KV, ISA } kind;

typedef struct flag {
    const char *brief, *full;
    int programs;
    kind kind;
    size_t offset;
    double low, high; /* of numbers */
} flag;

enum { RUN = ML_PROGRAM_RUN, BENCH = ML_PROGRAM_BENCH, BOTH = RUN | BENCH };
#define AT(field) offsetof(ml_arguments, field)
static const flag flags[] = {
    {"-m", "--model", BOTH, TEXT, AT(model), 0, 0},
    {NULL, "--tokenizer", RUN, TEXT, AT(tokenizer), 0, 0},
    {NULL, "--chat", RUN, TEXT, AT(chat), 0, 0},
    {NULL, "--system", RUN, TEXT, AT(system), 0, 0},
    {NULL, "--imatrix", RUN, TEXT, AT(imatrix), 0, 0},
    {NULL, "--logits-hash", RUN, TEXT, AT(logits_hash), 0, 0},
    {"-n", "--tokens", BOTH, INTEGER, AT(max_tokens), 0, INT32_MAX},
    {"-p", "--prompt-tokens", BENCH, INTEGER, AT(prompt_tokens), 1, INT32_MAX},
    {NULL, "--temp", RUN, REAL, AT(sampler.temperature), 0, 1e9},
    {NULL, "--top-p", RUN, REAL, AT(sampler.top_p), 1e-9, 1},
    {NULL, "--top-k", RUN, INTEGER, AT(sampler.top_k), 0, INT32_MAX},
    {NULL, "--min-p", RUN, REAL, AT(sampler.min_p), 0, 1},
    {NULL, "--seed", RUN, UNSIGNED, AT(seed), 0, 0},
    {"-t", "--threads", BOTH, INTEGER, AT(options.threads), 1, 1024},
    {"-c", "--ctx", BOTH, INTEGER, AT(options.context), 1, INT32_MAX},
    {"-b", "--batch", BOTH, INTEGER, AT(options.batch), 1, 4096},
    {NULL, "--kv", BOTH, KV, AT(options.kv_type), 0, 0},
    {NULL, "--isa", BOTH, ISA, 0, 0, 0},
    {NULL, "--no-pack", BOTH, ZERO, AT(options.pack), 0, 0},
    {NULL, "--pack-cache", RUN, SWITCH, AT(pack_cache), 0, 0},
    {NULL, "--raw", RUN, SWITCH, AT(raw), 0, 0},
    {NULL, "--profile", RUN, ONE, AT(options.profile), 0, 0},
    {NULL, "--json", RUN, SWITCH, AT(json), 0, 0},
    {"-q", "--quiet", RUN, SWITCH, AT(quiet), 0, 0},
    {"-h", "--help", BOTH, SWITCH, AT(help), 0, 0},
};

/* The flag that a word names, as "--temp", "--temp=1" or "-t". */
static const flag *find(ml_program program, const char *word)
{
    size_t length = strcspn(word, "=");
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const flag *f = &flags[i];
        bool brief = f->brief && strcmp(word, f->brief) == 0;
        bool full = strlen(f->full) == length && strncmp(word, f->full, length) == 0;
        if ((brief || full) && (f->programs & (int)program))
            return f;
    }
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

static bool set(ml_arguments *a, const flag *f, const char *program, const char *value)
{
    if (f->kind == ISA && strcmp(value, ml_isa_name()) != 0) {
        fprintf(stderr, "%s: --isa is %s, this is the %s build: each ISA has an executable of its own\n",
                program, value, ml_isa_name());
        return false;
    }
    if (f->kind == ISA || store((char *)a + f->offset, f, value))
        return true;
    fprintf(stderr, "%s: %s is %s, which it cannot be (see --help)\n", program, f->full, value);
    return false;
}

/* The flag at argv[*at], whose value follows "=" or is the next word; moves *at to the last word read. */
static bool take(ml_arguments *a, const flag *f, char **argv, int *at)
{
    const char *inside = strchr(argv[*at], '=');
    bool plain = f->kind == SWITCH || f->kind == ONE || f->kind == ZERO;
    if (plain && inside)
        return refuse(argv[0], "a value is given after ", f->full);
    if (f->kind == SWITCH)
        *(bool *)((char *)a + f->offset) = true;
    else if (plain)
        *(int32_t *)(void *)((char *)a + f->offset) = f->kind == ONE;
    if (plain)
        return true;
    const char *value = inside ? inside + 1 : argv[++*at];
    return value ? set(a, f, argv[0], value) : refuse(argv[0], "a value is missing after ", f->full);
}

bool ml_arguments_parse(ml_arguments *a, ml_program program, int argc, char **argv)
{
    *a = (ml_arguments){
        .max_tokens = -1, .prompt_tokens = 128, .sampler = {.top_p = 1}, .options = {.pack = 1}};
    a->seed = (uint64_t)time(NULL);
    bool only_prompt = false;
    for (int i = 1; i < argc; i++) {
        const flag *f = only_prompt ? NULL : find(program, argv[i]);
        if (!only_prompt && strcmp(argv[i], "--") == 0)
            only_prompt = true;
        else if (f && !take(a, f, argv, &i))
            return false;
        else if (!f && !only_prompt && argv[i][0] == '-' && argv[i][1])
            return refuse(argv[0], "no such option: ", argv[i]);
        else if (!f && program != ML_PROGRAM_RUN)
            return refuse(argv[0], "it takes no prompt: ", argv[i]);
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
