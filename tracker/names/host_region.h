/*
 * host_region.h - the kind of memory at a host address, for the report on a wrong free.
 *
 * Locks: none.
 */
#ifndef GS_HOST_REGION_H
#define GS_HOST_REGION_H

#include "gs_base.h"

enum gs_host_region {
    GS_HOST_UNKNOWN, /* not mapped, or mapped for an unknown purpose */
    GS_HOST_STACK,   /* of the calling thread, or of the first one */
    GS_HOST_HEAP,
    GS_HOST_DATA, /* of the program or a library: its variables, or its code */
    GS_HOST_REGIONS
};

/* Reads /proc/self/maps once. Allocates nothing; preserves errno. */
enum gs_host_region gs_host_region(uint64_t addr);

#endif
