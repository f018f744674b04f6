/*
 * line_helper.h - file and line of addresses, by llvm-symbolizer or addr2line.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_LINE_HELPER_H
#define GS_LINE_HELPER_H

#include "helper_process.h"

/* llvm-symbolizer starts with the first question and answers all. Zero at first. */
struct gs_line_helper {
    char *program; /* as in struct gs_symbolizer_config */
    struct gs_helper llvm;
};

struct gs_line_query {
    const char *path; /* absolute */
    uint64_t address; /* ELF virtual address */
    char *file;       /* result, malloc'ed; NULL: unknown */
    unsigned line;    /* result; 0: unknown */
};

/*
 * Answers all queries, sorted by path, with the llvm-symbolizer or one addr2line per
 * path. For an inlined address the answer is the position in the function that the symbol
 * names.
 *
 * In:     timeout_ms  for all of it; answers until then are kept
 * Returns NULL on success, else a sentence for the report (static).
 */
const char *gs_line_helper_resolve(struct gs_line_helper *helper, unsigned timeout_ms,
                                   struct gs_line_query *queries, size_t count);
void gs_line_helper_end(struct gs_line_helper *helper);

#endif
