/*
 * gpushim_report.c - the program gpushim-report, which the launcher runs for `gpushim
 * report`.
 * Owns: nothing.   Lock: none.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "gpushim.h"

int main(int argc, char **argv)
{
    bool summary = argc > 1 && strcmp(argv[1], "--summary") == 0;
    int status = 0;

    if (argc < 2 || (summary && argc < 3)) {
        fprintf(stderr, "usage: gpushim report [--summary] STATE_FILE...\n");
        return 2;
    }
    if (summary)
        return gpushim_summary(argv + 2, (size_t)argc - 2);
    for (int i = 1; i < argc; i++) {
        int one = gpushim_report(argv[i]);

        status = one > status ? one : status;
    }
    return status;
}
