/* op_table.c: looking up and listing the ops of generated/ml_ops.c. */
#include "op_table.h"

#include "ml_config.h"

#include <stdio.h>

const ml_op *ml_op_find(const char *name)
{
    for (int i = 0; i < ml_op_count; i++)
        if (strcmp(ml_ops[i].name, name) == 0)
            return &ml_ops[i];
    return NULL;
}

void ml_op_print_bindings(void)
{
    printf("# %s, class %s\n", ML_ISA_NAME, ML_FUSED ? "F (fused multiply-add)" : "U (unfused multiply-add)");
    for (int i = 0; i < ml_op_count; i++)
        printf("%-18s %s\n", ml_ops[i].name, ml_ops[i].kernel);
}
