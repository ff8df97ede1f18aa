/*
 * ml_run.c: `krafla run` without Python: completes a prompt, or answers it where a chat text is there. The
 * model is a file, or inside this very executable (core/bundle.h).
 */
#include "main_guard.h"
#include "options.h"
#include "text_stream.h"

#include "core/bundle.h"
#include "core/file.h"
#include "ml_config.h"
#include "model/profile.h"

#include <stdio.h>
#include <stdlib.h>

#if !defined(__wasi__)
#include <signal.h>
#endif
#if defined(_WIN32)
#include <windows.h>
#elif defined(__APPLE__)
#include <mach-o/dyld.h>
#elif defined(__linux__)
#include <unistd.h>
#endif

enum { MAX_PATH_BYTES = 4096, MAX_EOS = 16 };
static const char HELP[] =
    "usage: ml_run [PROMPT] -m MODEL.mlb [options]\n"
    "Completes PROMPT (without it: standard input), or answers it if a chat text is there.\n\n"
    "  -m, --model FILE      the model; its tokenizer MODEL.mlt and chat text MODEL.chat lie beside it\n"
    "      --tokenizer FILE  .mlt, or llama2.c's tokenizer.bin\n"
    "      --chat FILE       text around a user's message, which takes the place of {prompt}\n"
    "      --raw             continue the prompt as plain text\n"
    "  -n, --tokens N        tokens at most (512)\n"
    "      --temp X, --top-p X, --top-k N, --min-p X, --seed N   sampling; the likeliest token without them\n"
    "  -t, --threads N       threads (the physical cores)\n"
    "  -c, --ctx N           positions (the model's, at most 4096)\n"
    "  -b, --batch N         prompt tokens per step (128)\n"
    "      --kv TYPE         f32, f16 or q8\n"
    "      --no-pack         keep the weights row by row\n"
    "      --pack-cache      keep the packed weights in a file beside the model\n"
    "      --profile         tell where the time went\n"
    "      --logits-hash IDS run these token ids (1,2,3) and print a hash of all logits\n"
    "  -q, --quiet           nothing on standard error unless it fails\n\n"
    "Exit codes: 0 done, 1 internal error, 2 wrong usage, 3 the CPU lacks the build's ISA, 4 cannot read or "
    "write,\n"
    "5 bad format, 6 bad shape, 7 out of memory, 130 interrupted.\n";

typedef struct session {
    ml_arguments a;
    char self[MAX_PATH_BYTES]; /* this executable */
    char model[MAX_PATH_BYTES], tokenizer[MAX_PATH_BYTES], chat[MAX_PATH_BYTES], cache[MAX_PATH_BYTES];
    ml_engine *engine;
    ml_tokenizer *vocabulary;
    ml_info info;
    int32_t sequence;
    int32_t *ids; /* the prompt, then what is generated */
    int32_t n_ids, n_prompt;
    float *logits;
    uint32_t *scratch;
    double prompt_seconds, decode_seconds;
} session;

#if defined(__wasi__)
static const int interrupted = 0;
static void watch_interrupts(void)
{
}
#else
static volatile sig_atomic_t interrupted;
static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}
static void watch_interrupts(void)
{
    signal(SIGINT, interrupt);
}
#endif

static void find_self(char *path, const char *argv0)
{
#if defined(_WIN32)
    wchar_t wide[MAX_PATH_BYTES / 2];
    DWORD length = GetModuleFileNameW(NULL, wide, MAX_PATH_BYTES / 2);
    if (length > 0 && length < MAX_PATH_BYTES / 2 &&
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, MAX_PATH_BYTES, NULL, NULL) > 0)
        return;
#elif defined(__APPLE__)
    uint32_t capacity = MAX_PATH_BYTES;
    if (_NSGetExecutablePath(path, &capacity) == 0)
        return;
#elif defined(__linux__)
    ssize_t length = readlink("/proc/self/exe", path, MAX_PATH_BYTES - 1);
    if (length > 0) {
        path[length] = 0;
        return;
    }
#endif
    snprintf(path, MAX_PATH_BYTES, "%s", argv0);
}

