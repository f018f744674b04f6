/*
 * tools.h - detects tools in this process that must see each allocation of the program.
 *
 * A memory checker checks accesses against the driver's allocations. Blocks of a pool are
 * inside a few large ones, so it would accept a write beyond a block, or to a freed
 * block. If such a tool is present the pool is switched off; profilers do not need this.
 *
 * Owns: nothing.   Lock: none.
 * Source: NVIDIA Compute Sanitizer 13.5
 * (docs/coexistence.md)
 */
#ifndef GS_TOOLS_H
#define GS_TOOLS_H

#include "gs_base.h"

/*
 * Returns true if a memory checker is present, or about to be loaded by the driver.
 * In:  env  "NAME=value" strings, NULL at the end; may itself be NULL
 * Out: what  the checker's name, a library's file name, of at most `size` bytes with its
 *            NUL
 */
bool gs_tools_memory_checker(char *const *env, char *what, size_t size);

#endif
