/*
 * environment.h - the variables that the library reads its options from: the process's,
 * or, in a process that it was loaded into later, those of gpushim attach.
 * Lock: none; set before the library starts.
 */
#ifndef GS_ENVIRONMENT_H
#define GS_ENVIRONMENT_H

#include "gs_base.h"

/* A list as `environ`. */
char *const *gs_environment(void);

/* Makes this the list: "NAME=VALUE", ends with NULL, lives as long as the process. */
void gs_environment_replace(char *const *variables);
/* Returns whether gs_environment_replace was called. */
bool gs_environment_is_replaced(void);

#endif
