/*
 * report.c - gpushim_report, gpushim_summary.
 * Owns: nothing.   Lock: none.
 */
#include "gpushim.h"

#include "state_file.h"

GS_EXPORT int gpushim_report(const char *state_file)
{
    return gs_state_report(state_file);
}

GS_EXPORT int gpushim_summary(char *const state_files[], size_t count)
{
    return gs_state_summary(state_files, count);
}
