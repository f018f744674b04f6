/*
 * symbolize_internal.h - the state of a symbolizer, for its two files.
 * Owns: nothing.   Lock: none, one thread.
 */
#ifndef GS_SYMBOLIZE_INTERNAL_H
#define GS_SYMBOLIZE_INTERNAL_H

#include "gs_hash.h"
#include "tracker/names/line_helper.h"
#include "tracker/names/objects.h"
#include "tracker/names/perf_map.h"
#include "tracker/names/symbolize.h"

#define GS_SYMBOLIZER_NOTE_BYTES 384

/* A module's files, opened once. */
struct object {
    struct object *next;
    char *path;
    uint8_t build_id[20];
    uint8_t build_id_len;
    uint64_t file_stamp;
    int64_t process;
    struct gs_object found;
};

/* An address in a file, looked up once. */
struct gs_symbol_place {
    UT_hash_handle hh; /* in symbolizer->places */
    struct place_key {
        struct object *object;
        uint64_t offset;
    } key;
    struct gs_symbol symbol;
    struct gs_symbol *inlined; /* symbol.inlined */
    bool asked;                /* the child was asked about it */
    bool filtered; /* a child was asked for its readable name, if it has none */
    bool go;       /* Go's table has it: */
    unsigned line;
    const char *file;
};

/* A returned string, kept until the symbolizer is destroyed. */
struct kept_string {
    struct kept_string *next;
    char text[];
};

struct gs_symbolizer {
    bool lines;
    unsigned timeout_ms;
    uint64_t spent_ms; /* part of the limit, used by the calls so far */
    struct gs_line_helper helper;
    char *debug_dirs, *sysroot; /* search.debug has them */
    struct gs_object_search search;
    struct gs_perf_map *generated; /* names of generated code; NULL: none */
    bool generated_read;
    struct object *objects;
    struct gs_symbol_place *places;
    struct kept_string *strings;
    const char *note;       /* why lines are missing */
    const char *lines_note; /* the program has none */
    const char *names_note; /* why functions are missing */
};

/* A copy that lives as long as the symbolizer; NULL: no memory, or `text` is NULL. */
const char *gs_symbolizer_keep(struct gs_symbolizer *symbolizer, const char *text,
                               size_t length);

/* Sets both names of a symbol: as in the file, and readable. */
void gs_symbolizer_set_names(struct gs_symbolizer *symbolizer, struct gs_symbol *symbol,
                             const char *linkage);

#endif
