/*
 * threads.c: the worker pool, and how many workers are sensible.
 *
 * A job has as many parts as the pool has workers; whoever is there claims the next part, so that a worker
 * that the system keeps away from its CPU holds nobody up: the caller takes its part too. The ticket holds
 * the job's generation and how many parts are claimed. A claim succeeds only on the current generation, and a
 * job stays current until all claimed parts are done, so a late worker never sees a job that is over.
 *
 * Workers wait for the generation to change: they spin for a while, because the next job usually follows
 * within microseconds, then sleep. A worker announces itself in `sleepers` before it looks at the ticket for
 * the last time; ml_pool_run advances the ticket before it looks at `sleepers`. Both are sequentially
 * consistent, so at least one of the two sees the other and no wake-up is lost. The caller waits for the
 * workers the same way.
 */
#if !defined(_WIN32)
#define _GNU_SOURCE /* sched_getaffinity, CPU_ALLOC */
#endif
#include "threads.h"

#include <stdlib.h>

void ml_split(int count, int grain, int worker, int workers, int *start, int *end)
{
    int64_t grains = ((int64_t)count + grain - 1) / grain;
    int64_t first = grains * worker / workers * grain;
    int64_t last = grains * (worker + 1) / workers * grain;
    *start = first < count ? (int)first : count;
    *end = last < count ? (int)last : count;
}

#if (defined(ML_THREADS) && ML_THREADS == 1) || defined(__wasi__)

struct ml_pool {
    int workers;
};

ml_status ml_pool_create(ml_pool **pool, int workers, ml_error *error)
{
    if (workers < 1)
        return ml_fail(error, ML_E_ARGUMENT, "threads is %d, must be at least 1", workers);
    *pool = calloc(1, sizeof **pool);
    if (!*pool)
        return ml_fail(error, ML_E_NOMEM, "no memory for the thread pool");
    (*pool)->workers = 1;
    return ML_OK;
}

void ml_pool_run(ml_pool *pool, ml_job job, void *context)
{
    job(context, 0, pool->workers);
}

void ml_pool_destroy(ml_pool *pool)
{
    free(pool);
}

int ml_threads_detect(const char *root, int usable)
{
    (void)root, (void)usable;
    return 1;
}

int ml_threads_default(void)
{
    return 1;
}

#else

#include <stdatomic.h>
#include <stdio.h>

#if defined(_WIN32)

#include <errno.h>
#include <malloc.h>
#include <windows.h>
typedef HANDLE thread;
typedef SRWLOCK mutex;
typedef CONDITION_VARIABLE condition;
#define THREAD_RESULT DWORD WINAPI
#define mutex_init(m) InitializeSRWLock(m)
#define mutex_lock(m) AcquireSRWLockExclusive(m)
#define mutex_unlock(m) ReleaseSRWLockExclusive(m)
#define allocate_aligned(bytes) _aligned_malloc(bytes, ML_ALIGN)
#define free_aligned(p) _aligned_free(p)
#define condition_init(c) InitializeConditionVariable(c)
#define condition_wait(c, m) (void)SleepConditionVariableSRW(c, m, INFINITE, 0)
#define condition_signal(c) WakeConditionVariable(c)
#define condition_broadcast(c) WakeAllConditionVariable(c)

#else

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif
typedef pthread_t thread;
typedef pthread_mutex_t mutex;
typedef pthread_cond_t condition;
#define THREAD_RESULT void *
#define mutex_init(m) pthread_mutex_init(m, NULL)
#define mutex_lock(m) pthread_mutex_lock(m)
#define mutex_unlock(m) pthread_mutex_unlock(m)
#define allocate_aligned(bytes) aligned_alloc(ML_ALIGN, bytes)
#define free_aligned(p) free(p)
#define condition_init(c) pthread_cond_init(c, NULL)
#define condition_wait(c, m) pthread_cond_wait(c, m)
#define condition_signal(c) pthread_cond_signal(c)
#define condition_broadcast(c) pthread_cond_broadcast(c)

#endif

enum { SPINS = 20000, MAX_WORKERS = 1024, MAX_CPUS = 4096 };

typedef struct worker {
    ml_pool *pool;
    thread thread;
} worker;

