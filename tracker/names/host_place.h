/*
 * host_place.h - what an address of the host's is, for the report on a wrong free.
 *
 * Locks: none.
 */
#ifndef GS_HOST_PLACE_H
#define GS_HOST_PLACE_H

#include "gs_base.h"

enum gs_host_place {
    GS_HOST_UNKNOWN, /* not mapped, or mapped by somebody for no known reason */
    GS_HOST_STACK,   /* of the calling thread, or of the first one */
    GS_HOST_HEAP,
    GS_HOST_DATA, /* of the program or a library: its own variables, or its code */
    GS_HOST_PLACES
};

/* One look at /proc/self/maps. Allocates nothing; preserves errno. */
enum gs_host_place gs_host_place(uint64_t addr);

#endif
