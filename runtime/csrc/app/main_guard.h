/* main_guard.h: what a program of this folder defines. main itself is in main_guard.c, without ISA flags. */
#ifndef ML_MAIN_GUARD_H
#define ML_MAIN_GUARD_H

/* Exit codes: those of the krafla command. */
enum {
    ML_EXIT_OK = 0,
    ML_EXIT_INTERNAL = 1,
    ML_EXIT_USAGE = 2,
    ML_EXIT_ISA = 3,
    ML_EXIT_IO = 4,
    ML_EXIT_FORMAT = 5,
    ML_EXIT_SHAPE = 6,
    ML_EXIT_NOMEM = 7,
    ML_EXIT_INTERRUPTED = 130
};

/* The program; called once the CPU is known to have the build's ISA. Arguments are UTF-8. */
int ml_main(int argc, char **argv);

#endif