struct ml_pool {
    ml_job job;
    void *context;
    int workers;
    int started; /* threads to join */
    atomic_bool stop;
    /* Counters that different threads write to have cache lines of their own. */
    _Alignas(64) _Atomic uint64_t ticket; /* generation << 32 | parts claimed */
    _Alignas(64) atomic_int pending;      /* parts that are not finished */
    _Alignas(64) atomic_int sleepers;     /* workers that may sleep */
    atomic_bool caller_sleeps;
    mutex mutex;
    condition wake; /* a new generation */
    condition done; /* pending reached 0 */
    worker others[];
};

static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__ARM_ARCH) && __ARM_ARCH >= 7)
    __asm__ volatile("yield");
#endif
}

static uint32_t generation_of(uint64_t ticket)
{
    return (uint32_t)(ticket >> 32);
}

/* Returns the generation that follows `seen`. */
static uint32_t wait_for_job(ml_pool *pool, uint32_t seen)
{
    uint32_t now;
    for (int i = 0; i < SPINS; i++) {
        if ((now = generation_of(atomic_load_explicit(&pool->ticket, memory_order_acquire))) != seen)
            return now;
        pause_cpu();
    }
    mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while ((now = generation_of(atomic_load(&pool->ticket))) == seen)
        condition_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    mutex_unlock(&pool->mutex);
    return now;
}

static void wait_for_parts(ml_pool *pool)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&pool->pending, memory_order_acquire) == 0)
            return;
        pause_cpu();
    }
    mutex_lock(&pool->mutex);
    atomic_store(&pool->caller_sleeps, true);
    while (atomic_load(&pool->pending) > 0)
        condition_wait(&pool->done, &pool->mutex);
    atomic_store(&pool->caller_sleeps, false);
    mutex_unlock(&pool->mutex);
}

/* Takes the next part of the job of that generation; false if none is left, or the job is another one. */
static bool claim(ml_pool *pool, uint32_t generation, int *part)
{
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    while (generation_of(ticket) == generation && (uint32_t)ticket < (uint32_t)pool->workers) {
        if (atomic_compare_exchange_weak(&pool->ticket, &ticket, ticket + 1)) {
            *part = (int)(uint32_t)ticket;
            return true;
        }
    }
    return false;
}

/* Runs one part; true if it was the last one to finish. */
static bool run_part(ml_pool *pool, int part)
{
    pool->job(pool->context, part, pool->workers);
    return atomic_fetch_sub(&pool->pending, 1) == 1;
}

static THREAD_RESULT work(void *argument)
{
    ml_pool *pool = ((const worker *)argument)->pool;
    uint32_t seen = 0;
    for (;;) {
        seen = wait_for_job(pool, seen);
        if (atomic_load_explicit(&pool->stop, memory_order_relaxed))
            return 0;
        int part;
        bool last = false;
        while (claim(pool, seen, &part))
            last = run_part(pool, part);
        if (last && atomic_load(&pool->caller_sleeps)) {
            mutex_lock(&pool->mutex);
            condition_signal(&pool->done);
            mutex_unlock(&pool->mutex);
        }
    }
}

/* A new generation, of which `claimed` parts are taken already: whoever sleeps is woken. */
static uint32_t advance(ml_pool *pool, uint32_t claimed)
{
    uint32_t generation = generation_of(atomic_load_explicit(&pool->ticket, memory_order_relaxed)) + 1;
    atomic_store(&pool->ticket, (uint64_t)generation << 32 | claimed);
    if (atomic_load(&pool->sleepers) > 0) {
        mutex_lock(&pool->mutex);
        condition_broadcast(&pool->wake);
        mutex_unlock(&pool->mutex);
    }
    return generation;
}

void ml_pool_run(ml_pool *pool, ml_job job, void *context)
{
    if (pool->workers == 1) {
        job(context, 0, 1);
        return;
    }
    pool->job = job;
    pool->context = context;
    atomic_store_explicit(&pool->pending, pool->workers, memory_order_relaxed);
    uint32_t generation = advance(pool, 1);
    int part = 0;
    do
        run_part(pool, part);
    while (claim(pool, generation, &part));
    wait_for_parts(pool);
}

#if defined(_WIN32)

static int start_one(worker *other)
{
    other->thread = CreateThread(NULL, 0, work, other, 0, NULL);
    return other->thread ? 0 : ENOMEM;
}

static void join(worker *other)
{
    WaitForSingleObject(other->thread, INFINITE);
    CloseHandle(other->thread);
}

