/*
 * environment.c - see environment.h.
 * Owns: the lists.   Lock: none; one pointer is atomic, the other immutable after the
 * constructor.
 */
#include "shim/settings/environment.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

static char *const *replaced; /* atomic; NULL: the process's own */
static char **kept;           /* NULL: there is none, or nothing to keep */

static inline bool begins_with(const char *entry, const char *prefix)
{
    return entry[0] == prefix[0] && strncmp(entry, prefix, strlen(prefix)) == 0;
}

static inline bool is_own(const char *entry)
{
    return begins_with(entry + (entry[0] == '_'), "GPUSHIM_");
}

static bool has_preload(char *const *variables)
{
    while (variables && *variables && !begins_with(*variables, "LD_PRELOAD=")) {
        variables++;
    }
    return variables && *variables;
}

static bool is_cleaned(char *const *variables)
{
    for (char *const *entry = variables; entry && *entry; entry++) {
        if (is_own(*entry)) {
            return false;
        }
    }
    return !has_preload(variables);
}

/* Copies the library's variables: `count` of them, `bytes` long with their NULs. */
static void keep(char *const *variables, size_t count, size_t bytes)
{
    int saved_errno = errno;
    const size_t list_bytes = (count + 1) * sizeof(char *);
    char **list = mmap(NULL, list_bytes + bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved_errno;
    if (list == MAP_FAILED) {
        return;
    }
    char *text = (char *)list + list_bytes;
    kept = list;
    for (char *const *entry = variables; *entry; entry++) {
        if (is_own(*entry)) {
            *list++ = text;
            text = stpcpy(text, *entry) + 1;
        }
    }
}

bool gs_environment_keep(char *const *variables)
{
    size_t count = 0, bytes = 0;
    for (char *const *entry = variables; entry && *entry; entry++) {
        if (is_own(*entry)) {
            count++;
            bytes += strlen(*entry) + 1;
        }
    }
    if (count > 0 && has_preload(variables) && !getauxval(AT_SECURE)) {
        keep(variables, count, bytes);
    }
    return count > 0;
}

char *const *gs_environment(void)
{
    char *const *list = __atomic_load_n(&replaced, __ATOMIC_ACQUIRE);
    if (list) {
        return list;
    }
    return kept && is_cleaned(environ) ? kept : environ;
}

void gs_environment_replace(char *const *variables)
{
    __atomic_store_n(&replaced, variables, __ATOMIC_RELEASE);
}

bool gs_environment_is_replaced(void)
{
    return __atomic_load_n(&replaced, __ATOMIC_ACQUIRE) != NULL;
}
