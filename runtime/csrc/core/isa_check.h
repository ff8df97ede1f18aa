/* isa_check.h: does this CPU (and its system) have what the build needs? Compiled without ISA flags. */
#ifndef ML_ISA_CHECK_H
#define ML_ISA_CHECK_H

#include "ml.h"

/* ML_OK, or ML_E_ISA with *missing naming the first missing feature (a string constant). */
ML_API ml_status ml_isa_check(const char **missing);
/* The ISA this library was built for, e.g. "avx2". */
ML_API const char *ml_isa_name(void);

/* A feature by its name in ML_ISA_REQUIRES ("AVX512VNNI"): ML_OK, ML_E_ISA if missing, ML_E_ARGUMENT if
 * unknown. */
ML_API ml_status ml_cpu_has(const char *feature);
/* How a feature is written for people ("AVX-512 VNNI"), or NULL if unknown. */
ML_API const char *ml_cpu_title(const char *feature);

#endif
