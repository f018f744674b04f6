/*
 * location.h - where a location of a call (CUmemLocation) is.
 * Owns: nothing.   Lock: none.
 * Source: cuda.h of CUDA 13.5
 */
#ifndef GS_LOCATION_H
#define GS_LOCATION_H

#include <cuda.h>

#include "gs_base.h"

/* Values of CUmemLocationType that older headers lack. */
enum {
    GS_LOCATION_NONE = 0, /* no preferred location */
    GS_LOCATION_DEVICE = 1,
    GS_LOCATION_HOST = 2,
    GS_LOCATION_HOST_NUMA = 3,
    GS_LOCATION_HOST_NUMA_CURRENT = 4,
    GS_LOCATION_INVISIBLE = 5, /* of a device that this process cannot see */
    GS_LOCATION_DOMAIN = 6     /* a part of a device's memory */
};

/*
 * The device whose memory a location names; -1: the host's memory. A type that this
 * library does not know is not taken for the host's.
 * In:  unknown  the answer for such a type
 */
static inline int gs_location_device(const CUmemLocation *location, int unknown)
{
    switch ((int)location->type) {
    case GS_LOCATION_DEVICE:
        return location->id;
    case GS_LOCATION_DOMAIN: /* the first byte; the second one is the domain */
        return (int)((unsigned)location->id & 0xff);
    case GS_LOCATION_NONE:
    case GS_LOCATION_HOST:
    case GS_LOCATION_HOST_NUMA:
    case GS_LOCATION_HOST_NUMA_CURRENT:
        return -1;
    default:
        return unknown;
    }
}

#endif
