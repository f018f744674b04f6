/*
 * lookup_log.c - the log of symbol look-ups.
 * Owns:  the file.   Lock: none; it is opened once, by start-up.
 */
#include "shim/link/lookup_log.h"

#include <stdio.h>

#include "gs_printable.h"
#include "shim/settings/log.h"

static struct gs_log_file lookup_log; /* immutable after start */

void gs_lookup_log_open(const char *pattern)
{
    gs_log_file_open(&lookup_log, "GPUSHIM_LOOKUP_LOG", pattern);
}

void gs_lookup_log_function(const char *name, int version, cuuint64_t flags, bool ours)
{
    char line[256];
    if (!gs_log_file_used(&lookup_log)) {
        return;
    }
    int length = snprintf(line, sizeof(line), "%s %d %llu -> %s", name[0] ? name : "\"\"",
                          version, (unsigned long long)flags, ours ? "ours" : "driver");
    if (length > 0 && (size_t)length < sizeof(line)) {
        gs_make_printable(line, false);
        line[length++] = '\n'; /* in the place of the NUL */
        gs_log_file_write(&lookup_log, line, (size_t)length);
    }
}

void gs_lookup_log_table(const char *guid, CUresult result)
{
    char line[96];
    if (gs_log_file_used(&lookup_log)) {
        int length = snprintf(line, sizeof(line), "cuGetExportTable %s %d -> driver\n",
                              guid, (int)result);
        gs_log_file_write(&lookup_log, line, (size_t)length);
    }
}
