/*
 * frame_kinds.h - whose code a frame is, by the table frame_kinds.def, and which frame of
 * a stack is the program's own.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_FRAME_KINDS_H
#define GS_FRAME_KINDS_H

#include "tracker/names/symbolize.h"

enum gs_frame_kind {
    GS_FRAME_PROGRAM,
    GS_FRAME_RUNTIME,
    GS_FRAME_BRIDGE,
    GS_FRAME_FRAMEWORK,
    GS_FRAME_LIBRARY,
    GS_FRAME_VENDOR,
    GS_FRAME_SYSTEM,
    GS_FRAME_START
};

/* Rows of code that are told apart in the report's folded lines. */
enum gs_frame_family {
#define GS_FAMILY(id, name) GS_FAMILY_##id,
#include "tracker/names/frame_kinds.def"
    GS_FAMILIES
};

/* "PyTorch" */
const char *gs_frame_family_name(unsigned family);

/* A carrier of the family with this name, as a file has it; NULL: not looked for. */
struct gs_frame_class gs_frame_class_of_family(const char *name);

/* Returns what follows site-packages/ or dist-packages/ in a path; NULL: it is in no such
 * folder. */
const char *gs_frame_package(const char *path);

/* By the path of the module, or of a source file of Python's, alone. */
struct gs_frame_class gs_frame_class_of_file(const char *path);
enum gs_frame_kind gs_frame_kind_of_file(const char *path);
/* By all that is known of a resolved frame; `module` is the base name of its module. */
struct gs_frame_class gs_frame_class(const struct gs_symbol_request *frame,
                                     const char *module);
enum gs_frame_kind gs_frame_kind(const struct gs_symbol_request *frame,
                                 const char *module);

/* Returns true for code that carries the program's calls: a report folds it, and its
 * frames own no memory. */
bool gs_frame_is_carrier(struct gs_frame_class class);

/*
 * Finds the frame that a report names first, and that owns the memory: the innermost one
 * that is no carrier. If there is none, the program is inside of a framework: then the
 * innermost line of Python of the outermost framework, else the innermost frame of its
 * outermost run.
 * In:  class_at  the class of a stack's frame, by its index: 0 is the innermost
 *      count     frames, without those that start the program
 * Returns its index.
 */
typedef struct gs_frame_class gs_frame_class_at(void *self, unsigned i);
unsigned gs_frame_own(gs_frame_class_at *class_at, void *self, unsigned count);

#endif