/* The model's path with another ending. */
static void beside(char *path, const char *model, const char *ending)
{
    const char *dot = strrchr(model, '.'), *slash = strrchr(model, '/');
    size_t stem = dot && (!slash || dot > slash) ? (size_t)(dot - model) : strlen(model);
    snprintf(path, MAX_PATH_BYTES, "%.*s%s", (int)stem, model, ending);
}

static bool exists(const char *path)
{
    ml_file file;
    if (ml_file_open(&file, path, NULL) != ML_OK)
        return false;
    ml_file_close(&file);
    return true;
}

/* Settles which files are used; an empty path means none. */
static ml_status find_files(session *s, ml_error *error)
{
    uint32_t members = 0;
    const ml_arguments *a = &s->a;
    if (!a->model) {
        ml_status status = ml_bundle_check(s->self, &members, error);
        if (status == ML_E_FORMAT)
            return status;
        if (members == 0)
            return ml_fail(error, ML_E_ARGUMENT, "there is no model: name one with -m");
        snprintf(s->model, sizeof s->model, "%.*s::model.mlb", MAX_PATH_BYTES - 32, s->self);
    } else {
        snprintf(s->model, sizeof s->model, "%s", a->model);
    }
    beside(s->tokenizer, s->model, ".mlt");
    beside(s->chat, s->model, ".chat");
    if (a->tokenizer)
        snprintf(s->tokenizer, sizeof s->tokenizer, "%s", a->tokenizer);
    if (a->chat)
        snprintf(s->chat, sizeof s->chat, "%s", a->chat);
    else if (!exists(s->chat))
        s->chat[0] = 0;
#if defined(ML_HAS_PACK)
    if (a->pack_cache) {
        char ending[16];
        snprintf(ending, sizeof ending, ".pk%d", ML_PACK_GROUP);
        beside(s->cache, members ? s->self : s->model, ending);
        s->a.options.pack_cache = s->cache;
    }
#endif
    return ML_OK;
}

static ml_status open_engine(session *s, ml_error *error)
{
    ml_status status = ml_engine_open(&s->engine, s->model, &s->a.options, error);
    if (status != ML_OK)
        return status;
    ml_engine_info(s->engine, &s->info);
    if (*ml_engine_notice(s->engine) && !s->a.quiet)
        fprintf(stderr, "ml_run: %s\n", ml_engine_notice(s->engine));
    s->ids = calloc((size_t)s->info.context + 1, sizeof *s->ids);
    s->logits = calloc(s->info.vocab, sizeof *s->logits);
    s->scratch = calloc((size_t)s->info.vocab * 2, sizeof *s->scratch);
    if (!s->ids || !s->logits || !s->scratch)
        return ml_fail(error, ML_E_NOMEM, "no memory for the text and the logits of %u tokens",
                       s->info.vocab);
    return ml_sequence_open(s->engine, &s->sequence, error);
}

/* ---- The hash of logits ---- */

static ml_status parse_ids(session *s, ml_error *error)
{
    const char *at = s->a.logits_hash;
    for (;;) {
        char *end;
        long id = strtol(at, &end, 10);
        if (end == at || (*end && *end != ','))
            return ml_fail(error, ML_E_ARGUMENT, "--logits-hash is %s, must be token ids with commas between",
                           s->a.logits_hash);
        if (s->n_ids >= (int32_t)s->info.context)
            return ml_fail(error, ML_E_ARGUMENT, "--logits-hash has more ids than the context, %u",
                           s->info.context);
        s->ids[s->n_ids++] = (int32_t)id;
        if (!*end)
            return ML_OK;
        at = end + 1;
    }
}

static uint64_t add_to_hash(uint64_t hash, const float *x, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (int shift = 0; shift < 32; shift += 8)
            hash = (hash ^ (ml_bits_of(x[i]) >> shift & 0xff)) * 0x100000001b3u;
    return hash;
}

