/*
 * find_python.h - finds the Python interpreter in the process, for the call stacks.
 * Owns: nothing.   Lock: the linker's, during the search.   Design: docs/python.md
 */
#ifndef GS_FIND_PYTHON_H
#define GS_FIND_PYTHON_H

#include "tracker/stacks/stacks.h"

/* For gs_stacks_config.find_python. False: there is no interpreter, or a symbol is
 * missing. */
bool gs_python_find(struct gs_python_symbols *out);

/* Returns true if the process has any Python interpreter, known or not. */
bool gs_python_present(void);

#endif
