/*
 * nvml.h - GPUSHIM_NVML=on: this process's memory on a device by NVIDIA's management
 * library, minus the known memory: contexts, modules, local memory.
 *
 * The management library is opened by name, if it exists, by a thread of gpushim. The
 * program waits for this thread for a limited time only, and not before the first CUDA
 * call. There is no result where the library's statistic may not be this process's (a
 * container's process ids, MPS, MIG, WSL, a device without memory of its own, managed
 * memory, which may be anywhere). Only gs_nvml_add_device makes CUDA calls.
 *
 * Not tested on hardware (docs/platforms.md).
 */
#ifndef GS_NVML_H
#define GS_NVML_H

#include "gs_base.h"

struct gs_options;
struct gs_state;

extern bool gs_nvml_wanted __attribute__((visibility("hidden")));
extern bool gs_nvml_managed __attribute__((visibility("hidden"))); /* atomic */

/* Called at start. */
void gs_nvml_start(const struct gs_options *options);

/* Called when a device's first context was found; no lock is held. */
void gs_nvml_add_device(int ordinal);

/* Called when managed memory is allocated: from now on there is no result. */
static inline void gs_nvml_record_managed(void)
{
    if (GS_UNLIKELY(gs_nvml_wanted)) {
        __atomic_store_n(&gs_nvml_managed, true, __ATOMIC_RELAXED);
    }
}

/* Queries, if any memory is live, for the report that is about to be written. An answer
 * from the end of the process, before other exit handlers ran, is kept. */
void gs_nvml_query(struct gs_state *state);

/* The last answer. False: none. */
bool gs_nvml_rest(int ordinal, uint64_t *bytes);

void gs_nvml_reset(void); /* in a forked child */

#endif
