/*
 * mutants.h - what the switches of shim.patch call: whether a mutant of mutants.def is
 * chosen, and two functions of the test programs. Included into each file of the broken
 * copy of shim/ ahead of all others (-include).
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_MUTANTS_H
#define GS_MUTANTS_H

#include "gs_base.h"

enum gs_mutant {
#define GS_MUTANT(name, what, test) GS_MUTANT_##name,
#include "mutants.def"
#undef GS_MUTANT
    GS_MUTANT_COUNT
};

bool gs_mutant(enum gs_mutant mutant);

/* Whether the chosen mutant leaves this function uncounted. */
static inline bool gs_mutant_skips(const char *symbol)
{
    if (gs_mutant(GS_MUTANT_set_uncounted)) {
        return __builtin_strncmp(symbol, "cuMemset", 8) == 0;
    }
    if (gs_mutant(GS_MUTANT_peer_copy_uncounted)) {
        return __builtin_strncmp(symbol, "cuMemcpyPeer", 12) == 0;
    }
    if (gs_mutant(GS_MUTANT_prefetch_uncounted)) {
        return __builtin_strncmp(symbol, "cuMemPrefetch", 13) == 0;
    }
    return false;
}

/* tests/order/idle.c has this function: it may keep the thread between the counts and the
 * driver's call, in front of the call or behind it. */
extern void gs_order_linger(bool after) __attribute__((weak));

static inline void gs_linger(bool after)
{
    if (gs_order_linger) {
        gs_order_linger(after);
    }
}

/* tests/order/async.c has this function: it looks at what is launched. */
struct CUlaunchConfig_st;
extern void gs_order_launches(const struct CUlaunchConfig_st *config)
    __attribute__((weak));

static inline void gs_show(const struct CUlaunchConfig_st *config)
{
    if (gs_order_launches) {
        gs_order_launches(config);
    }
}

#endif
