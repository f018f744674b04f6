/*
 * child_env.h - the environment of a program that is started, where
 * GPUSHIM_FOLLOW_CHILDREN=off: the caller's, without this library in LD_PRELOAD.
 *
 * Runs in vfork children, in which neither malloc nor anything of the parent's may be
 * changed: the caller gives the room. Locks: none.
 */
#ifndef GS_CHILD_ENV_H
#define GS_CHILD_ENV_H

#include "gs_base.h"

/* What the new environment takes. */
struct gs_child_env {
    const char *own; /* base name to be left out of LD_PRELOAD; NULL: pass `env` on */
    size_t entries;  /* pointers, with the NULL; at least 1 */
    size_t bytes;    /* of new text; at least 1 */
};

/* Before main: is it asked for? `env` as the process has it. */
void gs_child_env_start(char *const *env);

/* What there is to do for a program that is to get `env` (may be NULL), by the setting.
 */
struct gs_child_env gs_child_env_measure(char *const *env);

/* The same for a library of the base name `own`. */
struct gs_child_env gs_child_env_measure_for(const char *own, char *const *env);

/* In:  need  as measured for this `env`; entries, text  room for what it says
 * Returns the environment to pass on: `env` itself, or `entries`. */
char *const *gs_child_env_make(const struct gs_child_env *need, char *const *env,
                               char **entries, char *text);

#endif