static void destroy_locks(ml_pool *pool)
{
    (void)pool; /* nothing to give back */
}

#else

static int start_one(worker *other)
{
    return pthread_create(&other->thread, NULL, work, other);
}

static void join(worker *other)
{
    pthread_join(other->thread, NULL);
}

static void destroy_locks(ml_pool *pool)
{
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
}

#endif

/* Starts the other workers with all signals blocked: Ctrl-C belongs to the caller's thread. */
static int start_workers(ml_pool *pool)
{
#if !defined(_WIN32)
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
#endif
    int failed = 0;
    for (int i = 1; i < pool->workers && !failed; i++) {
        worker *other = &pool->others[i - 1];
        *other = (worker){.pool = pool};
        failed = start_one(other);
        pool->started += !failed;
    }
#if !defined(_WIN32)
    pthread_sigmask(SIG_SETMASK, &before, NULL);
#endif
    return failed;
}

ml_status ml_pool_create(ml_pool **pool, int workers, ml_error *error)
{
    *pool = NULL;
    if (workers < 1 || workers > MAX_WORKERS)
        return ml_fail(error, ML_E_ARGUMENT, "threads is %d, must be 1 to %d", workers, MAX_WORKERS);
    size_t bytes = sizeof(ml_pool) + (size_t)(workers - 1) * sizeof(worker);
    bytes = (bytes + ML_ALIGN - 1) / ML_ALIGN * ML_ALIGN;
    ml_pool *made = allocate_aligned(bytes);
    if (!made)
        return ml_fail(error, ML_E_NOMEM, "no memory for a pool of %d threads", workers);
    memset(made, 0, bytes);
    made->workers = workers;
    mutex_init(&made->mutex);
    condition_init(&made->wake);
    condition_init(&made->done);
    int failed = start_workers(made);
    if (failed) {
        ml_pool_destroy(made);
        return ml_fail(error, ML_E_NOMEM, "cannot start %d threads: %s", workers, strerror(failed));
    }
    *pool = made;
    return ML_OK;
}

void ml_pool_destroy(ml_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stop, true);
    advance(pool, (uint32_t)pool->workers);
    for (int i = 0; i < pool->started; i++)
        join(&pool->others[i]);
    destroy_locks(pool);
    free_aligned(pool);
}

#if defined(__linux__)

/* Reads the start of a small file as text; false if there is none. */
static bool read_text(const char *root, const char *path, char *text, size_t capacity)
{
    char full[1200];
    int length = snprintf(full, sizeof full, "%s%s", root, path);
    FILE *stream = length > 0 && (size_t)length < sizeof full ? fopen(full, "re") : NULL;
    if (!stream)
        return false;
    text[fread(text, 1, capacity - 1, stream)] = 0;
    fclose(stream);
    return true;
}

/* CPUs of one quota, or 0 without a limit: v2 writes "quota period" (or "max"), v1 has two files (-1: none).
 */
static int64_t quota_at(const char *root, const char *folder, bool v2)
{
    char path[1100], text[64], period[64];
    long long limit = 0, window = 0;
    snprintf(path, sizeof path, "%s/%s", folder, v2 ? "cpu.max" : "cpu.cfs_quota_us");
    if (!read_text(root, path, text, sizeof text))
        return 0;
    if (v2) {
        if (sscanf(text, "%lld %lld", &limit, &window) != 2)
            return 0;
    } else {
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        if (!read_text(root, path, period, sizeof period))
            return 0;
        limit = atoll(text);
        window = atoll(period);
    }
    if (limit <= 0 || window <= 0)
        return 0;
    return limit / window > 0 ? limit / window : 1;
}

/* The least quota of a group and the groups around it. */
static int64_t quota_above(const char *root, const char *mount, const char *group, bool v2)
{
    char folder[1024];
    int length = snprintf(folder, sizeof folder, "%s%s", mount, strcmp(group, "/") == 0 ? "" : group);
    if (length < 0 || (size_t)length >= sizeof folder)
        return 0;
    int64_t least = 0;
    for (;;) {
        int64_t quota = quota_at(root, folder, v2);
        if (quota > 0 && (least == 0 || quota < least))
            least = quota;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < strlen(mount))
            return least;
        *slash = 0;
    }
}

/* True if `name` is in the comma-separated list. */
static bool lists(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == 0))
            return true;
    return false;
}

