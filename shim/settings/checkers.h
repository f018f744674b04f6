/*
 * checkers.h - what a program's MemorySanitizer or ThreadSanitizer is told.
 *
 * Their runtimes stand in front of the C library. They see what the library's calls of it
 * read and write, but neither the stores of its own code, which is not instrumented, nor
 * the order that its atomic words make. So a sanitizer takes a text that the library has
 * written itself for uninitialized, and pinned memory that passed from one thread to
 * another through the pool for a race of the program, and ends the program with a status
 * of its own. ThreadSanitizer's interface is that of dynamic annotations, which other
 * tools have, too. Without such a tool nothing is called.
 * Lock: none; the functions are immutable after start.
 */
#ifndef GS_CHECKERS_H
#define GS_CHECKERS_H

#include "gs_base.h"

struct gs_checkers {
    void (*unchecked_begin)(void), (*unchecked_end)(void); /* MemorySanitizer's */
    void (*reads_begin)(const char *file, int line);
    void (*reads_end)(const char *file, int line);
    void (*writes_begin)(const char *file, int line);
    void (*writes_end)(const char *file, int line);
    void (*before)(const char *file, int line, uintptr_t key);
    void (*after)(const char *file, int line, uintptr_t key);
};

extern struct gs_checkers gs_checkers;

/* In:  find  the first definition of a name that was loaded at the program's start, or
 *            NULL */
void gs_checkers_start(void *(*find)(const char *name));

/* The calling thread runs the library's code alone from begin to end. Calls nest. */
void gs_checkers_ignore_begin(void);
void gs_checkers_ignore_end(void);

/* Memory returns to a cache, or is handed out again: what was done before each return
 * is over, as after the driver's locks natively. `key`: any address of the cache's. */
static inline void gs_checkers_returned(const void *key)
{
    if (GS_UNLIKELY(gs_checkers.before != NULL)) {
        gs_checkers.before(__FILE__, __LINE__, (uintptr_t)key);
    }
}

static inline void gs_checkers_handed_out(const void *key)
{
    if (GS_UNLIKELY(gs_checkers.after != NULL)) {
        gs_checkers.after(__FILE__, __LINE__, (uintptr_t)key);
    }
}

#endif
