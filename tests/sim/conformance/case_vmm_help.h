/*
 * case_vmm_help.h - what the cases of virtual memory management share: memory,
 * reservations and mappings of the device's own granularity.
 */
#ifndef GS_CASE_VMM_HELP_H
#define GS_CASE_VMM_HELP_H

#include "conformance.h"

/* False, with the reason told, where the device has no virtual memory management. */
bool vmm_there(void);
#define VMM_CASE(label, ...) CASE_WHERE(vmm_there, vmm, label, __VA_ARGS__)

/* Pinned memory of the device, by whatever types it is to be exported. */
CUmemAllocationProp vmm_prop(unsigned handle_types);

/* The smallest granularity of such memory. */
size_t vmm_granularity(void);

/* Memory of so many granules, 0 if there is none (which is a failed check). */
CUmemGenericAllocationHandle vmm_memory(size_t granules);

/* Addresses for so many granules. */
CUdeviceptr vmm_reserve(size_t granules);

/* Set what the device may do in so many granules. */
CUresult vmm_allow(CUdeviceptr address, size_t granules, CUmemAccess_flags flags);

/* New memory, mapped at a new address and open to the device; its handle is released. */
CUdeviceptr vmm_get(size_t granules);

/* One mapping after the other in one reservation of one granule more, each of a granule
 * with memory of its own. */
CUdeviceptr vmm_get_row(size_t mappings);

/* Unmap and free what vmm_get or vmm_get_row gave: `reserved` granules in all. */
void vmm_put(CUdeviceptr address, size_t mapped, size_t reserved);

/* The word at an address, by a copy. */
uint32_t vmm_word(CUdeviceptr address);

/* Set words and wait until they are set. */
void vmm_set(CUdeviceptr address, uint32_t value, size_t words);

#endif
