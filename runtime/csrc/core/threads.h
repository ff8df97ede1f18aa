/*
 * threads.h: a pool of workers that split one job after the other. The caller is worker 0. Compiled with
 * ML_THREADS=1 there is no thread code at all and every job runs on the caller.
 */
#ifndef ML_THREADS_H
#define ML_THREADS_H

#include "ml.h"

typedef struct ml_pool ml_pool;
/* Called once for every 0 <= worker < workers, by whichever thread is free; all calls end before ml_pool_run
 * does. */
typedef void (*ml_job)(void *context, int worker, int workers);

ml_status ml_pool_create(ml_pool **pool, int workers, ml_error *error);
int ml_pool_workers(const ml_pool *pool);
void ml_pool_run(ml_pool *pool, ml_job job, void *context);
void ml_pool_destroy(ml_pool *pool);
/* min(CPUs this process may use, physical cores, cgroup CPU quota rounded down), at least 1. */
int ml_threads_default(void);
/* The same with /proc and /sys under `root` and CPUs 0 .. usable-1 (0: those of the affinity mask), for
 * tests. */
int ml_threads_detect(const char *root, int usable);

/* The part [*start, *end) of `count` items that `worker` takes, in whole multiples of `grain`. */
void ml_split(int count, int grain, int worker, int workers, int *start, int *end);

#endif
