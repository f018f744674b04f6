/*
 * probe_cost.h - what the questions of what allocations cost are written with: a way of
 * allocating is a list of calls, of which each is timed.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_PROBE_COST_H
#define GS_PROBE_COST_H

#include "probe.h"

#define PROBE_COST_CALLS 7

/* What the calls of a way make and drop; a way uses those members that it needs. */
struct probe_cost_block {
    CUdeviceptr address;
    void *host;
    CUarray array;
    CUmemGenericAllocationHandle memory;
};

struct probe_cost_way {
    size_t count; /* of the calls, which are made in this order: all is gone after them */
    struct {
        const char *verb; /* its rows are "VERB pair", "VERB many", "VERB busy" */
        CUresult (*call)(struct probe_cost_block *block, size_t bytes);
        bool quiet; /* its rows are in the JSON only */
    } calls[PROBE_COST_CALLS];
    bool on_host;
    /* Of what is seldom allocated: no batches, fewer pairs, and "busy" in the table only
     * where a call waited for the kernel. */
    bool brief;
    bool quiet_many; /* the rows of the batches are in the JSON only */
};

/*
 * Measure and write the rows. The context is current. A size is left out, and the rows
 * say so, where it would not leave three quarters of the device to others. `note` is what
 * the rows say besides, or "".
 */
void probe_cost_ask(const struct probe_cost_way *way, const size_t *sizes, size_t count,
                    const char *note);

#endif
