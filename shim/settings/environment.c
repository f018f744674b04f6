/*
 * environment.c - see environment.h.
 * Owns: the lists.   Lock: none; three pointers are atomic, the others immutable after
 * the constructors.
 */
#include "shim/settings/environment.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gs_string.h"
#include "shim/settings/thread.h"

static char *const *replaced; /* atomic; NULL: the process's own */
static char *const *changed;  /* atomic; NULL: gs_environment_set was not called */
static char **kept;           /* NULL: there is none, or nothing to keep */
static char *const *settled;  /* atomic; NULL: the library has not started */
static char *const *initial;  /* NULL: not known */

/* glibc passes what the kernel has passed to the program, whatever `environ` is now. */
__attribute__((constructor(101))) static void learn_initial(int count, char **arguments)
{
    initial = arguments ? arguments + count + 1 : NULL;
}

static inline bool is_own(const char *entry)
{
    return gs_starts_with(entry + (entry[0] == '_'), "GPUSHIM_");
}

static bool has_preload(char *const *variables)
{
    while (variables && *variables && !gs_starts_with(*variables, "LD_PRELOAD=")) {
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

/* Copies the library's variables: `count` of them, `bytes` long with their NULs. NULL: no
 * memory. */
static char **copy(char *const *variables, size_t count, size_t bytes)
{
    int saved_errno = errno;
    const size_t list_bytes = (count + 1) * sizeof(char *);
    char **list = mmap(NULL, list_bytes + bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved_errno;
    if (list == MAP_FAILED) {
        return NULL;
    }
    char *text = (char *)list + list_bytes;
    for (size_t i = 0; i < count; variables++) {
        if (is_own(*variables)) {
            list[i++] = text;
            text = stpcpy(text, *variables) + 1;
        }
    }
    return list;
}

/* Out: *bytes  of all, with their NULs */
static size_t count_own(char *const *variables, size_t *bytes)
{
    size_t count = 0;
    *bytes = 0;
    for (char *const *entry = variables; entry && *entry; entry++) {
        if (is_own(*entry)) {
            count++;
            *bytes += strlen(*entry) + 1;
        }
    }
    return count;
}

bool gs_environment_keep(char *const *variables)
{
    size_t bytes, count = count_own(variables, &bytes);
    if (count > 0 && has_preload(variables) && !getauxval(AT_SECURE)) {
        kept = copy(variables, count, bytes);
    }
    return count > 0;
}

static char *const *of_program(void)
{
    return kept && is_cleaned(environ) ? kept : environ;
}

char *const *gs_environment(void)
{
    char *const *list = __atomic_load_n(&replaced, __ATOMIC_ACQUIRE);
    char *const *own = __atomic_load_n(&settled, __ATOMIC_ACQUIRE);
    if (list || (list = __atomic_load_n(&changed, __ATOMIC_ACQUIRE))) {
        return list;
    }
    return own && gs_thread.is_own ? own : of_program();
}

void gs_environment_settle(void)
{
    static char *const none[] = {NULL};
    if (!gs_environment_is_replaced()) {
        size_t bytes, count = count_own(of_program(), &bytes);
        char *const *list = count > 0 ? copy(of_program(), count, bytes) : none;
        __atomic_store_n(&settled, list ? list : none, __ATOMIC_RELEASE);
    }
}

char *const *gs_environment_at_start(void)
{
    return initial ? initial : environ;
}

char *const *gs_environment_of_process(void)
{
    return gs_environment_is_replaced() || gs_thread.is_own ? gs_environment_at_start()
                                                            : environ;
}

static bool is_named(const char *entry, const char *name)
{
    size_t length = strlen(name);
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

const char *gs_environment_value(const char *name)
{
    char *const *entry = getauxval(AT_SECURE) ? NULL : gs_environment_of_process();
    while (entry && *entry && !is_named(*entry, name)) {
        entry++;
    }
    return entry && *entry ? *entry + strlen(name) + 1 : NULL;
}

bool gs_environment_set(const char *name, const char *value)
{
    char *const *from = gs_environment();
    size_t count = 2, bytes = strlen(name) + strlen(value) + 2;
    int saved_errno = errno;
    for (char *const *entry = from; entry && *entry; entry++) {
        count++;
        bytes += strlen(*entry) + 1;
    }
    char **list = mmap(NULL, count * sizeof(char *) + bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved_errno;
    if (list == MAP_FAILED) {
        return false;
    }
    char **next = list, *text = (char *)(list + count);
    *next++ = text;
    text = stpcpy(stpcpy(stpcpy(text, name), "="), value) + 1;
    for (char *const *entry = from; entry && *entry; entry++) {
        if (!is_named(*entry, name)) {
            *next++ = text;
            text = stpcpy(text, *entry) + 1;
        }
    }
    __atomic_store_n(&changed, list, __ATOMIC_RELEASE);
    return true;
}

void gs_environment_replace(char *const *variables)
{
    __atomic_store_n(&replaced, variables, __ATOMIC_RELEASE);
}

bool gs_environment_is_replaced(void)
{
    return __atomic_load_n(&replaced, __ATOMIC_ACQUIRE) != NULL;
}
