/*
 * line_helper.h - file, line and inlined functions of addresses, by llvm-symbolizer or
 * addr2line.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_LINE_HELPER_H
#define GS_LINE_HELPER_H

#include "tracker/names/helper_process.h"

struct gs_line_query;

/* Answers in place of a child: another process that can read the same files. */
struct gs_line_server {
    /* As gs_line_helper_resolve. In: self  this struct */
    const char *(*resolve)(const struct gs_line_server *self, unsigned timeout_ms,
                           struct gs_line_query *queries, size_t count);
};

/* llvm-symbolizer starts with the first question and answers all. Zero at first. */
struct gs_line_helper {
    char *program;                       /* as in struct gs_symbolizer_config */
    const struct gs_line_server *server; /* likewise */
    struct gs_helper llvm;
};

/* A position in one of the functions that an address belongs to. */
struct gs_line_place {
    char *function; /* as in the debug information, malloc'ed; NULL: unknown */
    char *file;     /* malloc'ed; NULL: unknown */
    unsigned line;  /* 0: unknown */
};

/* More functions inlined into each other than this are not kept. */
#define GS_LINE_PLACES_MAX 64u

struct gs_line_query {
    const char *path;   /* absolute */
    uint64_t address;   /* ELF virtual address */
    const char *symbol; /* the name in the symbol table; NULL: unknown */
    /* The result, malloc'ed: inlined functions, the innermost first, and at last the
     * function that the symbol names. */
    struct gs_line_place *places;
    unsigned count;
};

/*
 * Answers all queries, sorted by path, with the llvm-symbolizer or one addr2line per
 * path.
 *
 * In:     timeout_ms  for all of it; answers until then are kept
 * Returns NULL on success, else a sentence for the report (static).
 */
const char *gs_line_helper_resolve(struct gs_line_helper *helper, unsigned timeout_ms,
                                   struct gs_line_query *queries, size_t count);
void gs_line_query_free(struct gs_line_query *query);
void gs_line_helper_end(struct gs_line_helper *helper);

#endif
