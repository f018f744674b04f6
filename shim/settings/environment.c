/*
 * environment.c - see environment.h.
 * Owns: the list.   Lock: none; the pointer is atomic.
 */
#include "shim/settings/environment.h"

#include <unistd.h>

static char *const *replaced; /* atomic; NULL: the process's own */

char *const *gs_environment(void)
{
    char *const *list = __atomic_load_n(&replaced, __ATOMIC_ACQUIRE);
    return list ? list : environ;
}

void gs_environment_replace(char *const *variables)
{
    __atomic_store_n(&replaced, variables, __ATOMIC_RELEASE);
}

bool gs_environment_is_replaced(void)
{
    return __atomic_load_n(&replaced, __ATOMIC_ACQUIRE) != NULL;
}
