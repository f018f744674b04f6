/*
 * gs_page_scan.h - which pages of a process are there: entries of /proc/PID/pagemap, and
 * PAGEMAP_SCAN of Linux 6.7, which older headers do not have. A sparse mapping of
 * terabytes, as sanitizers and virtual machines reserve, has gigabytes of entries, and a
 * few regions.
 *
 * Not installed.
 * Owns:   nothing.   Lock: none.
 * Source: Documentation/admin-guide/mm/pagemap.rst
 */
#ifndef GS_PAGE_SCAN_H
#define GS_PAGE_SCAN_H

#include <sys/ioctl.h>

#include "gs_base.h"

/* Bits of an entry. A page that is both swapped out and a guard (MADV_GUARD_INSTALL) holds
 * no data. */
#define GS_PAGE_PRESENT  (UINT64_C(1) << 63)
#define GS_PAGE_SWAPPED  (UINT64_C(1) << 62)
#define GS_PAGE_OF_FILE  (UINT64_C(1) << 61) /* or shared memory */
#define GS_PAGE_IS_GUARD (UINT64_C(1) << 58)

struct gs_page_scan {
    uint64_t size, flags, begin, end, walk_end;
    uint64_t regions, region_count, most_pages;
    uint64_t inverted, all_of, any_of, returned;
};

struct gs_page_region {
    uint64_t begin, end, categories;
};

#define GS_PAGE_SCAN _IOWR('f', 16, struct gs_page_scan)

/* Categories of a region. */
#define GS_SCANNED_FILE    (UINT64_C(1) << 2)
#define GS_SCANNED_HERE    (UINT64_C(1) << 3)
#define GS_SCANNED_SWAPPED (UINT64_C(1) << 4)

#endif