/* All ids in steps of the batch, logits at each: `batch` is part of what the hash must not depend on. */
static ml_status print_hash(session *s, ml_error *error)
{
    ml_status status = parse_ids(s, error);
    if (status != ML_OK)
        return status;
    size_t rows = (size_t)s->n_ids;
    ml_row *row = calloc(rows, sizeof *row);
    float *logits = calloc(rows * s->info.vocab, sizeof *logits);
    if (!row || !logits)
        status = ml_fail(error, ML_E_NOMEM, "no memory for the logits of %zu tokens", rows);
    for (int32_t i = 0; i < s->n_ids && status == ML_OK; i++)
        row[i] = (ml_row){s->sequence, i, s->ids[i], 1};
    if (status == ML_OK)
        status = ml_forward(s->engine, row, s->n_ids, logits, error);
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < rows && status == ML_OK; i++)
        hash = add_to_hash(hash, logits + i * s->info.vocab, s->info.vocab);
    if (status == ML_OK)
        printf("%016llx\n", (unsigned long long)hash);
    free(row);
    free(logits);
    return status;
}

/* ---- Text ---- */

static char *read_stream(FILE *stream, size_t *length)
{
    size_t capacity = 1 << 16;
    char *text = malloc(capacity);
    *length = 0;
    while (text) {
        *length += fread(text + *length, 1, capacity - *length, stream);
        if (*length < capacity)
            return text;
        char *more = realloc(text, capacity *= 2);
        if (!more)
            free(text);
        text = more;
    }
    return NULL;
}

/* The prompt with the chat text around it. */
static ml_status wrap(session *s, char **text, size_t *length, ml_error *error)
{
    static const char mark[] = "{prompt}";
    ml_file chat;
    ml_status status = ml_file_open(&chat, s->chat, error);
    if (status != ML_OK)
        return status;
    size_t at = 0, mark_bytes = sizeof mark - 1;
    while (at + mark_bytes <= chat.size && memcmp(chat.data + at, mark, mark_bytes) != 0)
        at++;
    char *whole = malloc(chat.size + *length + 1);
    if (at + mark_bytes > chat.size) {
        status = ml_fail(error, ML_E_FORMAT, "%s: the place of the message, {prompt}, is missing", s->chat);
    } else if (!whole) {
        status = ml_fail(error, ML_E_NOMEM, "no memory for the prompt");
    } else {
        memcpy(whole, chat.data, at);
        memcpy(whole + at, *text, *length);
        memcpy(whole + at + *length, chat.data + at + mark_bytes, chat.size - at - mark_bytes);
        *length += chat.size - mark_bytes;
        free(*text);
        *text = whole;
        whole = NULL;
    }
    free(whole);
    ml_file_close(&chat);
    return status;
}

static ml_status encode_prompt(session *s, ml_error *error)
{
    size_t length = 0, count = 0;
    char *text = s->a.prompt ? malloc(strlen(s->a.prompt) + 1) : read_stream(stdin, &length);
    if (!text)
        return ml_fail(error, ML_E_NOMEM, "no memory for the prompt");
    if (s->a.prompt) {
        length = strlen(s->a.prompt);
        memcpy(text, s->a.prompt, length + 1);
    }
    bool chats = s->chat[0] && !s->a.raw;
    ml_status status = chats ? wrap(s, &text, &length, error) : ML_OK;
    if (status == ML_OK)
        status = ml_tokenizer_encode(s->vocabulary, text, length, chats ? ML_ENCODE_NO_BOS : 0, s->ids,
                                     s->info.context, &count, error);
    free(text);
    if (status != ML_OK)
        return status;
    if (count > s->info.context)
        return ml_fail(error, ML_E_ARGUMENT,
                       "the prompt has %zu tokens, the context holds %u (set it with -c, at most %u)", count,
                       s->info.context, s->info.max_seq);
    if (count == 0 && ml_tokenizer_bos(s->vocabulary) >= 0)
        s->ids[count++] = ml_tokenizer_bos(s->vocabulary);
    if (count == 0)
        return ml_fail(error, ML_E_ARGUMENT, "the prompt is empty");
    s->n_ids = s->n_prompt = (int32_t)count;
    return ML_OK;
}

/* Runs the ids that the sequence lacks, in steps that an interruption can end; logits of the last one. */
static ml_status advance(session *s, ml_error *error)
{
    int32_t start = ml_sequence_length(s->engine, s->sequence);
    enum { STEP = 32 };
    while (start < s->n_ids && !interrupted) {
        ml_row rows[STEP];
        int32_t n = 0;
        for (; n < STEP && start + n < s->n_ids; n++)
            rows[n] = (ml_row){s->sequence, start + n, s->ids[start + n], start + n + 1 == s->n_ids};
        ml_status status = ml_forward(s->engine, rows, n, s->logits, error);
        if (status != ML_OK)
            return status;
        start += n;
    }
    return ML_OK;
}

