/*
 * main_guard.c: main of every executable. Compiled without ISA flags, like isa_check.c: no instruction of the
 * ISA can run before the CPU is known to have it, not even in the prologue of a function.
 */
#include "main_guard.h"

#include "core/isa_check.h"

#include <stdio.h>

#if defined(_WIN32)
#include <windows.h>
#include <fcntl.h>
#include <io.h>
#include <shellapi.h>
#include <stdlib.h>

/* Windows hands over UTF-16; everything here speaks UTF-8, and text keeps its line ends. */
static char **utf8_arguments(int *argc)
{
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), argc);
    char **argv = wide ? calloc((size_t)*argc + 1, sizeof *argv) : NULL;
    for (int i = 0; argv && i < *argc; i++) {
        int bytes = WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, NULL, 0, NULL, NULL);
        argv[i] = malloc((size_t)bytes);
        if (!argv[i])
            return NULL;
        WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, argv[i], bytes, NULL, NULL);
    }
    return argv;
}

static char **prepare_system(int *argc, char **argv)
{
    SetConsoleOutputCP(CP_UTF8);
    _setmode(_fileno(stdout), _O_BINARY);
    _setmode(_fileno(stdin), _O_BINARY);
    char **converted = utf8_arguments(argc);
    return converted ? converted : argv;
}
#else
static char **prepare_system(int *argc, char **argv)
{
    (void)argc;
    return argv;
}
#endif

int main(int argc, char **argv)
{
    const char *missing = NULL;
    if (ml_isa_check(&missing) != ML_OK) {
        fprintf(stderr, "%s: this CPU lacks %s, which the %s build needs\n", argc > 0 ? argv[0] : "krafla",
                missing, ml_isa_name());
        return ML_EXIT_ISA;
    }
    argv = prepare_system(&argc, argv);
    return ml_main(argc, argv);
}
