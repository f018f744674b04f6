/*
 * free_wait.h - the wait of a free: made, or proven to be for nothing.
 */
#ifndef GS_FREE_WAIT_H
#define GS_FREE_WAIT_H

#include "state.h"

/* A free found nothing to wait for. */
void gs_free_found_idle(const struct gs_context *context);

/*
 * Wait as the native free of memory of that context does, unless the context is idle.
 * Out:  *idle  whether there was nothing to wait for
 * Returns the driver's code; CUDA_SUCCESS if there was nothing to wait for.
 */
CUresult gs_free_wait(struct gs_state *state, const struct gs_context *context,
                      bool *idle);

/* Whether that wait would find nothing; then the free is counted as one that did not
 * wait.
 */
bool gs_free_finds_idle(struct gs_state *state, const struct gs_context *context);

/* The frees of a device's pooled memory. */
struct gs_free_stats {
#define GS_FREE_STAT(name, unit, doc) uint64_t name;
#include "frees.def"
#undef GS_FREE_STAT
};

void gs_free_stats(unsigned device, struct gs_free_stats *out);

/* In a forked child: none. */
void gs_free_stats_reset(void);

#endif
