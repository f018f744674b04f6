/*
 * environment.h - the variables that the library reads its options from: the process's;
 * in one that it was loaded into later, those of gpushim attach; in one that has cleaned
 * its environment, as daemons do before their first CUDA call, those of its start. Each
 * with what the program has set since (gs_environment_set).
 * Lock: none; set before the library starts.
 */
#ifndef GS_ENVIRONMENT_H
#define GS_ENVIRONMENT_H

#include "gs_base.h"

/* A list as `environ`. In a thread of the library's own, whose reading no program expects
 * while it changes its variables: those that gs_environment_settle has copied. */
char *const *gs_environment(void);

/* Called as the library starts, by the thread that calls CUDA. */
void gs_environment_settle(void);

/* Variables that are not the library's: `environ`; in a thread of the library's own, and
 * in a process that it was loaded into later, those of the process's start, which stay
 * where they are. */
char *const *gs_environment_of_process(void);
/* One of them; NULL: there is none, or the process has more privileges than its user. */
const char *gs_environment_value(const char *name);
/* Those of the process's start, by a constructor: another thread may change `environ`. */
char *const *gs_environment_at_start(void);

/* Called before main: copies the library's variables for a process that removes them and
 * LD_PRELOAD. If any of these is left, the environment is used as it is then. Returns
 * whether there are variables of the library. */
bool gs_environment_keep(char *const *variables);

/* Makes this the variable's value for the library alone. From then on the list is a copy,
 * in which the program's own changes are not. One caller at a time. Returns false without
 * memory. */
bool gs_environment_set(const char *name, const char *value);

/* Makes this the list: "NAME=VALUE", ends with NULL, lives as long as the process. */
void gs_environment_replace(char *const *variables);
/* Returns whether gs_environment_replace was called. */
bool gs_environment_is_replaced(void);

#endif
