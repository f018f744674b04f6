/*
 * churn.h - the lifetimes of allocations by call site, and which of the call sites could
 * reuse memory instead of allocating it again.
 *
 * Locks: any thread may call any function; locking is internal.
 */
#ifndef GS_CHURN_H
#define GS_CHURN_H

#include "tracker/tracker.h"

/* The call sites that are distinguished; allocations of further ones are only counted. */
#define GS_CHURN_SITES 4096u
/* Longer lives are no churn. The tracker's clock has steps of up to 4 ms. */
#define GS_CHURN_SHORT_NS UINT64_C(10000000)

struct gs_churn_site {
    /* The key. */
    uint32_t stack; /* 0: none; then the allocations of a call are one call site */
    uint16_t api;   /* index into gs_tracker_config.api_names */
    int16_t device;
    uint8_t kind; /* enum gs_memory_kind */
    /* The sums. */
    uint64_t count, bytes;
    uint64_t most_bytes;  /* of an allocation */
    uint64_t short_count; /* freed within GS_CHURN_SHORT_NS */
    uint64_t short_ns;    /* the sum of their lifetimes */
    uint64_t ended_count,
        ended_ns;        /* all that were freed, and the sum of their lifetimes */
    uint64_t longest_ns; /* of those; a refused free counts, too */
    uint64_t live_count, most_live; /* now, and the most at once */
};

struct gs_churn;

/* NULL: no memory. Lives as long as the process. */
struct gs_churn *gs_churn_create(void);

/* Adds an allocation. Without a stack by sampling it is only counted. */
void gs_churn_add(struct gs_churn *churn, const struct gs_allocation *allocation);
/* Adds its free. now_ns: gs_tracker_now */
void gs_churn_end(struct gs_churn *churn, const struct gs_allocation *allocation,
                  uint64_t now_ns);
/* Takes a free back that the driver has refused. */
void gs_churn_take_back(struct gs_churn *churn, const struct gs_allocation *allocation,
                        uint64_t now_ns);

/* All call sites: first the `much_count` with many short lives, then the others, each
 * those with most allocations first; and the number of all allocations. The caller frees
 * `sites`; without memory there are none. */
struct gs_churn_list {
    struct gs_churn_site *sites;
    size_t count, much_count;
    uint64_t allocs;
};
struct gs_churn_list gs_churn_copy(struct gs_churn *churn);

#endif
