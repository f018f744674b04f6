/*
 * page_state.h - the state of the pages of pinned and managed memory: protection, guards,
 * what a forked child and a core dump get, memory locks, NUMA policy, and advice on how
 * they are read.
 *
 * A program may change the state of its memory (mprotect, madvise, mlock, mbind;
 * InfiniBand libraries do). Natively the state ends with the memory, because the free
 * unmaps it. Memory that the pool reuses gets the state back that the driver gave it.
 */
#ifndef GS_PAGE_STATE_H
#define GS_PAGE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A set of these is the state that the driver gave to its mappings. */
enum gs_page_state {
    GS_PAGES_KNOWN = 1,    /* without it the state could not be read */
    GS_PAGES_NO_FORK = 2,  /* a child does not get them (VM_DONTCOPY) */
    GS_PAGES_WIPED = 4,    /* a child gets zeros (VM_WIPEONFORK) */
    GS_PAGES_NO_DUMP = 8,  /* not in a core dump (VM_DONTDUMP) */
    GS_PAGES_LOCKED = 16,  /* mlock (VM_LOCKED) */
    GS_PAGES_PRIVATE = 32, /* anonymous and private: no file's */
    GS_PAGES_READ = 64,    /* read in another order (VM_RAND_READ, VM_SEQ_READ) */
    GS_PAGES_MERGED = 128, /* equal pages become one (VM_MERGEABLE) */
};

/*
 * Reads the state of the mapping around an address of the process.
 * In:     addr   of a mapping that the driver has just made
 * Out:    a set of gs_page_state; 0 if /proc/self/smaps cannot be read or has no such
 *         mapping
 * Cost:   the kernel walks the process's page tables: milliseconds. Call once a kind of
 *         mapping.
 * Locks:  none; keeps errno and acts at no cancellation point
 */
unsigned gs_page_state_read(uint64_t addr);

/*
 * Restores the state in which the driver returned the memory. Unknown states (0) are
 * left, but for the protection. Where the driver's mappings are private, a program that
 * has mapped a file over the memory is found out: the next owner's bytes would end in the
 * file.
 * In:     addr, bytes  whole pages; nobody uses them
 *         made         from gs_page_state_read
 * Out:    false: the state cannot be restored (a NUMA policy has already placed the
 *         pages; a file is mapped there; the kernel refused): free the memory to the
 *         driver
 * Cost:   nine system calls, and one for each 2 MiB
 * Locks:  none; keeps errno
 */
bool gs_page_state_restore(uint64_t addr, size_t bytes, unsigned made);

/*
 * Lets the CPU read and write pages that a program may have protected: the smallest part
 * of a restore, for memory whose other state costs more to restore than to leave.
 * In:     addr, bytes  whole pages; nobody uses them
 * Out:    false: no access (unmapped, or the kernel refused): free the memory to the
 *         driver
 * Cost:   two system calls   Locks:  none; keeps errno
 */
bool gs_page_state_give_access(uint64_t addr, size_t bytes);

#endif
