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
#elif defined(__aarch64__) || defined(__arm__)
#define ML_CPU_ARM
#elif defined(__riscv)
#define ML_CPU_RISCV
#elif defined(__wasm_simd128__)
#define ML_CPU_WASM_SIMD
#endif
#if (defined(ML_CPU_ARM) || defined(ML_CPU_RISCV)) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(ML_CPU_ARM) && defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(ML_CPU_ARM) && defined(_WIN32)
#include <windows.h>
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

/* Where the system says that a CPU of another kind has a feature. */
typedef struct other_feature {
    const char *token;
    const char *title;
    int hwcap;             /* Linux, 64 bits: bit of AT_HWCAP, 100 + bit of AT_HWCAP2 */
    int hwcap32;           /* Linux, 32 bits; -1: no such CPU has it */
    const char *sysctl;    /* macOS; "" for what every such CPU has, NULL for what none has */
    unsigned long windows; /* IsProcessorFeaturePresent; 0: unknown there */
} other_feature;

static const other_feature arm_features[] = {
    {"NEON", "NEON", 1, 12, "", 19},
    {"DOTPROD", "the dot product extension", 20, -1, "hw.optional.arm.FEAT_DotProd", 43},
    {"I8MM", "the int8 matrix extension", 113, -1, "hw.optional.arm.FEAT_I8MM", 66},
    {"SVE", "SVE", 22, -1, NULL, 46},
};
static const other_feature riscv_features[] = {
    {"RVV", "the vector extension (V 1.0)", 'V' - 'A', 'V' - 'A', NULL, 0},
};
static const other_feature wasm_features[] = {
    {"SIMD128", "128-bit SIMD", -1, -1, NULL, 0},
};

#define ML_COUNT(table) (sizeof(table) / sizeof *(table))

static const x86_feature *find_x86(const char *token)
{
    for (size_t i = 0; i < ML_COUNT(x86_features); i++)
        if (strcmp(x86_features[i].token, token) == 0)
            return &x86_features[i];
    return NULL;
}

static const other_feature *find_in(const other_feature *table, size_t count, const char *token)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].token, token) == 0)
            return &table[i];
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

#if defined(ML_CPU_ARM) || defined(ML_CPU_RISCV)

/* What the system says of a feature of this kind of CPU. */
static bool system_has(const other_feature *feature)
{
#if defined(__linux__)
    int bit = sizeof(void *) == 4 ? feature->hwcap32 : feature->hwcap;
    if (bit < 0)
        return false;
    unsigned long bits = getauxval(bit >= 100 ? AT_HWCAP2 : AT_HWCAP);
    return (bits >> (bit % 100) & 1ul) != 0;
#elif defined(__APPLE__)
    int32_t present = 0;
    size_t size = sizeof present;
    if (!feature->sysctl)
        return false;
    return !*feature->sysctl || (sysctlbyname(feature->sysctl, &present, &size, NULL, 0) == 0 && present);
#elif defined(_WIN32)
    return feature->windows && IsProcessorFeaturePresent((DWORD)feature->windows);
#else
    (void)feature;
    return true; /* nobody to ask: the build's configuration is trusted */
#endif
}

#endif

static bool has_arm(const other_feature *feature)
{
#if defined(ML_CPU_ARM)
    return system_has(feature);
#else
    (void)feature;
    return false;
#endif
}

static bool has_riscv(const other_feature *feature)
{
#if defined(ML_CPU_RISCV)
    return system_has(feature);
#else
    (void)feature;
    return false;
#endif
}

/* A module with SIMD does not even load where it is missing. */
static bool has_wasm(const other_feature *feature)
{
    (void)feature;
#if defined(ML_CPU_WASM_SIMD)
    return true;
#else
    return false;
#endif
}

/* A feature's title, and whether this CPU has it; NULL if there is no feature of that name. */
static const char *look_up(const char *token, bool *present)
{
    const x86_feature *x86 = find_x86(token);
    if (x86) {
        *present = has_x86(x86);
        return x86->title;
    }
    const struct {
        const other_feature *table;
        size_t count;
        bool (*has)(const other_feature *);
    } kinds[] = {
        {arm_features, ML_COUNT(arm_features), has_arm},
        {riscv_features, ML_COUNT(riscv_features), has_riscv},
        {wasm_features, ML_COUNT(wasm_features), has_wasm},
    };
    for (size_t i = 0; i < ML_COUNT(kinds); i++) {
        const other_feature *other = find_in(kinds[i].table, kinds[i].count, token);
        if (other) {
            *present = kinds[i].has(other);
            return other->title;
        }
    }
    return NULL;
}

const char *ml_cpu_title(const char *feature)
{
    bool present;
    return look_up(feature, &present);
}

ml_status ml_cpu_has(const char *feature)
{
    bool present;
    if (!look_up(feature, &present))
        return ML_E_ARGUMENT;
    return present ? ML_OK : ML_E_ISA;
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