/* The CPU quota of this process's control group, v1 or v2, rounded down; 0 without a limit. */
static int64_t cgroup_quota(const char *root)
{
    char text[4096];
    int64_t least = 0;
    if (!read_text(root, "/proc/self/cgroup", text, sizeof text))
        return 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        /* "0::/group" in v2, "4:cpu,cpuacct:/group" in v1 */
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        controllers++;
        int64_t quota = 0;
        if (*controllers == 0)
            quota = quota_above(root, "/sys/fs/cgroup", group, true);
        else if (lists(controllers, "cpu"))
            quota = quota_above(root, "/sys/fs/cgroup/cpu", group, false);
        if (quota > 0 && (least == 0 || quota < least))
            least = quota;
    }
    return least;
}

/* Physical cores among the CPUs of `allowed`: a CPU counts if it is the first allowed one of its core. */
static int physical_cores(const char *root, const cpu_set_t *allowed, size_t bytes)
{
    char path[128], siblings[256];
    int cores = 0;
    for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
        if (!CPU_ISSET_S((size_t)cpu, bytes, allowed))
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        int first = cpu;
        if (read_text(root, path, siblings, sizeof siblings)) {
            /* "0,64" or "0-1": the CPUs before this one are what matters */
            for (char *at = siblings; *at >= '0' && *at <= '9';) {
                long low = strtol(at, &at, 10), high = low;
                if (*at == '-')
                    high = strtol(at + 1, &at, 10);
                for (long other = low; other <= high && other < first; other++)
                    if (CPU_ISSET_S((size_t)other, bytes, allowed))
                        first = (int)other;
                at += *at == ',';
            }
        }
        cores += first == cpu;
    }
    return cores;
}

int ml_threads_detect(const char *root, int usable)
{
    cpu_set_t *allowed = CPU_ALLOC(MAX_CPUS);
    if (!allowed)
        return 1;
    size_t bytes = CPU_ALLOC_SIZE(MAX_CPUS);
    CPU_ZERO_S(bytes, allowed);
    if (usable > 0)
        for (int cpu = 0; cpu < usable && cpu < MAX_CPUS; cpu++)
            CPU_SET_S((size_t)cpu, bytes, allowed);
    else if (sched_getaffinity(0, bytes, allowed) != 0)
        CPU_SET_S(0, bytes, allowed);
    int64_t threads = physical_cores(root, allowed, bytes);
    CPU_FREE(allowed);
    int64_t quota = cgroup_quota(root);
    if (quota > 0 && quota < threads)
        threads = quota;
    if (threads > MAX_WORKERS)
        threads = MAX_WORKERS;
    return threads > 0 ? (int)threads : 1;
}

#else

#if defined(_WIN32)

/* Cores among the processors this process may use; 0 if the system does not say. */
static long physical_cores(void)
{
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION rows[512];
    DWORD bytes = sizeof rows;
    DWORD_PTR allowed = 0, all = 0;
    if (!GetLogicalProcessorInformation(rows, &bytes) ||
        !GetProcessAffinityMask(GetCurrentProcess(), &allowed, &all))
        return 0;
    long cores = 0;
    for (size_t i = 0; i < bytes / sizeof *rows; i++)
        cores += rows[i].Relationship == RelationProcessorCore && (rows[i].ProcessorMask & allowed) != 0;
    return cores;
}

int ml_threads_detect(const char *root, int usable)
{
    (void)root;
    long cpus = usable > 0 ? usable : physical_cores();
    return cpus > MAX_WORKERS ? MAX_WORKERS : cpus > 0 ? (int)cpus : 1;
}

#else

int ml_threads_detect(const char *root, int usable)
{
    (void)root;
    long cpus = usable;
#if defined(__APPLE__)
    int cores = 0;
    size_t size = sizeof cores;
    if (cpus <= 0 && sysctlbyname("hw.physicalcpu", &cores, &size, NULL, 0) == 0)
        cpus = cores;
#endif
    if (cpus <= 0)
        cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return cpus > MAX_WORKERS ? MAX_WORKERS : cpus > 0 ? (int)cpus : 1;
}

#endif
#endif

int ml_threads_default(void)
{
    return ml_threads_detect("", 0);
}

#endif

int ml_pool_workers(const ml_pool *pool)
{
    return pool->workers;
}
