/*
 * nvml.h - what this process takes of a device by the account of NVIDIA's management
 * library, less what is known of: contexts, modules, local memory. GPUSHIM_NVML=on.
 *
 * The library is opened by name, where it is, by a thread of our own that is waited for a
 * while only, and never before the first CUDA call. Where its figure cannot be ours (a
 * container's process numbers, MPS, MIG, WSL, a device without memory of its own, managed
 * memory, which may be anywhere) there is none. No CUDA call is made but in gs_nvml_meet.
 *
 * Not seen on hardware (docs/platforms.md).
 */
#ifndef GS_NVML_H
#define GS_NVML_H

#include "gs_base.h"

struct gs_options;
struct gs_state;

extern bool gs_nvml_wanted __attribute__((visibility("hidden")));
extern bool gs_nvml_managed __attribute__((visibility("hidden"))); /* atomic */

/* At start-up. */
void gs_nvml_start(const struct gs_options *options);

/* A device's first context was seen; no lock is held. */
void gs_nvml_meet(int ordinal);

/* Managed memory was asked for: from now on there is no figure. */
static inline void gs_nvml_note_managed(void)
{
    if (GS_UNLIKELY(gs_nvml_wanted)) {
        __atomic_store_n(&gs_nvml_managed, true, __ATOMIC_RELAXED);
    }
}

/* Ask, if there is anything live, for the report that is about to be written. What was
 * asked as the process ended, before others' exit handlers ran, stays. */
void gs_nvml_query(struct gs_state *state);

/* The last answer. False: there is none. */
bool gs_nvml_rest(int ordinal, uint64_t *bytes);

void gs_nvml_reset(void); /* in a forked child */

#endif
