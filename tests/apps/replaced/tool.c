/*
 * tool.c - a tool that stands in front, watches libraries as they go, and then
 * calls the C library's function itself.
 */
#include <dlfcn.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

extern EXPORT void __cxa_finalize(void *library); // NOLINT(bugprone-reserved-identifier)

void __cxa_finalize(void *library) // NOLINT(bugprone-reserved-identifier)
{
    static const char *const versions[] = {"GLIBC_2.2.5", "GLIBC_2.17"};
    void (*next)(void *) = NULL;

    for (int i = 0; i < 2 && !next; i++)
        *(void **)&next = dlvsym(RTLD_NEXT, "__cxa_finalize", versions[i]);
    if (next)
        next(library);
}
