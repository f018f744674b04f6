/*
 * tell.c - runs the rows of events.def for each event of a piece of memory.
 * Owns:  nothing.   Lock: none.
 */
#include "shim/memory/tell.h"

#define RUN_ROW(listener, when, statement)                                               \
    if (when) {                                                                          \
        statement;                                                                       \
    }

uint32_t gs_tell_allocated(struct gs_state *state, const struct gs_call *call,
                           uint64_t key, size_t bytes, struct gs_block *block)
{
    uint32_t id;
#define GS_ALLOCATED RUN_ROW
#include "shim/memory/events.def"
    return id;
}

void gs_tell_block_ordered(struct gs_state *state, const struct gs_block *block,
                           enum gs_api api, uint64_t addr, CUstream stream,
                           enum gs_trace_order order)
{
#define GS_BLOCK_ORDERED RUN_ROW
#include "shim/memory/events.def"
}
