/*
 * child_env.h - the environment of a started program with GPUSHIM_FOLLOW_CHILDREN=off:
 * the caller's environment, without this library in LD_PRELOAD. And of one whose parent
 * has said which variables have another name now.
 *
 * Runs in vfork children, where malloc must not be called and the parent's memory must
 * not change: the caller provides the memory. Locks: none.
 */
#ifndef GS_CHILD_ENV_H
#define GS_CHILD_ENV_H

#include "gs_base.h"

/* The memory that the new environment needs. */
struct gs_child_env {
    const char *own; /* base name to remove from LD_PRELOAD; NULL: pass `env` on */
    size_t entries;  /* pointers, including the final NULL; at least 1 */
    size_t bytes;    /* of new text; at least 1 */
    bool renamed;    /* adds GS_RENAMED_VARIABLE */
};

/* In an environment: who started the program has said what variables are called now. */
#define GS_RENAMED_VARIABLE "_GPUSHIM_RENAMED"
/* This process has said so: programs that it starts from now on do not. */
void gs_child_env_note_renamed(void);

/* Called before main: reads the setting from `env`, the environment of the process, which
 * has variables of the library if `given`. */
void gs_child_env_start(char *const *env, bool given);

/* Returns whether the library was preloaded here, started programs are to have it, and a
 * program with this environment would not: the caller has cleaned it. Async-signal-safe.
 */
bool gs_child_env_loses(char *const *env);

/* By the setting: returns the memory for a new environment made from `env` (may be
 * NULL). */
struct gs_child_env gs_child_env_measure(char *const *env);

/* Like gs_child_env_measure, for a library with the base name `own`. */
struct gs_child_env gs_child_env_measure_for(const char *own, char *const *env);

/* In:  need  as measured for this `env`; entries, text  memory of these sizes
 * Returns the environment to pass on: `env` itself, or `entries`. */
char *const *gs_child_env_make(const struct gs_child_env *need, char *const *env,
                               char **entries, char *text);

#endif
