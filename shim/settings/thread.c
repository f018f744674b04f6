/*
 * thread.c - the state of each thread.
 * Owns:  gs_thread.   Lock: none; each thread accesses its own.
 */
#include "shim/settings/thread.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

_Thread_local struct gs_thread gs_thread;

uint32_t gs_thread_query_id(void)
{
    gs_thread.id = (uint32_t)syscall(SYS_gettid);
    return gs_thread.id;
}

int *gs_thread_query_errno(void)
{
    gs_thread.errno_at = &errno;
    return gs_thread.errno_at;
}
