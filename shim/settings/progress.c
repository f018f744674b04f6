/*
 * progress.c - see progress.h.
 * Owns:  the counter and the threads' flag.   Lock: none; atomic, thread-local.
 */
#include "shim/settings/progress.h"

#include "gs_wait.h"

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
    if (working) {
        __atomic_fetch_add(&ticks, 1, __ATOMIC_RELAXED);
    }
}

bool gs_progress_wait(bool (*over)(void *arg), void *arg, unsigned patience_ms)
{
    const uint64_t patience_ns = patience_ms * NS_PER_MS;
    struct gs_wait wait = {.nap_ns = NS_PER_MS, .until_ns = gs_now_ns() + patience_ns};
    unsigned seen = __atomic_load_n(&ticks, __ATOMIC_RELAXED);
    bool done;

    while (!(done = over(arg)) && gs_wait_step(&wait)) {
        unsigned now = __atomic_load_n(&ticks, __ATOMIC_RELAXED);

        if (now != seen) {
            wait.until_ns = gs_now_ns() + patience_ns;
        }
        seen = now;
    }
    return done;
}
