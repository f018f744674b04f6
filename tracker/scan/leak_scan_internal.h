/*
 * leak_scan_internal.h - the parts of a scan: targets, memory and stacks.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_LEAK_SCAN_INTERNAL_H
#define GS_LEAK_SCAN_INTERNAL_H

#include "tracker/scan/leak_scan.h"

/* Pointers found to a target. The driver may keep an address on the heap, but none in
 * memory of a module or on a stack. */
#define GS_SEEN_START_HEAP 1u
#define GS_SEEN_START_ROOT 2u
#define GS_SEEN_INSIDE     4u

/* ---- leak_scan_words.c: the targets ----------------------------------------------- */

#define GS_SCAN_PAGE_SHIFT  21u /* device memory is mapped in pages of 2 MiB */
#define GS_SCAN_FILTER_BITS (UINT64_C(1) << 18)

struct gs_scan_filter {
    uint64_t low, span;                      /* all targets are in [low, low + span) */
    uint64_t bits[GS_SCAN_FILTER_BITS / 64]; /* by hashed page: set if a target is
                                              * there */
};

/* Sorts the targets and builds the filter for them. */
void gs_scan_prepare(struct gs_scan *scan, struct gs_scan_filter *filter);
/* Scans `count` words; root: they are from a module or a stack. */
void gs_scan_words(struct gs_scan *scan, const struct gs_scan_filter *filter,
                   const uint64_t *words, size_t count, bool root);
/* Scans them for Python ints. An int whose first GS_SCAN_INT_HEADER words are not among
 * them is not found. */
#define GS_SCAN_INT_HEADER 3u
void gs_scan_ints(struct gs_scan *scan, const struct gs_scan_filter *filter,
                  const uint64_t *words, size_t count);

/* ---- leak_scan_ranges.c: skipped ranges and roots --------------------------------- */

struct gs_scan_range {
    uintptr_t begin, end;
};

/* Sorts by the 64-bit word at the start of each item. qsort would leave copies of the
 * items in freed heap memory, where the scan would find them. */
#define GS_SCAN_ITEM_MAX 32u
void gs_scan_sort(void *items, size_t count, size_t size);

struct gs_scan_ranges {
    struct gs_scan_range *items;
    size_t count, capacity;
    bool overflow; /* no memory for some ranges */
};

void gs_scan_range_add(struct gs_scan_ranges *ranges, uintptr_t begin, uintptr_t end);
/* Sorts the ranges and merges adjacent ones. */
void gs_scan_ranges_merge(struct gs_scan_ranges *ranges);
/* Returns the first range that ends above `address`; NULL: none does. */
const struct gs_scan_range *gs_scan_range_from(const struct gs_scan_ranges *ranges,
                                               uintptr_t address);
/* Adds the writable data of loaded modules: of the driver, the runtime and this library
 * to `skips`, of all others to `roots`. Returns false if the loader cannot be queried. */
bool gs_scan_add_modules(const void *own_code, struct gs_scan_ranges *skips,
                         struct gs_scan_ranges *roots);

/* ---- leak_scan_areas.c: mappings and stacks --------------------------------------- */

#define GS_SCAN_THREADS 4096u

/* The known stack pointers of threads. */
struct gs_scan_stacks {
    uintptr_t tops[GS_SCAN_THREADS];
    size_t count;
};

void gs_scan_find_stacks(struct gs_scan_stacks *stacks, uintptr_t own_stack_from);

/* A mapping to scan. */
struct gs_scan_area {
    uintptr_t begin, end;
    bool shared; /* memory without a file on disk, shared with other processes */
    bool root;   /* a stack */
};

/* Reads /proc/self/maps line by line. */
struct gs_scan_lines {
    const struct gs_scan_stacks *stacks;
    uintptr_t guard_end; /* end of the previous line's guard mapping */
};

/* Returns true if the line is a mapping to scan. */
bool gs_scan_take_line(struct gs_scan_lines *lines, const char *line,
                       struct gs_scan_area *out);

#endif
