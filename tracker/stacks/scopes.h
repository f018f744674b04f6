/*
 * scopes.h - names that a thread gives to a stretch of its work: the allocations of this
 * stretch belong to the scope.
 *
 * A scope is one more frame, the outermost, of each stack that is captured in it. So the
 * report, its files and rules treat scopes as they treat functions. The frame's number
 * stands for the whole path, such as step/forward.
 *
 * Locks: none, the thread's own; the stacks' lock for the number of a new path.
 * Design: docs/api.md, "Scopes"
 */
#ifndef GS_SCOPES_H
#define GS_SCOPES_H

#include "tracker/stacks/stacks.h"

#define GS_SCOPES_MAX      32u
#define GS_SCOPE_NAME_MAX  127u
#define GS_SCOPE_PATH_SIZE 1024u

/* The scopes of a thread that has any. */
struct gs_scopes {
    unsigned depth; /* begun and not ended, those beyond the most included */
    uint16_t ends[GS_SCOPES_MAX]; /* the path's length with each scope */
    const void *owner; /* whose `frame` this is: a struct gs_stacks; NULL: none */
    uintptr_t frame;   /* of the path; 0: no memory */
    char path[GS_SCOPE_PATH_SIZE];
};

/* Begins a scope within the thread's scopes. It has to be ended, unless the thread's
 * first one fails. Errors: GS_ERR_INVALID     no name, or one with a '/'; too long, or
 * too deep: the allocations belong to the scope around it GS_ERR_HOST_NOMEM  not begun */
enum gs_status gs_scopes_begin(const char *name) GS_MUST_USE;
/* Ends the innermost scope. Errors: GS_ERR_NOT_FOUND. */
enum gs_status gs_scopes_end(void) GS_MUST_USE;

/* Copies the path of the calling thread's scopes; false: it is in none. */
bool gs_scopes_path(char out[GS_SCOPE_PATH_SIZE]);

/* Returns true if a scope of this name is among those of a path, such as step/forward. */
bool gs_scopes_path_has(const char *path, size_t length, const char *name);
/* The same of the calling thread's scopes. */
bool gs_scopes_within(const char *name);

/* The stack `id`, or none (0), with the frame of the thread's scopes; `id` itself if
 * there is no memory. */
uint32_t gs_scopes_add(struct gs_stacks *stacks, uint32_t id)
    __attribute__((cold, noinline));

#endif
