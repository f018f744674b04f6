/*
 * leak_scan.h - scans the host memory of this process for pointers to leaked memory, at
 * the report's request.
 *
 * The scan reads copies that the kernel makes (process_vm_readv). So nothing in its way
 * can fault: no guard page, no memory that another thread unmaps during the read, no
 * registers of a device. The scanned memory: docs/tracker.md, "Lost or still referenced".
 *
 * Locks: none; one thread scans.
 */
#ifndef GS_LEAK_SCAN_H
#define GS_LEAK_SCAN_H

#include "gs_base.h"

struct gs_tracker;

enum gs_scan_found {
    GS_SCAN_NOT_MADE,  /* no scan, or the allocation was not part of it */
    GS_SCAN_LOST,      /* no pointer to it or into it */
    GS_SCAN_START,     /* a pointer to its start */
    GS_SCAN_INSIDE,    /* pointers into it only */
    GS_SCAN_AMBIGUOUS, /* a pointer to its start, which may be the driver's */
    GS_SCAN_RESULTS
};

/* Called for memory that the scan skips. */
typedef void (*gs_scan_skip)(void *arg, uintptr_t begin, size_t bytes);

struct gs_scan_config {
    /* The calling thread's stack below this has only frames of the report; 0: not
     * known. */
    uintptr_t stack_from;
    /* An address in the library's own file, whose data is not the program's; NULL:
     * none. */
    const void *own_code;
    void *self;
    /* Returns true if the driver knows the address, so that it may hold a copy. NULL: the
     * driver knows none. */
    bool (*driver_knows)(void *self, uint64_t addr);
    /* Visits memory of the library that holds addresses. NULL: none. Returns false if
     * part of that memory is unknown: then no scan is made. */
    bool (*own_memory)(void *self, gs_scan_skip skip, void *arg);
    /* The process has a CPython whose ints the scan also searches. */
    bool python_ints;
    /* Why Python objects may have held memory that the scan finds no pointer to; static;
     * NULL: none may. No allocation is then called lost. */
    const char *python_unread;
    unsigned limit_ms; /* 0: none */
    /* Reads an entry for each page, as kernels before 6.7 need it. For tests. */
    bool by_entries;
};

struct gs_scan_target {
    uint64_t addr, bytes;
    uint8_t seen; /* of leak_scan_internal.h */
    bool driver_knows;
};

struct gs_scan {
    struct gs_scan_target *targets; /* by address; mapped; NULL: no scan was made */
    size_t count, mapped_bytes;
    const char *why_not;       /* static; NULL: the scan was made, or not requested */
    const char *python_unread; /* of the config */
    bool python_ints;
    uint64_t scanned_bytes, took_ns;
};

/* Scans for all live allocations. `scan` is all zero before. */
void gs_scan_run(struct gs_tracker *tracker, const struct gs_scan_config *config,
                 struct gs_scan *scan);
void gs_scan_free(struct gs_scan *scan);

enum gs_scan_found gs_scan_result(const struct gs_scan *scan, uint64_t addr);

#endif
