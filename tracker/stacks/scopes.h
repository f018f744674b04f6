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

/* The scopes of a thread that has had any. */
struct gs_scopes {
    unsigned depth; /* begun and not ended, those beyond the most included */
    uint16_t ends[GS_SCOPES_MAX]; /* the path's length with each scope */
    uint64_t owner; /* whose `numbers` these are: gs_stacks.identity; 0: nobody's */
    /* Names in `path`, from the outermost, those of scopes that ended last included: they
     * stay until another name takes their place. Of these, the ones with a number. */
    unsigned kept, numbered;
    unsigned told;                   /* those that gs_scope_begun was called for */
    uint32_t numbers[GS_SCOPES_MAX]; /* of the path with each scope; 0: no memory */
    uint32_t stack;                  /* the last one with a scope's frame; 0: none */
    uint32_t native, native_number;  /* that one without the frame, and the frame */
    uint32_t settled;                /* the last one of gs_scopes_settle; 0: none */
    char path[GS_SCOPE_PATH_SIZE];
};

/* Begins a scope within the thread's scopes. It has to be ended, unless the thread's
 * first one fails. Slashes of its name are colons in the path.
 * Errors: GS_ERR_INVALID     no name, too long, or too deep: the allocations belong to
 * the scope around it GS_ERR_HOST_NOMEM  not begun */
enum gs_status gs_scopes_begin(const char *name) GS_MUST_USE;
/* Ends the innermost scope. Errors: GS_ERR_NOT_FOUND. */
enum gs_status gs_scopes_end(void) GS_MUST_USE;

/* The length of the path of the calling thread's scopes; 0: it is in none.
 * Out: *path  without a NUL; until a scope of the thread begins or ends */
size_t gs_scopes_current(const char **path);
/* Copies it; false: the thread is in no scope. */
bool gs_scopes_current_path(char out[GS_SCOPE_PATH_SIZE]);
/* Receives a scope of the calling thread: the number of its path, and that of the scope
 * around it, 0 if there is none. */
typedef void gs_scope_begun(void *self, uint32_t scope, uint32_t around);

/*
 * The number of the path of the thread's scopes, which is that of its frame; 0: it is in
 * no scope, or there is no memory. `begun` is called once for each scope that was begun
 * since the last call for these stacks. Takes the stacks' lock for a new path.
 */
uint32_t gs_scopes_number(struct gs_stacks *stacks, gs_scope_begun *begun, void *self);
/* Returns true if the stack, the thread's last capture, has the frame of its scopes. */
bool gs_scopes_have(uint32_t stack);

/* Lock: none, the thread's own; NULL: it was in no scope yet. */
extern __thread struct gs_scopes *gs_scopes_of_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The caller has called gs_scopes_number, and done for a stack that has the frame what it
 * does once for each: the next call of gs_scopes_are_settled returns true for the stack.
 */
static inline void gs_scopes_settle(uint32_t stack)
{
    gs_scopes_of_thread->settled = stack;
}

/* `stack`: the thread's last capture. */
static inline bool gs_scopes_are_settled(uint32_t stack)
{
    const struct gs_scopes *scopes = gs_scopes_of_thread;

    return scopes && stack != 0 && scopes->settled == stack &&
           scopes->told == scopes->depth;
}
/* Writes the path of a scope, without a NUL: its length; 0: there is no such number. */
size_t gs_scopes_path(const struct gs_stacks *stacks, uint32_t scope,
                      char path[GS_SCOPE_PATH_SIZE]);

/* Returns the number of the scope of a path; 0: there is none. */
uint32_t gs_scopes_find(struct gs_stacks *stacks, const char *path);

/* Returns true if a scope of this name is among those of a path, such as step/forward.
 * Slashes of the name are compared with colons. */
bool gs_scopes_path_has(const char *path, size_t length, const char *name);
/* Compares a pattern with the text of a name. */
typedef bool gs_scope_match(const char *pattern, const char *text);
/* Returns true if the pattern matches a name of a path; with a slash in it: consecutive
 * names, so that "^train/step$" is found in epoch/train/step/forward. */
bool gs_scopes_path_matches(const char *path, size_t length, const char *pattern,
                            gs_scope_match *matches);
/* gs_scopes_path_has for the calling thread's scopes. */
bool gs_scopes_within(const char *name);

/* The thread is in a scope. Returns the stack `id` with the frame of its scopes, if that
 * is what gs_scopes_add returned last for the stacks of this identity; else 0. */
static inline uint32_t gs_scopes_added(uint64_t identity, uint32_t id)
{
    const struct gs_scopes *scopes = gs_scopes_of_thread;
    const unsigned depth = scopes->depth;

    return scopes->native == id && depth <= scopes->numbered &&
                   scopes->owner == identity &&
                   scopes->numbers[depth - 1] == scopes->native_number
               ? scopes->stack
               : 0;
}

/* The stack `id`, or none (0), with the frame of the thread's scopes; `id` itself if
 * there is no memory. The thread is in a scope, and inside a capture. Preserves errno. */
uint32_t gs_scopes_add(struct gs_stacks *stacks, uint32_t id);

#endif
