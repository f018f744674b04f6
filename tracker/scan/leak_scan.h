/*
 * leak_scan.h - is there a pointer to what leaked? A look through the host memory of this
 * process, made by the report where it is asked for.
 *
 * It reads copies that the kernel makes (process_vm_readv), so nothing it meets can
 * fault: not a guard page, not memory that another thread unmaps meanwhile, not a
 * device's registers. What it looks at and what it cannot see: docs/tracker.md, "Lost or
 * still referenced".
 *
 * Locks: none; one thread scans.
 */
#ifndef GS_LEAK_SCAN_H
#define GS_LEAK_SCAN_H

#include "gs_base.h"
#include "text.h"

struct gs_tracker;
struct gs_group;

enum gs_scan_found {
    GS_SCAN_NOT_MADE,  /* no scan, or not of this allocation */
    GS_SCAN_LOST,      /* no pointer to it or into it */
    GS_SCAN_START,     /* a pointer to its start */
    GS_SCAN_INSIDE,    /* pointers into it only */
    GS_SCAN_AMBIGUOUS, /* one to its start, where the driver may have put it */
    GS_SCAN_RESULTS
};

/* Told of memory that is not to be looked at. */
typedef void (*gs_scan_skip)(void *arg, uintptr_t begin, size_t bytes);

struct gs_scan_config {
    /* Below it, the calling thread's stack has only frames of the report; 0: nothing is
     * known. */
    uintptr_t stack_from;
    /* An address in the library's own file, whose data is not the program's; NULL: none.
     */
    const void *own_code;
    void *self;
    /* Does the driver know this address, and hence may hold a copy? NULL: of none. */
    bool (*driver_knows)(void *self, uint64_t addr);
    /* Memory that holds addresses and is not the program's. NULL: none. False: not all of
     * it is known, and no scan is made. */
    bool (*own_memory)(void *self, gs_scan_skip skip, void *arg);
    unsigned limit_ms; /* 0: none */
};

struct gs_scan_target {
    uint64_t addr, bytes;
    uint8_t seen; /* of leak_scan_internal.h */
    bool driver_knows;
};

struct gs_scan {
    struct gs_scan_target *targets; /* by address; mapped; NULL: no scan was made */
    size_t count, mapped_bytes;
    const char *why_not; /* static; NULL: it was made, or not asked for */
    uint64_t scanned_bytes, took_ns;
};

/* Scan for all live allocations. `scan` is all zero before. */
void gs_scan_run(struct gs_tracker *tracker, const struct gs_scan_config *config,
                 struct gs_scan *scan);
void gs_scan_free(struct gs_scan *scan);

enum gs_scan_found gs_scan_result(const struct gs_scan *scan, uint64_t addr);

/* "live at exit", "lost (no host pointer found)", "2 lost, 1 still referenced" ... */
const char *gs_scan_fate(const struct gs_group *group, char out[160]);
/* One line of a report: that there was no scan though asked for; else, if `figures`, how
 * much was looked at. */
void gs_scan_note(const struct gs_scan *scan, const char *prefix, bool figures,
                  struct gs_text *text);

#endif
