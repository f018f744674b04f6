/*
 * loader_message.h - hides the library's own failures from the program's dlerror.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_LOADER_MESSAGE_H
#define GS_LOADER_MESSAGE_H

#include <dlfcn.h>

/* Clears the loader's error message, so that the program never sees one of the library's
 * failures. The message is per thread in glibc and musl, whatever POSIX allows. */
static inline void gs_loader_message_drop(void)
{
    (void)dlerror(); /* NOLINT(concurrency-mt-unsafe) */
}

#endif
