"""The worker pool in C: each job runs once on every worker, at any speed; the default number of workers."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native import build_library, build_program, write_source

SOURCES = ("core/error.c", "core/threads.c")
# Runs `jobs` jobs and counts what goes wrong; delays between them and inside let either side fall asleep.
PROBE = r"""
#define _GNU_SOURCE
#include "core/threads.h"
#include <stdatomic.h>
#include <time.h>

typedef struct job { atomic_int calls; atomic_ullong seen; int job_delay; } job;

static void wait_us(long us)
{
    if (us > 0)
        nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

static void count(void *context, int worker, int workers)
{
    job *j = context;
    wait_us(worker == workers - 1 ? j->job_delay : 0);
    atomic_fetch_add(&j->calls, 1);
    atomic_fetch_or(&j->seen, 1ull << worker);
}

int32_t run(int32_t workers, int32_t jobs, int32_t caller_delay, int32_t job_delay, char *message)
{
    ml_error error = {0};
    ml_pool *pool;
    ml_status status = ml_pool_create(&pool, workers, &error);
    strcpy(message, error.message);
    if (status != ML_OK)
        return -(int32_t)status;
    int n = ml_pool_workers(pool);
    int32_t wrong = 0;
    for (int i = 0; i < jobs; i++) {
        job j = {.job_delay = job_delay};
        ml_pool_run(pool, count, &j);
        wrong += atomic_load(&j.calls) != n || atomic_load(&j.seen) != (n == 64 ? ~0ull : (1ull << n) - 1);
        wait_us(caller_delay);
    }
    ml_pool_destroy(pool);
    return wrong;
}

int32_t pool_size(int32_t workers)
{
    ml_pool *pool;
    if (ml_pool_create(&pool, workers, NULL) != ML_OK)
        return -1;
    int n = ml_pool_workers(pool);
    ml_pool_destroy(pool);
    return n;
}
"""


@pytest.fixture(scope="module")
def pool() -> ctypes.CDLL:
    return build_library([*SOURCES, write_source("probe_threads.c", PROBE)], extra=("-pthread",))


@pytest.fixture(scope="module")
def single() -> ctypes.CDLL:
    return build_library([*SOURCES, write_source("probe_threads.c", PROBE)], defines=("ML_THREADS=1",))


def run(library: ctypes.CDLL, *arguments: int) -> tuple[int, str]:
    message = ctypes.create_string_buffer(1024)
    return library.run(*arguments, message), message.value.decode()


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_every_worker_runs_every_job_once(pool: ctypes.CDLL, workers: int) -> None:
    assert run(pool, workers, 3000 if workers <= 2 else 200, 0, 0) == (0, "")


@pytest.mark.parametrize(
    ("caller_delay", "job_delay"), [(4000, 0), (0, 4000), (3000, 3000), (300, 0), (0, 300)]
)
@pytest.mark.parametrize("workers", [2, 5])
def test_sleepers_are_woken(pool: ctypes.CDLL, workers: int, caller_delay: int, job_delay: int) -> None:
    assert run(pool, workers, 60, caller_delay, job_delay) == (0, "")


def test_waiting_workers_sleep(pool: ctypes.CDLL) -> None:
    """Three pauses of a second cost next to no CPU time: spinning is bounded."""
    before = os.times()
    assert run(pool, 4, 3, 1_000_000, 0) == (0, "")
    after = os.times()
    assert after.user + after.system - before.user - before.system < 0.5


def test_refuses_odd_sizes(pool: ctypes.CDLL) -> None:
    assert run(pool, 0, 1, 0, 0) == (-7, "threads is 0, must be 1 to 1024")
    assert run(pool, 1025, 1, 0, 0) == (-7, "threads is 1025, must be 1 to 1024")


def test_signals_stay_with_the_caller(tmp_path: Path) -> None:
    """SIGINT sent to the process is handled by the main thread, whatever the workers do."""
    source = write_source(
        "signals.c",
        r"""
#define _GNU_SOURCE
#include "core/threads.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static pthread_t caller;
static volatile sig_atomic_t mine, foreign;
static void handle(int number)
{
    (void)number;
    if (pthread_equal(pthread_self(), caller))
        mine++;
    else
        foreign++;
}
static void work(void *context, int worker, int workers) { (void)context, (void)worker, (void)workers; }
int main(void)
{
    ml_pool *pool;
    caller = pthread_self();
    signal(SIGINT, handle);
    if (ml_pool_create(&pool, 4, NULL) != ML_OK)
        return 9;
    for (int i = 0; i < 200; i++) {
        kill(getpid(), SIGINT);
        ml_pool_run(pool, work, NULL);
    }
    ml_pool_destroy(pool);
    printf("%d %d\n", (int)mine, (int)foreign);
    return 0;
}
""",
    )
    program = build_program([*SOURCES, source], extra=("-pthread",))
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout == "200 0\n"


def test_single_threaded_build_has_no_thread_code(single: ctypes.CDLL) -> None:
    assert run(single, 8, 10, 0, 0) == (0, "")
    assert single.pool_size(8) == 1
    assert single.ml_threads_default() == 1
    assert b"pthread_create" not in Path(single._name).read_bytes()


def test_split_covers_everything_in_grains(pool: ctypes.CDLL) -> None:
    for count in (0, 1, 3, 4, 5, 16, 17, 63, 64, 1000, 2**31 - 1):
        for grain in (1, 4, 16):
            for workers in (1, 2, 3, 7, 64):
                edges = []
                for worker in range(workers):
                    start, end = ctypes.c_int(), ctypes.c_int()
                    pool.ml_split(count, grain, worker, workers, ctypes.byref(start), ctypes.byref(end))
                    edges.append((start.value, end.value))
                assert edges[0][0] == 0
                assert edges[-1][1] == count
                for (_, end_before), (start_after, _) in itertools.pairwise(edges):
                    assert end_before == start_after
                    assert start_after % grain == 0 or start_after == count
                if count <= 1000:
                    sizes = [-(-(end - start) // grain) for start, end in edges]
                    assert max(sizes) - min(sizes) <= 1


# The default number of threads, on made-up systems.


def system(
    root: Path, siblings: list[str] | None = None, cgroup: str = "", files: dict[str, str] | None = None
) -> None:
    """Writes the files of /proc and /sys that matter."""
    everything = {"proc/self/cgroup": cgroup, **(files or {})}
    for cpu, text in enumerate(siblings or []):
        everything[f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"] = text + "\n"
    for name, text in everything.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


HYPERTHREADS = ["0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"]
NEIGHBOURS = ["0-1", "0-1", "2-3", "2-3"]


@pytest.mark.parametrize(
    ("usable", "siblings", "expected"),
    [
        (8, None, 8),  # nothing known about cores
        (8, HYPERTHREADS, 4),
        (4, HYPERTHREADS, 4),  # one thread of each core is allowed
        (6, HYPERTHREADS, 4),
        (2, HYPERTHREADS, 2),
        (4, NEIGHBOURS, 2),
        (3, NEIGHBOURS, 2),
        (1, NEIGHBOURS, 1),
        (4, ["0-3"] * 4, 1),
    ],
)
def test_default_counts_physical_cores(
    pool: ctypes.CDLL, tmp_path: Path, usable: int, siblings: list[str] | None, expected: int
) -> None:
    system(tmp_path, siblings)
    assert pool.ml_threads_detect(str(tmp_path).encode(), usable) == expected


V2, V1 = "0::/a/b\n", "12:cpuset:/\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/docker/x\n"
CPU1 = "sys/fs/cgroup/cpu"


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        (V2, {}, 8),
        (V2, {"sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 8),
        (V2, {"sys/fs/cgroup/a/b/cpu.max": "350000 100000\n"}, 3),
        (V2, {"sys/fs/cgroup/a/b/cpu.max": "50000 100000\n"}, 1),
        (V2, {"sys/fs/cgroup/a/b/cpu.max": "1600000 100000\n"}, 8),
        (V2, {"sys/fs/cgroup/a/cpu.max": "200000 100000\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 2),
        (
            V2,
            {"sys/fs/cgroup/a/cpu.max": "200000 100000\n", "sys/fs/cgroup/a/b/cpu.max": "500000 100000\n"},
            2,
        ),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "500000 100000\n"}, 5),  # a container sees its own root
        ("0::/../x\n", {"sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        (V2, {"sys/fs/cgroup/a/b/cpu.max": "nonsense\n"}, 8),
        (
            V1,
            {f"{CPU1}/docker/x/cpu.cfs_quota_us": "-1\n", f"{CPU1}/docker/x/cpu.cfs_period_us": "100000\n"},
            8,
        ),
        (
            V1,
            {
                f"{CPU1}/docker/x/cpu.cfs_quota_us": "250000\n",
                f"{CPU1}/docker/x/cpu.cfs_period_us": "100000\n",
            },
            2,
        ),
        (V1, {f"{CPU1}/cpu.cfs_quota_us": "300000\n", f"{CPU1}/cpu.cfs_period_us": "100000\n"}, 3),
        (V1, {f"{CPU1}/cpu.cfs_quota_us": "300000\n"}, 8),
        (V1, {"sys/fs/cgroup/docker/x/cpu.max": "100000 100000\n"}, 8),  # v2's file means nothing to v1
    ],
)
def test_default_respects_cgroup_quotas(
    pool: ctypes.CDLL, tmp_path: Path, cgroup: str, files: dict[str, str], expected: int
) -> None:
    system(tmp_path, [str(cpu) for cpu in range(8)], cgroup, files)
    assert pool.ml_threads_detect(str(tmp_path).encode(), 8) == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs an affinity mask")
def test_default_respects_affinity(pool: ctypes.CDLL) -> None:
    default = pool.ml_threads_default()
    assert 1 <= default <= len(os.sched_getaffinity(0))
    code = (
        "import ctypes, os, sys; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
        "sys.exit(ctypes.CDLL(sys.argv[1]).ml_threads_default())"
    )
    assert subprocess.run([sys.executable, "-c", code, pool._name], check=False).returncode == 1


def test_interrupting_is_possible() -> None:
    """The pool leaves the caller's own signal mask as it was."""
    library = build_library([*SOURCES, write_source("probe_threads.c", PROBE)], extra=("-pthread",))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert library.pool_size(3) == 3
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
