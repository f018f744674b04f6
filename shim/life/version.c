/*
 * version.c - the version of the library.
 * Owns:  nothing.   Lock: none.
 */
#include "gs_base.h"
#include "shim/life/copies.h"

GS_EXPORT const char *gpushim_version(void)
{
    return GPUSHIM_VERSION;
}
