/* profile.c: the clock and the stages' names. */
#if !defined(_WIN32)
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#endif
#include "profile.h"

#if defined(_WIN32)
#include <windows.h>

double ml_clock(void)
{
    LARGE_INTEGER count, frequency;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&frequency);
    return (double)count.QuadPart / (double)frequency.QuadPart;
}

#else
#include <time.h>

double ml_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif

const char *ml_profile_stage_name(int32_t stage)
{
    static const char *const names[ML_PROFILE_STAGES] = {"qkv", "attention",  "wo",
                                                         "ffn", "classifier", "other"};
    return stage >= 0 && stage < ML_PROFILE_STAGES ? names[stage] : NULL;
}
