/*
 * symbolize.h - from addresses to function, file and line; at report time only.
 *
 * Function names come from the symbol tables of the module's file or of its debug file
 * (objects.h), read in-process; C++ and Rust names are demangled. File, line and inlined
 * functions come from a child (llvm-symbolizer or addr2line) with a time limit. Without a
 * child, or after the limit, module and offset remain. Never fails as a whole.
 *
 * Locks: none; one thread uses one symbolizer.
 */
#ifndef GS_SYMBOLIZE_H
#define GS_SYMBOLIZE_H

#include "gs_base.h"
#include "tracker/stacks/stacks.h"

struct gs_line_server;
struct gs_symbolizer;

struct gs_symbolizer_config {
    bool lines;           /* start the child for file:line */
    unsigned timeout_ms;  /* for all of the child's work together */
    const char *why_none; /* without lines: a sentence for the report, static; or NULL */
    /* NULL: search PATH for llvm-symbolizer, then addr2line. Else a program, looked up as
     * execvp does. It must speak addr2line's format if its base name contains
     * "addr2line", else llvm-symbolizer's. */
    const char *helper;
    const struct gs_line_server
        *server; /* answers in place of a child; NULL: none does */
    /* Folders of debug files, with colons between; NULL or "": /usr/lib/debug. */
    const char *debug_dirs;
    /* A folder in front of modules' paths, tried before the paths; NULL or "": none. */
    const char *sysroot;
};

/* The symbolizer owns all strings. */
struct gs_symbol {
    const char *function; /* demangled; NULL: unknown (stripped) */
    const char *linkage;  /* as in the symbol table; NULL: unknown */
    const char *file;     /* NULL: unknown */
    unsigned line;        /* 0: unknown */
    const char *module;   /* base name of the module's file; NULL: unknown */
    uint64_t offset;      /* ELF virtual address of frame - 1, as addr2line expects it */
    /* Functions inlined here, the innermost first; known with file and line. */
    const struct gs_symbol *inlined;
    unsigned inlined_count;
};

/* Whose code a frame is; frame_kinds.h finds it. */
struct gs_frame_class {
    unsigned char kind, family; /* enum gs_frame_kind, enum gs_frame_family */
    bool python, generated;     /* generated: Python compiled it from a text */
    bool known;                 /* else it was not looked for */
};

/* A frame to resolve: a return address. The symbolizer looks up frame - 1. */
struct gs_symbol_request {
    uintptr_t frame;
    const struct gs_module *module; /* NULL: unknown */
    struct gs_symbol_place *place;  /* the symbolizer's; NULL: not resolved */
    struct gs_symbol result;
    struct gs_frame_class class; /* kept once the result is final */
    bool line_wanted;            /* file and line are read */
    bool inlined;                /* the result is one of another's `inlined` */
};

/* The configuration is copied. Errors: GS_ERR_INVALID, GS_ERR_HOST_NOMEM. */
enum gs_status gs_symbolizer_create(const struct gs_symbolizer_config *config,
                                    struct gs_symbolizer **out) GS_MUST_USE;
void gs_symbolizer_destroy(struct gs_symbolizer *symbolizer);
/* The modules of the next requests belong to this process, which runs; 0: one that has
 * ended. At first: the calling process. */
void gs_symbolizer_set_process(struct gs_symbolizer *symbolizer, int64_t process);

/* Overwrites each result, without file and line; unknown parts are NULL or 0. */
void gs_symbolizer_resolve(struct gs_symbolizer *symbolizer,
                           struct gs_symbol_request *requests, size_t count);

/* Adds file, line and inlined functions to the results of resolved requests that want
 * them, all at once, so that the child starts once. An address that the child was asked
 * about is known. */
void gs_symbolizer_find_lines(struct gs_symbolizer *symbolizer,
                              struct gs_symbol_request *requests, size_t count);

/* Returns true if the symbolizer looks for lines at all. */
bool gs_symbolizer_finds_lines(const struct gs_symbolizer *symbolizer);

/* Returns the symbol table's name of the function that contains a frame; valid until the
 * next call. NULL: no name, or the file has no lines. */
const char *gs_symbolizer_linkage(struct gs_symbolizer *symbolizer, uintptr_t frame,
                                  const struct gs_module *module);

/* A sentence for the report if file and line are missing (no helper, time limit, a
 * program without debug information); else NULL. */
const char *gs_symbolizer_note(const struct gs_symbolizer *symbolizer);

#endif
