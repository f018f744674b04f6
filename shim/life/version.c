/*
 * version.c - the version of the library.
 * Owns:  nothing.   Lock: none.
 */
#include "copies.h"
#include "gs_base.h"

GS_EXPORT const char *gpushim_version(void)
{
    return GPUSHIM_VERSION;
}
