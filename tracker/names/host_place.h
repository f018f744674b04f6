/*
 * host_place.h - the kind of memory at a host address, for the report on a wrong free.
 *
 * Locks: none.
 */
#ifndef GS_HOST_PLACE_H
#define GS_HOST_PLACE_H

#include "gs_base.h"

enum gs_host_place {
    GS_HOST_UNKNOWN, /* not mapped, or mapped for an unknown purpose */
    GS_HOST_STACK,   /* of the calling thread, or of the first one */
    GS_HOST_HEAP,
    GS_HOST_DATA, /* of the program or a library: its variables, or its code */
    GS_HOST_PLACES
};

/* Reads /proc/self/maps once. Allocates nothing; preserves errno. */
enum gs_host_place gs_host_place(uint64_t addr);

#endif
