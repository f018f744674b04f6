/*
 * shared.h - devices whose memory several processes share.
 *
 * Processes with the same CUDASIM_SHARED have the same devices: what one holds, the
 * others cannot get, and cuMemGetInfo says so. Only amounts are shared, no contents. A
 * file has a record for each process. A process that ends in any way holds nothing any
 * more: its record counts while it holds a lock on a byte of the file, which the kernel
 * takes away with the process.
 *
 * Owns: the file's mapping, this process's record.
 * Lock: a mutex, and the file's first byte, for all of the file.
 */
#ifndef SIM_SHARED_H
#define SIM_SHARED_H

#include <stdbool.h>
#include <stddef.h>

#include "gs_base.h"

/* Called by cuInit. A file that cannot be used gets a line, and is not. */
void sim_shared_open(void);

/* All count units of 2 MiB. Without CUDASIM_SHARED there are no others, and all succeeds.
 */

/* Takes units of a device, of which all processes together may hold `most`. */
bool sim_shared_take(int device, size_t units, size_t most) GS_MUST_USE;
void sim_shared_give(int device, size_t units);
/* What other processes hold. */
size_t sim_shared_others(int device);

/* A checkpoint: what this process holds of all devices is free for others. */
void sim_shared_leave(void);
/* It wants all of it back; false, and nothing changes, if others hold too much. */
bool sim_shared_return(size_t most) GS_MUST_USE;

#endif
