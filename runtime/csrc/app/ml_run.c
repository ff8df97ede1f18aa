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
#include <io.h>
#else
#include <unistd.h>
#endif
#if defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

enum { MAX_PATH_BYTES = 4096, MAX_EOS = 16 };
static const char HELP[] =
    "usage: ml_run [PROMPT] -m MODEL.mlb [options]\n"
    "Completes PROMPT (without it: standard input), or answers it if a chat text is there.\n\n"
    "  -m, --model FILE      the model; its tokenizer MODEL.mlt and chat text MODEL.chat lie beside it\n"
    "      --tokenizer FILE  .mlt, or llama2.c's tokenizer.bin\n"
    "      --chat FILE       text around a user's message, which takes the place of {prompt}\n"
    "      --system TEXT     system message, for a chat text with {system} in it (MODEL.system.chat)\n"
    "      --raw             continue the prompt as plain text\n"
    "  -n, --tokens N        tokens at most (512)\n"
    "      --temp X          temperature (0, the likeliest token)\n"
    "      --top-p X         sample among this much probability (1)\n"
    "      --top-k N         sample among this many tokens (all)\n"
    "      --min-p X         leave out tokens below this part of the likeliest (0)\n"
    "      --seed N          seed of the sampler (a new one)\n"
    "  -t, --threads N       threads (the physical cores)\n"
    "  -c, --ctx N           positions (the model's, at most 4096)\n"
    "  -b, --batch N         prompt tokens per step (128)\n"
    "      --kv TYPE         KV memory: f32, f16 or q8 (f32)\n"
    "      --isa NAME        refuse unless this is the build for that ISA\n"
    "      --no-pack         keep the weights row by row\n"
    "      --pack-cache      keep the packed weights in a file beside the model\n"
    "      --imatrix FILE    write an importance matrix of all tokens, for `krafla convert`\n"
    "      --profile         tell where the time went\n"
    "      --logits-hash IDS run these token ids (1,2,3) and print a hash of all logits\n"
    "      --json            print one JSON object instead of text\n"
    "  -q, --quiet           nothing on standard error unless it fails\n"
    "  -h, --help            this text\n\n"
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
    ml_row *rows;       /* of a step: `batch` of them */
    const char *finish; /* why the text ended: stop, length or context */
    double load_seconds, prompt_seconds, decode_seconds;
    bool watched; /* somebody sees the progress of loading */
    double load_started, last_shown;
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

/* Loading takes long on slow machines: a line on a terminal tells how far it is. Called with a session. */
static int32_t show_progress(void *context, const char *what, uint64_t done, uint64_t total)
{
    session *s = context;
    double now = ml_clock();
    if (s->watched && total && now - s->load_started > 1 && now - s->last_shown > 0.2) {
        fprintf(stderr, "\rml_run: %s, %d %% ", what, (int)(100 * done / total));
        s->last_shown = now;
    }
    return interrupted;
}

static bool is_terminal(FILE *stream)
{
#if defined(_WIN32)
    return _isatty(_fileno(stream)) != 0;
#else
    return isatty(fileno(stream)) != 0;
#endif
}

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
    beside(s->chat, s->model, a->system ? ".system.chat" : ".chat");
    if (a->tokenizer)
        snprintf(s->tokenizer, sizeof s->tokenizer, "%s", a->tokenizer);
    if (a->chat)
        snprintf(s->chat, sizeof s->chat, "%s", a->chat);
    else if (a->system && !exists(s->chat))
        return ml_fail(error, ML_E_ARGUMENT, "--system: there is no chat text with a place for it, %s",
                       s->chat);
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
    ml_options *o = &s->a.options;
    s->load_started = ml_clock();
    s->watched = !s->a.quiet && is_terminal(stderr);
    o->progress = show_progress;
    o->progress_context = s;
    o->imatrix = s->a.imatrix != NULL;
    ml_status status = ml_engine_open(&s->engine, s->model, o, error);
    s->load_seconds = ml_clock() - s->load_started;
    if (s->last_shown > 0)
        fprintf(stderr, "\r%60s\r", "");
    if (status != ML_OK)
        return status;
    ml_engine_info(s->engine, &s->info);
    if (*ml_engine_notice(s->engine) && !s->a.quiet)
        fprintf(stderr, "ml_run: %s\n", ml_engine_notice(s->engine));
    s->ids = calloc((size_t)s->info.context + 1, sizeof *s->ids);
    s->logits = calloc(s->info.vocab, sizeof *s->logits);
    s->scratch = calloc((size_t)s->info.vocab * 2, sizeof *s->scratch);
    s->rows = calloc(s->info.batch, sizeof *s->rows);
    if (!s->ids || !s->logits || !s->scratch || !s->rows)
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

