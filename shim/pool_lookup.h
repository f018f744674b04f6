/*
 * pool_lookup.h - which of the pool's memory an address of the program's means.
 */
#ifndef GS_POOL_LOOKUP_H
#define GS_POOL_LOOKUP_H

#include "free_permit.h"
#include "managed.h"
#include "state.h"

/* Where an address of device memory lies. Errors: GS_ERR_NOT_OURS */
enum gs_status gs_pooled_find(struct gs_state *state, CUdeviceptr address,
                              struct gs_range *out) GS_MUST_USE;

/*
 * The allocation around an address, if it is device, pinned or managed memory that the
 * pool hands out.
 * Errors: GS_ERR_NOT_FOUND  the memory is nobody's: freed, or never asked for
 *         GS_ERR_NOT_OURS   the driver's own, or none
 */
enum gs_status gs_pooled_extent(struct gs_state *state, CUdeviceptr address,
                                struct gs_extent *out) GS_MUST_USE;

/* An address that no driver knows: what it says of it, it says of memory that is
 * nobody's.
 */
extern const char gs_nobodys[1];

/* The address that the driver is asked about: nobody's in place of one in memory that the
 * library keeps to itself. */
static inline CUdeviceptr gs_pooled_asked(CUdeviceptr address)
{
    return GS_UNLIKELY(gs_permit_owns(address)) ? (CUdeviceptr)(uintptr_t)gs_nobodys
                                                : address;
}

/* From now on its segment serves its present allocations only. Nothing for an address
 * that is not the pool's. */
void gs_pooled_retain(struct gs_state *state, CUdeviceptr address);

/* Whether an address means a live block of that range: natively, what lies beyond the
 * bytes that were asked for belongs to nobody. */
static inline bool gs_pooled_is_live(const struct gs_range *range, CUdeviceptr address)
{
    return range->live && address - range->block_addr < range->requested_bytes;
}

#endif
