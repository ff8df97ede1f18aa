/*
 * isa_check.c: CPU features by name. One row of the table is a feature: how it is printed and how it is
 * found. Compiled without ISA flags, also alone (with -DML_ISA_SCALAR) as a probe that can answer for every
 * ISA.
 */
#if !defined(_WIN32)
#define _GNU_SOURCE
#endif
#include "isa_check.h"

#include "ml_config.h"

#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64) || defined(_M_IX86)
#define ML_CPU_X86
#endif

/* The registers of a CPUID leaf. */
enum { EAX, EBX, ECX, EDX };
/* What the system must save at a task switch, as bits of XCR0. */
enum { OS_NONE = 0, OS_AVX = 0x6, OS_AVX512 = 0xe6, OS_AMX = 0x60000 };

typedef struct x86_feature {
    const char *token; /* as in ML_ISA_REQUIRES */
    const char *title;
    uint32_t leaf, subleaf;
    int reg, bit;
    uint32_t os;
} x86_feature;

static const x86_feature x86_features[] = {
    {"SSE2", "SSE2", 1, 0, EDX, 26, OS_NONE},
    {"SSSE3", "SSSE3", 1, 0, ECX, 9, OS_NONE},
    {"SSE41", "SSE4.1", 1, 0, ECX, 19, OS_NONE},
    {"AVX", "AVX", 1, 0, ECX, 28, OS_AVX},
    {"F16C", "F16C", 1, 0, ECX, 29, OS_AVX},
    {"FMA", "FMA", 1, 0, ECX, 12, OS_AVX},
    {"AVX2", "AVX2", 7, 0, EBX, 5, OS_AVX},
    {"AVXVNNI", "AVX-VNNI", 7, 1, EAX, 4, OS_AVX},
    {"AVX512F", "AVX-512F", 7, 0, EBX, 16, OS_AVX512},
    {"AVX512DQ", "AVX-512DQ", 7, 0, EBX, 17, OS_AVX512},
    {"AVX512BW", "AVX-512BW", 7, 0, EBX, 30, OS_AVX512},
    {"AVX512VL", "AVX-512VL", 7, 0, EBX, 31, OS_AVX512},
    {"AVX512VNNI", "AVX-512 VNNI", 7, 0, ECX, 11, OS_AVX512},
    {"AMXTILE", "AMX tiles", 7, 0, EDX, 24, OS_AMX},
    {"AMXINT8", "AMX-INT8", 7, 0, EDX, 25, OS_AMX},
};

static const x86_feature *find_x86(const char *token)
{
    for (size_t i = 0; i < sizeof x86_features / sizeof *x86_features; i++)
        if (strcmp(x86_features[i].token, token) == 0)
            return &x86_features[i];
    return NULL;
}

/* Tests replace these three to describe other CPUs. */
#if defined(ML_CPU_X86) && !defined(ML_CPUID)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* The registers of a leaf; false if this CPU does not have it. */
static bool cpuid(uint32_t leaf, uint32_t subleaf, uint32_t *registers)
{
    return __get_cpuid_count(leaf, subleaf, registers, registers + 1, registers + 2, registers + 3) != 0;
}

/* XCR0: which registers the system saves (only valid where CPUID says OSXSAVE). */
static uint32_t xgetbv(void)
{
    uint32_t low, high;
    __asm__ volatile(".byte 0x0f, 0x01, 0xd0"
                     : "=a"(low), "=d"(high)
                     : "c"(0)); /* old assemblers lack the name */
    return low;
}

/* Tile registers are large, so Linux lets a process use them only after it has asked. */
static bool tiles_granted(void)
{
#if defined(__linux__) && defined(__x86_64__)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return true;
#endif
}

#define ML_CPUID cpuid
#define ML_XGETBV xgetbv
#define ML_TILES_GRANTED tiles_granted
#endif

#if defined(ML_CPUID)

static bool os_saves(uint32_t wanted)
{
    uint32_t registers[4];
    if (wanted == OS_NONE)
        return true;
    bool osxsave = ML_CPUID(1, 0, registers) && (registers[ECX] >> 27 & 1u) != 0;
    if (!osxsave || (ML_XGETBV() & wanted) != wanted)
        return false;
    return wanted != OS_AMX || ML_TILES_GRANTED();
}

static bool has_x86(const x86_feature *feature)
{
    uint32_t registers[4];
    if (feature->subleaf > 0 && (!ML_CPUID(feature->leaf, 0, registers) || registers[EAX] < feature->subleaf))
        return false; /* subleaf 0 tells how many there are */
    return ML_CPUID(feature->leaf, feature->subleaf, registers) &&
           (registers[feature->reg] >> feature->bit & 1u) != 0 && os_saves(feature->os);
}

#else

static bool has_x86(const x86_feature *feature)
{
    (void)feature;
    return false; /* another kind of CPU */
}

#endif

const char *ml_cpu_title(const char *feature)
{
    const x86_feature *found = find_x86(feature);
    return found ? found->title : NULL;
}

ml_status ml_cpu_has(const char *feature)
{
    const x86_feature *found = find_x86(feature);
    if (!found)
        return ML_E_ARGUMENT;
    return has_x86(found) ? ML_OK : ML_E_ISA;
}

ml_status ml_isa_check(const char **missing)
{
    static const char *const required[] = {
#if defined(ML_ISA_REQUIRES)
#define ML_NAME(token) #token,
        ML_ISA_REQUIRES(ML_NAME)
#undef ML_NAME
#endif
            NULL};
    for (const char *const *token = required; *token; token++) {
        ml_status status = ml_cpu_has(*token);
        if (status != ML_OK) {
            const char *title = ml_cpu_title(*token);
            if (missing)
                *missing = title ? title : *token;
            return ML_E_ISA;
        }
    }
    return ML_OK;
}

const char *ml_isa_name(void)
{
    return ML_ISA_NAME;
}
