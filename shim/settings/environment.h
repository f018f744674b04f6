/*
 * environment.h - the variables that the library reads its options from: the process's;
 * in one that it was loaded into later, those of gpushim attach; in one that has cleaned
 * its environment, as daemons do before their first CUDA call, those of its start.
 * Lock: none; set before the library starts.
 */
#ifndef GS_ENVIRONMENT_H
#define GS_ENVIRONMENT_H

#include "gs_base.h"

/* A list as `environ`. */
char *const *gs_environment(void);

/* Called before main: copies the library's variables for a process that removes them and
 * LD_PRELOAD. If any of these is left, the environment is used as it is then. Returns
 * whether there are variables of the library. */
bool gs_environment_keep(char *const *variables);

/* Makes this the list: "NAME=VALUE", ends with NULL, lives as long as the process. */
void gs_environment_replace(char *const *variables);
/* Returns whether gs_environment_replace was called. */
bool gs_environment_is_replaced(void);

#endif
