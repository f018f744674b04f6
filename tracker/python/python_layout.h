/*
 * python_layout.h - offsets of the fields that are read, for each version of CPython.
 * Owns: nothing.   Lock: none.   Design: docs/python.md
 */
#ifndef GS_PYTHON_LAYOUT_H
#define GS_PYTHON_LAYOUT_H

#include "gs_base.h"
#include "tracker/python/python_lines.h"

/* The links between frames. */
enum gs_python_chain {
    GS_PYTHON_FRAME_OBJECTS, /* one evaluation per frame; no native address */
    GS_PYTHON_FRAME_CFRAMES, /* the same, and a second chain on the native stack */
    GS_PYTHON_FRAME_ENTRIES, /* a flag marks the outermost frame of an evaluation */
    GS_PYTHON_FRAME_BASES    /* a frame of its own, on the native stack, marks it */
};

#define GS_PYTHON_NO_FIELD UINT16_MAX

/* The fields read of a thread's state and of a code object are in their first bytes. */
#define GS_PYTHON_STATE_BYTES 512u
#define GS_PYTHON_CODE_BYTES  512u

/* Offsets in bytes. */
struct gs_python_layout {
    uint16_t minor;
    uint8_t chain;        /* enum gs_python_chain */
    uint8_t lines;        /* enum gs_python_table */
    uint16_t finalizing;  /* in the runtime: state of the thread that ends it */
    uint16_t turn;        /* in the runtime: the GIL's mutex; 0: threads are never held */
    uint16_t state_frame; /* in a thread's state; or in the cframe, if there is one */
    uint16_t state_cframe, cframe_frame, cframe_previous;
    uint16_t previous, code, instruction, owner, is_entry; /* in a frame */
    uint16_t object_type, object_bytes;
    uint16_t first_line, file, name, qualified_name, line_table, version;
    uint16_t instructions, first_traceable; /* in a code object */
    uint16_t text_length, text_hash, text_state, text_ascii, text_wide;
    uint16_t bytes_length, bytes_data;
};

/*
 * The layout of a version (PY_VERSION_HEX). Since 3.13 the interpreter's `runtime`
 * (_PyRuntime) begins with most of the offsets.
 * Errors: GS_ERR_NOT_FOUND  an untested version, or a build with another layout
 */
enum gs_status gs_python_layout_find(unsigned version, const void *runtime,
                                     struct gs_python_layout *out) GS_MUST_USE;

#endif
