/*
 * frame_kinds.h - whose code a frame is, by the table frame_kinds.def.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_FRAME_KINDS_H
#define GS_FRAME_KINDS_H

#include "symbolize.h"

enum gs_frame_kind {
    GS_FRAME_PROGRAM,
    GS_FRAME_RUNTIME,
    GS_FRAME_BRIDGE,
    GS_FRAME_BINDING,
    GS_FRAME_LIBRARY,
    GS_FRAME_SYSTEM,
    GS_FRAME_START
};

/* By the path of the module, or of a source file of Python's, alone. */
enum gs_frame_kind gs_frame_kind_of_file(const char *path);
/* By all that is known of a resolved frame; `module` is the base name of its module. */
enum gs_frame_kind gs_frame_kind(const struct gs_symbol_request *frame,
                                 const char *module);

#endif
