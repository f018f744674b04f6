/*
 * line_helper.h - file and line of addresses, by llvm-symbolizer or addr2line.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_LINE_HELPER_H
#define GS_LINE_HELPER_H

#include "gs_base.h"

struct gs_line_query {
    const char *path; /* absolute */
    uint64_t address; /* ELF virtual address */
    char *file;       /* result, malloc'ed; NULL: unknown */
    unsigned line;    /* result; 0: unknown */
};

/*
 * Answer all queries, sorted by path, by one llvm-symbolizer or one addr2line a path.
 *
 * In:     helper      as in struct gs_symbolizer_config
 *         timeout_ms  for all of it; what has arrived by then is kept
 * Returns NULL if all went well, else a sentence for the report (static).
 * Of an address that was inlined, the place in the function that the symbol names is
 * given.
 */
const char *gs_line_helper_resolve(const char *helper, unsigned timeout_ms,
                                   struct gs_line_query *queries, size_t count);

#endif
