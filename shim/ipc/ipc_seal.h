/*
 * ipc_seal.h - a handle of memory that lies inside a driver allocation, for another
 * process: the driver's own handle, and where in it.
 *
 * The driver's handle of any pointer leads to the start of its whole allocation, and has
 * no room that is known to be free. So its bytes that are not zero are packed, with a map
 * of where they stood, behind a mark of ours: the whole needs no help from the process
 * that made it, and a driver that is given it finds nothing it could take for a handle.
 *
 * Owns: nothing.   Lock: none.   Design: docs/ipc.md, "Sealed handles"
 */
#ifndef GS_IPC_SEAL_H
#define GS_IPC_SEAL_H

#include "cuda_names.h"

struct gs_sealed {
    CUipcMemHandle driver; /* of the allocation */
    uint64_t offset;       /* bytes into it */
    uint64_t bytes;        /* from there, as the program asked for them */
};

/* The most bytes of the driver's handle that may be other than zero. */
#define GS_SEAL_ROOM 40u

/* The most bytes that a sealed block may have. Larger ones never share a driver
 * allocation: its own handle is theirs. */
#define GS_SEAL_MAX_BYTES UINT32_MAX

/*
 * In:      offset a multiple of 512 below 2 TiB, bytes up to GS_SEAL_MAX_BYTES
 * Errors:  GS_ERR_INVALID  one of these does not hold, or the driver's handle has more
 *                          than GS_SEAL_ROOM bytes that are not zero
 */
enum gs_status gs_ipc_seal(const struct gs_sealed *sealed,
                           CUipcMemHandle *out) GS_MUST_USE;

/* Errors:  GS_ERR_NOT_OURS  it is none of these: a driver's own, or damaged */
enum gs_status gs_ipc_unseal(const CUipcMemHandle *handle,
                             struct gs_sealed *out) GS_MUST_USE;

#endif
