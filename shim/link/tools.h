/*
 * tools.h - tools in this process that have to see each allocation of the program.
 *
 * A memory checker judges accesses by the driver's allocations. Blocks of a pool lie in a
 * few large ones, so that a write beyond a block, or to one that was freed, looks right
 * to it. Where such a tool is at work the pool steps aside; profilers need no such thing.
 *
 * Owns: nothing.   Lock: none.
 * Source: reuse safety and interposition; NVIDIA Compute Sanitizer 13.5
 * (docs/coexistence.md)
 */
#ifndef GS_TOOLS_H
#define GS_TOOLS_H

#include "gs_base.h"

/*
 * Is a memory checker at work here, or about to be loaded by the driver?
 * In:  env  "NAME=value" strings, NULL at the end; may itself be NULL
 * Out: what, how long it may be, with its NUL: by what it is known, a library's file name
 */
bool gs_tools_memory_checker(char *const *env, char *what, size_t size);

#endif
