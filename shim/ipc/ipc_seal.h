/*
 * ipc_seal.h - an IPC handle for memory inside a driver allocation: the driver's own
 * handle, and an offset.
 *
 * The driver's handle for any pointer leads to the start of the whole allocation, and has
 * no bytes that are known to be free. So a sealed handle stores the non-zero bytes of the
 * driver's handle with a map of their positions, after a signature of the library. It is
 * complete without help from the exporting process, and a driver that gets a sealed
 * handle rejects it as invalid.
 *
 * Owns: nothing.   Lock: none.   Design: docs/ipc.md, "Sealed handles"
 */
#ifndef GS_IPC_SEAL_H
#define GS_IPC_SEAL_H

#include "shim/cuda/cuda_names.h"

struct gs_sealed {
    CUipcMemHandle driver; /* of the allocation */
    uint64_t offset;       /* bytes from its start */
    uint64_t bytes;        /* from there, as the program requested */
};

/* The most non-zero bytes that the driver's handle may have. */
#define GS_SEAL_ROOM 40u

/* The largest sealed block. Larger blocks never share a driver allocation: the driver's
 * own handle names them. */
#define GS_SEAL_MAX_BYTES UINT32_MAX

/*
 * In:      offset a multiple of 512 below 2 TiB, bytes up to GS_SEAL_MAX_BYTES
 * Errors:  GS_ERR_INVALID  an argument is out of range, or the driver's handle has more
 *                          than GS_SEAL_ROOM bytes that are not zero
 */
enum gs_status gs_ipc_seal(const struct gs_sealed *sealed,
                           CUipcMemHandle *out) GS_MUST_USE;

/* Errors:  GS_ERR_NOT_OURS  not a sealed handle: a driver's own, or damaged */
enum gs_status gs_ipc_unseal(const CUipcMemHandle *handle,
                             struct gs_sealed *out) GS_MUST_USE;

#endif
