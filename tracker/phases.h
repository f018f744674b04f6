/*
 * phases.h - the conditions of deny: rules (after=): a scope in which something was
 * allocated, a time that has passed. Each is a bit, which the sums of all allocations
 * keep apart.
 *
 * Owns:  struct gs_phases, in the rules.   Lock: none; `begun` is atomic, the rest is
 *        immutable once the rules are read.   Design: docs/suppressions.md
 */
#ifndef GS_PHASES_H
#define GS_PHASES_H

#include "gs_base.h"

#define GS_PHASES_MAX 8u

struct gs_phases {
    unsigned count;
    uint8_t begun; /* bits of the scopes that had an allocation; atomic */
    struct gs_phase {
        const char *scope; /* pattern of its name; NULL: a time */
        uint64_t after_ns; /* since the tracker's start */
    } items[GS_PHASES_MAX];
    bool (*matches)(const char *pattern, const char *name);
};

/* Returns the bit of the condition, which is added if it is new; 0: too many. */
uint8_t gs_phases_add(struct gs_phases *phases, const char *scope, uint64_t after_ns);

/* Returns the bits of the conditions that hold for an allocation of the calling thread.
 * NULL: none. */
uint8_t gs_phases_now(struct gs_phases *phases, uint64_t now_ns);

#endif
