/*
 * growth_copy.h - what a look at live memory has found, and its copy in a file.
 *
 * A file has two of them, and says which one is whole: a process that ends while it
 * writes leaves the one before.
 *
 * Locks: one thread writes a copy (that of the comparison is held); growth.c.
 */
#ifndef GS_GROWTH_COPY_H
#define GS_GROWTH_COPY_H

#include "groups.h"

/* How a place has fared, beside its group. */
struct gs_trend {
    uint64_t base_bytes, base_count; /* when it last became less, or was first seen */
    uint64_t since_ns;               /* when that was */
    uint64_t since_look, last_look;  /* that look; the last one that found more */
    uint64_t grown;                  /* looks since that found more */
};

/* One that is growing. */
struct gs_growing {
    struct gs_group group;
    struct gs_trend trend;
};

/* Sums over all that was live. */
struct gs_look {
    uint64_t looks; /* so far, this one included */
    uint64_t time_ns, interval_ns;
    uint64_t bytes, count; /* live at the last look */
    int64_t change;        /* of bytes, since the look before */
};

/* Places of a look that a file has, the most grown first. */
#define GS_GROWING_COPIED 32u

struct gs_look_copy {
    struct gs_look look;
    uint64_t count;
    struct gs_growing growing[GS_GROWING_COPIED];
};

struct gs_growth_copy {
    uint64_t current; /* 1 or 2: the one that is whole; 0: none yet; atomic */
    struct gs_look_copy copies[2];
};

struct gs_growth;

/* A comparison that has nothing but this look, to be written and asked about. Its groups
 * are believed as they stand. NULL: no memory. */
struct gs_growth *gs_growth_of(const struct gs_look *look,
                               const struct gs_growing *growing, size_t count);

#endif
