/* memory.h: how much memory this process may use. */
#ifndef ML_MEMORY_H
#define ML_MEMORY_H

#include "ml.h"

/* Physical memory, or less if a control group limits this process; 0 if the system does not say. */
uint64_t ml_memory_total(void);

#endif
