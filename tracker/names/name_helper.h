/*
 * name_helper.h - readable names of C++ functions whose mangled names are too long for
 * the demangler in the process, by llvm-cxxfilt or c++filt. Owns: nothing.   Lock: none.
 */
#ifndef GS_NAME_HELPER_H
#define GS_NAME_HELPER_H

#include "gs_base.h"

struct gs_name_query {
    const char *linkage;
    char *readable; /* the result, malloc'ed; NULL: none */
};

/* Answers the queries by a child of each program, within the time; the rest stays
 * NULL. */
void gs_name_helper_demangle(unsigned timeout_ms, struct gs_name_query *queries,
                             size_t count);

#endif
