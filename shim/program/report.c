/*
 * report.c - the program gpushim-report, which the launcher runs for `gpushim report`.
 * Owns: nothing.   Lock: none.
 */
#include <stdio.h>
#include <string.h>

#include "gpushim.h"

int main(int argc, char **argv)
{
    int status = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: gpushim report [--summary] STATE_FILE...\n");
        return 2;
    }
    if (strcmp(argv[1], "--summary") == 0)
        return gpushim_summary(argv + 2, (size_t)argc - 2);
    for (int i = 1; i < argc; i++) {
        int one = gpushim_report(argv[i]);

        status = one > status ? one : status;
    }
    return status;
}