/* What takes a place in the chat text. */
typedef struct place {
    const char *mark, *text;
    size_t length; /* of the text */
    bool found;
} place;

/* Copies `chat` with the first of each mark replaced; the number of bytes written. */
static size_t fill_places(char *out, const ml_file *chat, place *places, int count)
{
    size_t written = 0, at = 0;
    while (at < chat->size) {
        place *here = NULL;
        for (int i = 0; i < count && !here; i++) {
            size_t bytes = strlen(places[i].mark);
            if (!places[i].found && bytes <= chat->size - at &&
                memcmp(chat->data + at, places[i].mark, bytes) == 0)
                here = &places[i];
        }
        if (!here) {
            out[written++] = (char)chat->data[at++];
            continue;
        }
        here->found = true;
        memcpy(out + written, here->text, here->length);
        written += here->length;
        at += strlen(here->mark);
    }
    return written;
}

/* The prompt with the chat text around it. */
static ml_status wrap(session *s, char **text, size_t *length, ml_error *error)
{
    const char *system = s->a.system;
    place places[] = {{"{prompt}", *text, *length, false},
                      {"{system}", system ? system : "", system ? strlen(system) : 0, false}};
    ml_file chat;
    ml_status status = ml_file_open(&chat, s->chat, error);
    if (status != ML_OK)
        return status;
    char *whole = malloc(chat.size + places[0].length + places[1].length + 1);
    size_t written = whole ? fill_places(whole, &chat, places, 2) : 0;
    if (!whole)
        status = ml_fail(error, ML_E_NOMEM, "no memory for the prompt");
    else if (!places[0].found)
        status = ml_fail(error, ML_E_FORMAT, "%s: the place of the message, {prompt}, is missing", s->chat);
    else if (system && !places[1].found)
        status =
            ml_fail(error, ML_E_FORMAT, "%s: the place of the system message, {system}, is missing", s->chat);
    else if (!system && places[1].found)
        status =
            ml_fail(error, ML_E_ARGUMENT, "%s: has a place for a system message, give --system", s->chat);
    ml_file_close(&chat);
    if (status != ML_OK) {
        free(whole);
        return status;
    }
    free(*text);
    *text = whole;
    *length = written;
    return ML_OK;
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
    while (start < s->n_ids && !interrupted) {
        int32_t n = 0;
        for (; n < (int32_t)s->info.batch && start + n < s->n_ids; n++)
            s->rows[n] = (ml_row){s->sequence, start + n, s->ids[start + n], start + n + 1 == s->n_ids};
        ml_status status = ml_forward(s->engine, s->rows, n, s->logits, error);
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

/* The text of the id at a position behind the prompt. */
static ml_status show(session *s, ml_text_stream *stream, int32_t position, ml_error *error)
{
    const char *bytes;
    size_t length;
    const int32_t *ids = s->ids + position;
    ml_status status = ml_tokenizer_decode(s->vocabulary, ids[-1], ids[0], &bytes, &length, error);
    if (status == ML_OK && !ml_tokenizer_is_silent(s->vocabulary, ids[0]))
        ml_text_push(stream, bytes, length);
    return status;
}

/* Why there is no further token, or NULL. */
static const char *finished(const session *s)
{
    int32_t limit = s->a.max_tokens < 0 ? 512 : s->a.max_tokens;
    return s->n_ids - s->n_prompt >= limit       ? "length"
           : s->n_ids > (int32_t)s->info.context ? "context"
                                                 : NULL;
}

/* Appends tokens until the end, or an interruption; their text appears as they are made, unless for JSON. */
static ml_status generate(session *s, ml_error *error)
{
    ml_text_stream stream = {.out = stdout};
    ml_status status = ML_OK;
    ml_sampler_seed(&s->a.sampler, s->a.seed);
    while (status == ML_OK && !(s->finish = finished(s))) {
        double started = ml_clock();
        if ((status = advance(s, error)) != ML_OK || interrupted)
            break;
        int32_t token = ml_sample(&s->a.sampler, s->logits, (int32_t)s->info.vocab, s->scratch);
        double *clock = s->n_ids == s->n_prompt ? &s->prompt_seconds : &s->decode_seconds;
        *clock += ml_clock() - started;
        if (ends(s, token)) {
            s->finish = "stop";
            break;
        }
        s->ids[s->n_ids++] = token;
        if (!s->a.json)
            status = show(s, &stream, s->n_ids - 1, error);
    }
    if (!s->a.json) {
        ml_text_finish(&stream);
        putchar('\n');
    }
    return status;
}

/* ---- What is told afterwards ---- */

/* The object that `krafla run --json` prints. */
static ml_status print_json(session *s, ml_error *error)
{
    ml_text_stream stream = {.out = stdout, .json = true};
    ml_status status = ML_OK;
    fputs("{\"text\": \"", stdout);
    for (int32_t i = s->n_prompt; i < s->n_ids && status == ML_OK; i++)
        status = show(s, &stream, i, error);
    ml_text_finish(&stream);
    printf("\", \"finish\": \"%s\", \"prompt_tokens\": %d, \"tokens\": %d, \"guessed\": 0, "
           "\"guessed_right\": 0, \"seed\": %llu, \"model\": \"",
           s->finish, s->n_prompt, s->n_ids - s->n_prompt, (unsigned long long)s->a.seed);
    ml_text_push(&stream, s->model, strlen(s->model));
    ml_text_finish(&stream);
    printf("\", \"isa\": \"%s\", \"threads\": %u, \"load_seconds\": %.4f, \"prompt_seconds\": %.4f, "
           "\"decode_seconds\": %.4f}\n",
           ML_ISA_NAME, s->info.threads, s->load_seconds, s->prompt_seconds, s->decode_seconds);
    return status;
}

static void print_speed(const session *s)
{
    int32_t made = s->n_ids - s->n_prompt;
    fprintf(stderr, "[%s, %u thread%s; prompt %d tokens at %.0f/s; %d tokens at %.1f/s]\n", ML_ISA_NAME,
            s->info.threads, s->info.threads > 1 ? "s" : "", s->n_prompt,
            s->n_prompt / (s->prompt_seconds + 1e-9), made,
            (made > 1 ? made - 1 : 0) / (s->decode_seconds + 1e-9));
}

static void print_profile(const session *s)
{
    double seconds[ML_PROFILE_STAGES];
    ml_profile_read(s->engine, seconds);
    for (int32_t i = 0; i < ML_PROFILE_STAGES; i++)
        fprintf(stderr, "  %-12s%8.3f s\n", ml_profile_stage_name(i), seconds[i]);
}

static ml_status report(session *s, ml_error *error)
{
    ml_status status = ML_OK;
    if (s->a.imatrix && !interrupted)
        status = ml_imatrix_write(s->engine, s->a.imatrix, error);
    if (status == ML_OK && s->a.json && !interrupted)
        status = print_json(s, error);
    if (status == ML_OK && !s->a.quiet)
        print_speed(s);
    if (status == ML_OK && s->a.options.profile)
        print_profile(s);
    return status;
}

static ml_status check_arguments(const session *s, ml_error *error)
{
    if (s->a.system && s->a.raw)
        return ml_fail(error, ML_E_ARGUMENT, "--system needs the chat text, which --raw leaves out");
    if (!s->a.prompt && !s->a.logits_hash && is_terminal(stdin))
        return ml_fail(error, ML_E_ARGUMENT,
                       "PROMPT is missing: give it as an argument or on standard input");
    return ML_OK;
}

static ml_status run(session *s, ml_error *error)
{
    ml_status status;
    if ((status = check_arguments(s, error)) != ML_OK || (status = find_files(s, error)) != ML_OK ||
        (status = open_engine(s, error)) != ML_OK)
        return status;
    if (s->a.logits_hash)
        return print_hash(s, error);
    if ((status = ml_tokenizer_open(&s->vocabulary, s->tokenizer, (int32_t)s->info.vocab, error)) != ML_OK ||
        (status = encode_prompt(s, error)) != ML_OK || (status = generate(s, error)) != ML_OK)
        return status;
    return report(s, error);
}

int ml_main(int argc, char **argv)
{
    static session s; /* large paths: not for the stack */
    ml_error error;
    if (!ml_arguments_parse(&s.a, ML_PROGRAM_RUN, argc, argv))
        return ML_EXIT_USAGE;
    if (s.a.help) {
        fputs(HELP, stdout);
        return ML_EXIT_OK;
    }
    watch_interrupts();
    find_self(s.self, argv[0]);
    int code = ML_EXIT_OK;
    if (run(&s, &error) != ML_OK && !interrupted) /* an interrupted load fails, too */
        code = ml_complain("ml_run", &error);
    ml_tokenizer_close(s.vocabulary);
    ml_engine_close(s.engine);
    free(s.ids);
    free(s.logits);
    free(s.scratch);
    free(s.rows);
    return code == ML_EXIT_OK && interrupted ? ML_EXIT_INTERRUPTED : code;
}
