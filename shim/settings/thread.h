/*
 * thread.h - the state of each thread: the re-entry guard and small caches.
 *
 * Initial-exec TLS: the library is loaded at program start, and a wrapper may run where
 * malloc must not be called.
 */
#ifndef GS_THREAD_H
#define GS_THREAD_H

#include "gs_base.h"

struct gs_context;
struct gs_submissions;

struct gs_thread {
    unsigned depth;       /* > 0: inside a wrapper; re-entered calls are forwarded */
    int saved_errno;      /* of the program, restored by gs_leave */
    int *errno_at;        /* the thread's errno; NULL = not queried yet */
    uint16_t api;         /* runtime call in progress, GS_API_UNKNOWN if none */
    uint32_t id;          /* kernel thread id; 0 = not queried yet */
    bool starting;        /* inside start-up */
    bool finding_runtime; /* inside the search for a runtime function */
    uint8_t asks_driver;  /* > 0: inside a call by which a program finds the driver */
    bool in_callback;     /* the program's function is called: heaps/pressure.h */
    int pressed;          /* a device to check for memory pressure, plus 1; 0: none */
    bool in_stream;       /* cuMemAllocAsync is the pool's, whatever GPUSHIM_ASYNC says */
    bool in_api;          /* inside a function of gpushim.h */
    bool is_own;          /* the library's: own_thread.h */
    const struct gs_context *context;   /* the context used last */
    uint64_t context_generation;        /* it is valid while this is the map's */
    struct gs_submissions *submissions; /* its counts; NULL: none yet */
};

extern _Thread_local struct gs_thread gs_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Queries the C library for the place of errno, once a thread. */
int *gs_thread_query_errno(void) __attribute__((cold, noinline));

/* The place of the calling thread's errno. */
static inline int *gs_thread_errno(void)
{
    int *at = gs_thread.errno_at;
    return GS_LIKELY(at != NULL) ? at : gs_thread_query_errno();
}

/* Queries the kernel, once a thread. */
uint32_t gs_thread_query_id(void) __attribute__((cold, noinline));

/* The kernel's id of the calling thread. */
static inline uint32_t gs_thread_id(void)
{
    return GS_LIKELY(gs_thread.id != 0) ? gs_thread.id : gs_thread_query_id();
}

#endif
