/*
 * place_key.h - recognises a call site in the reports of several processes.
 *
 * Addresses differ from process to process, so a call site is known by the frames that
 * the report shows of it: by function, file and line, or by module and offset where a
 * frame has no line. Files and modules count with their whole path. The call and the kind
 * of memory belong to it, the device does not.
 *
 * Locks: none.
 */
#ifndef GS_PLACE_KEY_H
#define GS_PLACE_KEY_H

#include "shim/tools/reader/report_file.h"

/* Equal for equal call sites; two different ones have the same key once in 2^128. */
struct gs_place_key {
    uint64_t words[2];
};

int gs_place_key_compare(const struct gs_place_key *a, const struct gs_place_key *b);

/* What of a stack counts. */
enum gs_place_by {
    GS_PLACE_BY_LINE,     /* all that is known of its frames */
    GS_PLACE_BY_FILE,     /* the functions, each with its file */
    GS_PLACE_BY_MODULE,   /* the functions, each with its module */
    GS_PLACE_BY_FUNCTION, /* the functions: a program that was rebuilt keeps them */
    GS_PLACE_BY_SYMBOL,   /* the same without inlined functions, which lines tell */
    GS_PLACE_BY_ADDRESS   /* module and offset: where a module is of the same build */
};
struct gs_place_key gs_place_key_of(const struct gs_report_file *file,
                                    const struct gs_file_place *place,
                                    enum gs_place_by by);
/* The key of two texts. */
struct gs_place_key gs_place_key_of_names(const char *first, const char *second);

#endif
