/*
 * location.h - locations of memory as calls name them (CUmemLocation): the values that
 * older headers lack, and which locations there are.
 * Owns: nothing.   Lock: none.
 */
#ifndef SIM_LOCATION_H
#define SIM_LOCATION_H

#include "sim.h"

/* Values of CUmemLocationType and CUmemAllocationType that older headers lack. */
#define SIM_LOCATION_NONE              0
#define SIM_LOCATION_HOST              2
#define SIM_LOCATION_HOST_NUMA         3
#define SIM_LOCATION_HOST_NUMA_CURRENT 4
#define SIM_LOCATION_DOMAIN            6
#define SIM_ALLOCATION_MANAGED         2

/* Drivers from which memory of the host, and pools of it, can be created. */
#define SIM_HOST_NUMA_SINCE 12020
#define SIM_HOST_SINCE      13000
#define SIM_DOMAIN_SINCE    13040

/* Has the machine such a NUMA node? (vmm_physical.c) */
bool sim_numa_node_exists(int id) GS_MUST_USE;

/* The location itself, or the whole device's for the only locality domain of a device:
 * "equivalent to a full-device allocation created with CU_MEM_LOCATION_TYPE_DEVICE". */
static inline CUmemLocation sim_location_of(const CUmemLocation *named, int driver)
{
    const unsigned id = (unsigned)named->id; /* bytes: the device, the domain */

    if ((int)named->type != SIM_LOCATION_DOMAIN || driver < SIM_DOMAIN_SINCE ||
        (id >> 8 & 0xff) != 0)
        return *named;
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)(id & 0xff)};
}

#endif
