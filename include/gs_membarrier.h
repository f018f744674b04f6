/*
 * gs_membarrier.h - the kernel's barrier on every thread of the process.
 *
 * Not installed.
 * Owns: nothing.   Lock: none.
 */
#ifndef GS_MEMBARRIER_H
#define GS_MEMBARRIER_H

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gs_base.h"

#if defined(__SANITIZE_THREAD__)
#define GS_HAVE_MEMBARRIER 0 /* the sanitizer cannot see its order */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GS_HAVE_MEMBARRIER 0
#endif
#endif
#ifndef GS_HAVE_MEMBARRIER
#define GS_HAVE_MEMBARRIER 1
#endif

/* Carries out a MEMBARRIER_CMD_*. Returns false where the kernel refuses; errno is
 * preserved. */
static inline bool gs_membarrier(int command)
{
    int saved = errno;
    bool done = GS_HAVE_MEMBARRIER && syscall(SYS_membarrier, command, 0, 0) == 0;

    errno = saved;
    return done;
}

#endif
