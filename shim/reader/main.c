/*
 * main.c - the program gpushim-report, which the launcher runs for `gpushim report`.
 * Owns: nothing.   Lock: none.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "state_open.h"
#include "stderr.h"

int main(int argc, char **argv)
{
    bool summary = argc > 1 && strcmp(argv[1], "--summary") == 0;
    int status = 0;
    gs_stderr_remember();
    if (argc < 2 || (summary && argc < 3)) {
        fprintf(stderr, "usage: gpushim report [--summary] STATE_FILE...\n");
        return 2;
    }
    if (summary) {
        return gs_state_summary(argv + 2, (size_t)argc - 2);
    }
    for (int i = 1; i < argc; i++) {
        int one = gs_state_report(argv[i]);
        status = one > status ? one : status;
    }
    return status;
}