static bool ends(const session *s, int32_t token)
{
    int32_t eos[MAX_EOS];
    int32_t count = ml_tokenizer_eos(s->vocabulary, eos, MAX_EOS);
    for (int32_t i = 0; i < count && i < MAX_EOS; i++)
        if (eos[i] == token)
            return true;
    return false;
}

static ml_status generate(session *s, ml_error *error)
{
    ml_text_stream stream = {.out = stdout};
    ml_status status = ML_OK;
    int32_t limit = s->a.max_tokens < 0 ? 512 : s->a.max_tokens;
    ml_sampler_seed(&s->a.sampler, s->a.seed);
    while (s->n_ids - s->n_prompt < limit && s->n_ids <= (int32_t)s->info.context && !interrupted) {
        double started = ml_clock();
        if ((status = advance(s, error)) != ML_OK || interrupted)
            break;
        int32_t token = ml_sample(&s->a.sampler, s->logits, (int32_t)s->info.vocab, s->scratch);
        double *clock = s->n_ids == s->n_prompt ? &s->prompt_seconds : &s->decode_seconds;
        *clock += ml_clock() - started;
        if (ends(s, token))
            break;
        const char *bytes;
        size_t length;
        int32_t previous = s->ids[s->n_ids - 1];
        if ((status = ml_tokenizer_decode(s->vocabulary, previous, token, &bytes, &length, error)) != ML_OK)
            break;
        if (!ml_tokenizer_is_added(s->vocabulary, token))
            ml_text_push(&stream, bytes, length);
        s->ids[s->n_ids++] = token;
        if (s->n_ids > (int32_t)s->info.context)
            break;
    }
    ml_text_finish(&stream);
    putchar('\n');
    return status;
}

static void print_speed(const session *s)
{
    int32_t made = s->n_ids - s->n_prompt;
    fprintf(stderr, "[%s, %u thread%s; prompt %d tokens at %.0f/s; %d tokens at %.1f/s]\n", ML_ISA_NAME,
            s->info.threads, s->info.threads > 1 ? "s" : "", s->n_prompt,
            s->n_prompt / (s->prompt_seconds + 1e-9), made,
            (made > 1 ? made - 1 : 0) / (s->decode_seconds + 1e-9));
    if (!s->a.options.profile)
        return;
    double seconds[ML_PROFILE_STAGES];
    ml_profile_read(s->engine, seconds);
    for (int32_t i = 0; i < ML_PROFILE_STAGES; i++)
        fprintf(stderr, "  %-12s%8.3f s\n", ml_profile_stage_name(i), seconds[i]);
}

static ml_status run(session *s, ml_error *error)
{
    ml_status status;
    if ((status = find_files(s, error)) != ML_OK || (status = open_engine(s, error)) != ML_OK)
        return status;
    if (s->a.logits_hash)
        return print_hash(s, error);
    if ((status = ml_tokenizer_open(&s->vocabulary, s->tokenizer, (int32_t)s->info.vocab, error)) != ML_OK ||
        (status = encode_prompt(s, error)) != ML_OK || (status = generate(s, error)) != ML_OK)
        return status;
    if (!s->a.quiet)
        print_speed(s);
    return ML_OK;
}

int ml_main(int argc, char **argv)
{
    static session s; /* large paths: not for the stack */
    ml_error error;
    if (!ml_arguments_parse(&s.a, argc, argv))
        return ML_EXIT_USAGE;
    if (s.a.help) {
        fputs(HELP, stdout);
        return ML_EXIT_OK;
    }
    watch_interrupts();
    find_self(s.self, argv[0]);
    int code = run(&s, &error) == ML_OK ? ML_EXIT_OK : ml_complain("ml_run", &error);
    ml_tokenizer_close(s.vocabulary);
    ml_engine_close(s.engine);
    free(s.ids);
    free(s.logits);
    free(s.scratch);
    return code == ML_EXIT_OK && interrupted ? ML_EXIT_INTERRUPTED : code;
}
