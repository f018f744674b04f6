/*
 * python_lines.h - the line of a code object's instruction, from CPython's tables.
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

/* A code object's table; `first` is its first line. A table has no index: it is read up
 * to an instruction, and on from there for an instruction after that. */
struct gs_python_lines {
    enum gs_python_table kind;
    const uint8_t *table;
    size_t bytes;
    int first;
    size_t at; /* the next entry: 0 at the begin; written by gs_python_line, as these */
    int64_t covered; /* bytes of instructions before it */
    int64_t step;    /* from the first line to the line there */
};

/* Returns the line of the instruction at `offset` bytes; 0: the table has none. A
 * negative offset means that the frame has not started: the first line. */
unsigned gs_python_line(struct gs_python_lines *lines, int64_t offset);

#endif
