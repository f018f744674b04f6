/*
 * report.c - gpushim_report.
 * Owns: nothing.   Lock: none.
 */
#include "gpushim.h"

#include "state_file.h"

GS_EXPORT int gpushim_report(const char *state_file)
{
    return gs_state_report(state_file);
}
