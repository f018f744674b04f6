/*
 * calls.h - how a list reaches the driver: CU(cuMemAlloc)(&at, bytes) is the call.
 *
 * Owns: diff_calls (immutable once loaded).   Lock: none.
 */
#ifndef GS_DIFF_CALLS_H
#define GS_DIFF_CALLS_H

#include <cuda.h>

#include "diff.h"

/* cuda.h renames many calls by macros; members take the symbols' names by the same ones.
 */
struct diff_calls {
#define DIFF_CALL(name, version) __typeof__(name) *name;
#include "calls.def"
#undef DIFF_CALL
};
extern struct diff_calls diff_calls;
#define CU(name) diff_calls.name

/*
 * Fills the table in this process, which has no other thread. False: a function is not
 * to be had, and nothing can be played.
 */
bool diff_calls_load(enum diff_way way) GS_MUST_USE;

#endif
