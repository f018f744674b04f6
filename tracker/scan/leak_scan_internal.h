/*
 * leak_scan_internal.h - the parts of a scan: what is looked for, where, and by whom.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_LEAK_SCAN_INTERNAL_H
#define GS_LEAK_SCAN_INTERNAL_H

#include "leak_scan.h"

/* What was seen of a target. In memory of a module or on a stack the driver keeps no
 * address; on the heap it may. */
#define GS_SEEN_START_HEAP 1u
#define GS_SEEN_START_ROOT 2u
#define GS_SEEN_INSIDE     4u

/* --- leak_scan_words.c: what is looked for ---------------------------------------------
 */

#define GS_SCAN_PAGE_SHIFT  21u /* device memory is mapped in pages of 2 MiB */
#define GS_SCAN_FILTER_BITS (UINT64_C(1) << 18)

struct gs_scan_filter {
    uint64_t low, span;                      /* all targets lie in [low, low + span) */
    uint64_t bits[GS_SCAN_FILTER_BITS / 64]; /* by hashed page: some target lies there */
};

/* Sorts the targets and makes the filter for them. */
void gs_scan_prepare(struct gs_scan *scan, struct gs_scan_filter *filter);
/* Look at `count` words; root: they are a module's or a stack's. */
void gs_scan_words(struct gs_scan *scan, const struct gs_scan_filter *filter,
                   const uint64_t *words, size_t count, bool root);

/* --- leak_scan_ranges.c: what is left out, what counts as root ------------------------
 */

struct gs_scan_range {
    uintptr_t begin, end;
};

/* By the 64-bit word that an item begins with. Not qsort: that leaves copies of what it
 * sorts in freed memory of the heap, where the scan would find them. */
#define GS_SCAN_ITEM_MAX 32u
void gs_scan_sort(void *items, size_t count, size_t size);

struct gs_scan_ranges {
    struct gs_scan_range *items;
    size_t count, capacity;
    bool overflow; /* some found no room */
};

void gs_scan_range_add(struct gs_scan_ranges *ranges, uintptr_t begin, uintptr_t end);
/* Sorted, and none touches another. */
void gs_scan_ranges_settle(struct gs_scan_ranges *ranges);
/* The first that ends above `address`; NULL: none does. */
const struct gs_scan_range *gs_scan_range_from(const struct gs_scan_ranges *ranges,
                                               uintptr_t address);
/* Writable data of loaded modules: of the driver's, the runtime's and our own into
 * `skips`, of all others into `roots`. False: the loader could not be asked. */
bool gs_scan_add_modules(const void *own_code, struct gs_scan_ranges *skips,
                         struct gs_scan_ranges *roots);

/* --- leak_scan_areas.c: mappings and stacks -------------------------------------------
 */

#define GS_SCAN_THREADS 4096u

/* Stack pointers of threads, where they are known. */
struct gs_scan_stacks {
    uintptr_t tops[GS_SCAN_THREADS];
    size_t count;
};

void gs_scan_find_stacks(struct gs_scan_stacks *stacks, uintptr_t own_stack_from);

/* A mapping to look at. */
struct gs_scan_area {
    uintptr_t begin, end;
    bool shared; /* memory without a file on disk, shared with others */
    bool root;   /* a stack */
};

/* Reads one line of /proc/self/maps after the other. */
struct gs_scan_lines {
    const struct gs_scan_stacks *stacks;
    uintptr_t guard_end; /* the line before was a guard and ended here */
};

/* Is the line a mapping to look at? */
bool gs_scan_take_line(struct gs_scan_lines *lines, const char *line,
                       struct gs_scan_area *out);

#endif
