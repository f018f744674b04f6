/*
 * python_lines.h - from an instruction of a code object to its line, by CPython's tables.
 * Owns: nothing.   Lock: none.
 * Source: CPython, Objects/lnotab_notes.txt (3.8, 3.9, 3.10), Objects/locations.md and
 * PEP 657 (3.11 and later), PEP 626
 */
#ifndef GS_PYTHON_LINES_H
#define GS_PYTHON_LINES_H

#include "gs_base.h"

enum gs_python_table {
    GS_PYTHON_LNOTAB,    /* 3.8, 3.9: pairs of steps */
    GS_PYTHON_LINETABLE, /* 3.10: pairs of lengths and steps, with gaps */
    GS_PYTHON_LOCATIONS  /* 3.11 and later: entries of varying length */
};

/* A code object's table, `first` being the line it begins with. */
struct gs_python_lines {
    enum gs_python_table kind;
    const uint8_t *table;
    size_t bytes;
    int first;
};

/* The line of the instruction at `offset` bytes; 0: it has none, or the table does not
 * reach so far. A negative offset is that of a frame that has not begun: the first line.
 */
unsigned gs_python_line(const struct gs_python_lines *lines, int64_t offset);

#endif
