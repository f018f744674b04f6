/*
 * grown.h - what call sites kept one after the other until Python ended, which then frees
 * its objects: no leak, and gone before the report.
 *
 * Locks: none of its own.
 */
#ifndef GS_GROWN_H
#define GS_GROWN_H

#include "gs_base.h"

/* Call sites that are kept apart. */
#define GS_GROWN_SITES 16

struct gs_grown_site {
    uint64_t count, bytes; /* 0: none */
    uint32_t stack;        /* 0: of several call sites */
    int16_t device;
};

#endif
