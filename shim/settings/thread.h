/*
 * thread.h - what each thread keeps: the re-entry guard and small caches.
 *
 * Initial-exec TLS: the library is loaded at program start, and a wrapper may run where
 * malloc may not be called.
 */
#ifndef GS_THREAD_H
#define GS_THREAD_H

#include "gs_base.h"

struct gs_context;
struct gs_submissions;

struct gs_thread {
    unsigned depth;       /* > 0: inside a wrapper; calls that come back are forwarded */
    int saved_errno;      /* of the program, restored by gs_leave */
    int *errno_at;        /* the thread's errno; NULL = not asked yet */
    uint16_t api;         /* runtime call in progress, GS_API_UNKNOWN if none */
    uint32_t id;          /* kernel thread id; 0 = not asked yet */
    bool starting;        /* inside start-up */
    bool finding_runtime; /* inside the search for a runtime function */
    const struct gs_context *context;   /* the context seen last ... */
    uint64_t context_generation;        /* ... valid while this is the map's */
    struct gs_submissions *submissions; /* its counts; NULL: none yet */
};

extern _Thread_local struct gs_thread gs_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The C library is asked where errno is, once a thread. */
int *gs_thread_ask_errno(void) __attribute__((cold, noinline));

/* Where the calling thread's errno is. */
static inline int *gs_thread_errno(void)
{
    int *at = gs_thread.errno_at;
    return GS_LIKELY(at != NULL) ? at : gs_thread_ask_errno();
}

/* The kernel is asked, once a thread. */
uint32_t gs_thread_query_id(void) __attribute__((cold, noinline));

/* Kernel id of the calling thread. */
static inline uint32_t gs_thread_id(void)
{
    return GS_LIKELY(gs_thread.id != 0) ? gs_thread.id : gs_thread_query_id();
}

#endif
