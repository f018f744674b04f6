/*
 * pooled_memory.h - the pool's memory around an address of the program.
 */
#ifndef GS_POOLED_MEMORY_H
#define GS_POOLED_MEMORY_H

#include "shim/host/managed.h"
#include "shim/order/capture_check.h"
#include "shim/state/state.h"

/* The device memory around an address. Errors: GS_ERR_NOT_OURS */
enum gs_status gs_pooled_find(struct gs_state *state, CUdeviceptr address,
                              struct gs_range *out) GS_MUST_USE;

/*
 * The allocation around an address, if it is device, pinned or managed memory of the
 * pools.
 * Errors: GS_ERR_NOT_FOUND  the memory has no owner: freed, or never allocated
 *         GS_ERR_NOT_OURS   the driver's own, or none
 */
enum gs_status gs_pooled_extent(struct gs_state *state, CUdeviceptr address,
                                struct gs_extent *out) GS_MUST_USE;

/* An address unknown to every driver: its answers are those for memory without an
 * owner. */
extern const char gs_unknown_address[1];

/* The address for a query to the driver: gs_unknown_address in place of an address in
 * memory that the library keeps to itself. */
static inline CUdeviceptr gs_pooled_asked(CUdeviceptr address)
{
    return GS_UNLIKELY(gs_capture_check_owns(address))
               ? (CUdeviceptr)(uintptr_t)gs_unknown_address
               : address;
}

/* From now on the segment around the address serves no further allocation. Ignores an
 * address outside the pool. */
void gs_pooled_retain(struct gs_state *state, CUdeviceptr address);

/* Returns true if an address belongs to a live block of the range: natively, memory
 * beyond the requested bytes belongs to no allocation. */
static inline bool gs_pooled_is_live(const struct gs_range *range, CUdeviceptr address)
{
    return range->live && address - range->block_addr < range->requested_bytes;
}

#endif
