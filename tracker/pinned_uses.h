/*
 * pinned_uses.h - which call sites allocate pinned memory that nothing on the device
 * uses.
 *
 * The caller reports the memory, and what copies and kernels name. A use of any byte is a
 * use of the allocation, and a used allocation clears its call site. As soon as a kernel
 * may reach memory that no call names, nothing is known any more.
 *
 * Locks: any thread may call any function; locking is internal.
 */
#ifndef GS_PINNED_USES_H
#define GS_PINNED_USES_H

#include "tracker/tracker.h"

/* The call sites and the live allocations that are distinguished. With more of either
 * nothing is known. */
#define GS_PINNED_SITES 256u
#define GS_PINNED_LIVE  1024u
/* Less at a call site is not worth a word. */
#define GS_PINNED_BYTES (16 * GS_MIB)

struct gs_pinned_site {
    uint32_t
        stack; /* the key; 0: none; then the allocations of a call are one call site */
    uint16_t api;
    uint64_t count, bytes;
    uint64_t used_count;
};

struct gs_pinned_uses;

/* NULL: no memory. Lives as long as the process. */
struct gs_pinned_uses *gs_pinned_uses_create(void);

void gs_pinned_uses_add(struct gs_pinned_uses *uses,
                        const struct gs_allocation *allocation);
/* The memory at this address is freed; ignored if it is none. */
void gs_pinned_uses_end(struct gs_pinned_uses *uses, uint64_t addr);

/* Returns true if there is live memory: else uses need not be reported. */
bool gs_pinned_uses_wanted(struct gs_pinned_uses *uses);
/* A copy or a set uses memory that begins here. */
void gs_pinned_uses_mark(struct gs_pinned_uses *uses, uint64_t addr);
/* The device receives these bytes. If the address of live memory is among them, kernels
 * may find there the address of any other: then gives up. */
void gs_pinned_uses_search(struct gs_pinned_uses *uses, const void *words, size_t bytes);
/* The same for memory of the program, which may not be readable: then gives up, too. */
void gs_pinned_uses_read(struct gs_pinned_uses *uses, uint64_t addr, size_t bytes);
/* Uses may go unseen: there are no unused call sites, ever. */
void gs_pinned_uses_give_up(struct gs_pinned_uses *uses);

/* The call sites without a use, of GS_PINNED_BYTES at least, the largest first; and the
 * bytes of all. The caller frees `sites`; without memory there are none. */
struct gs_pinned_list {
    struct gs_pinned_site *sites;
    size_t count;
    uint64_t bytes;
};
struct gs_pinned_list gs_pinned_uses_copy(struct gs_pinned_uses *uses);

#endif
