/* memory.c: physical memory and control group limits. */
#if !defined(_WIN32)
#define _GNU_SOURCE /* _SC_PHYS_PAGES */
#endif
#include "memory.h"

#if defined(_WIN32)
#include <windows.h>

uint64_t ml_memory_total(void)
{
    MEMORYSTATUSEX status = {.dwLength = sizeof status};
    return GlobalMemoryStatusEx(&status) ? status.ullTotalPhys : 0;
}

#elif defined(__unix__) || defined(__APPLE__)
#include <stdio.h>
#include <unistd.h>

/* The limit in a control group's file; 0 if there is none ("max", or no such file). */
static uint64_t limit_in(const char *path)
{
    unsigned long long limit = 0;
    FILE *stream = fopen(path, "r");
    if (!stream)
        return 0;
    if (fscanf(stream, "%llu", &limit) != 1)
        limit = 0;
    fclose(stream);
    return limit;
}

uint64_t ml_memory_total(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t total = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
    const char *const limits[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        uint64_t limit = limit_in(limits[i]);
        if (limit > 0 && (total == 0 || limit < total))
            total = limit;
    }
    return total;
}

#else

uint64_t ml_memory_total(void)
{
    return 0;
}

#endif
