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
#define SIM_ALLOCATION_MANAGED         2

/* Drivers from which memory of the host, and pools of it, can be created. */
#define SIM_HOST_NUMA_SINCE 12020
#define SIM_HOST_SINCE      13000

/* Has the machine such a NUMA node? (vmm_physical.c) */
bool sim_numa_node_exists(int id) GS_MUST_USE;

#endif
