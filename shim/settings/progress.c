/*
 * progress.c - see progress.h.
 * Owns:  the counter and the threads' flag.   Lock: none; atomic, thread-local.
 */
#include "progress.h"

#include <errno.h>
#include <time.h>

#include "gs_clock.h"
#include "gs_uncancelled.h"

#define NS_PER_MS 1000000ull

static unsigned ticks; /* atomic */
static __thread bool working __attribute__((tls_model("initial-exec")));

void gs_progress_begin(void)
{
    working = true;
}

void gs_progress_end(void)
{
    working = false;
}

void gs_progress_tick(void)
{
    if (working)
        __atomic_fetch_add(&ticks, 1, __ATOMIC_RELAXED);
}

bool gs_progress_wait(bool (*over)(void *arg), void *arg, unsigned patience_ms)
{
    static const struct timespec nap = {.tv_nsec = 1000000};
    int saved_errno = errno;
    unsigned seen = __atomic_load_n(&ticks, __ATOMIC_RELAXED);
    uint64_t since_ns = gs_now_ns();
    bool done;

    while (!(done = over(arg)) && gs_now_ns() - since_ns < patience_ms * NS_PER_MS) {
        unsigned now = __atomic_load_n(&ticks, __ATOMIC_RELAXED);

        if (now != seen)
            since_ns = gs_now_ns();
        seen = now;
        gs_nap(&nap);
    }
    errno = saved_errno;
    return done;
}
