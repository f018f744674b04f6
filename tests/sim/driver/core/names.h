/*
 * names.h - the functions that a name in a variable or a table stands for.
 * Owns: nothing.   Lock: none.
 */
#ifndef SIM_NAMES_H
#define SIM_NAMES_H

#include "sim.h"

#define SIM_NAMED_MOST 16 /* variants of one base name; the toolkit has 6 at most */

struct sim_named {
    unsigned count;
    enum sim_api apis[SIM_NAMED_MOST];
    bool modelled; /* at least one of them */
};

/*
 * What `length` bytes of `name` stand for: a base name (cuMemAlloc) for all its variants,
 * otherwise an exported symbol (cuMemAlloc_v2) for itself. False if it is neither; *out
 * is written in any case.
 */
bool sim_names_find(const char *name, size_t length, struct sim_named *out) GS_MUST_USE;

#endif
