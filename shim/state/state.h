/*
 * state.h - everything a process has once it has made its first CUDA call.
 *
 * Reached through one pointer, so that a forked child starts as if the library had never
 * been used: it drops the pointer, and whatever its parent's threads were in the middle
 * of goes with it.
 *
 * Lock: the pointer is atomic; the members say their own.
 */
#ifndef GS_STATE_H
#define GS_STATE_H

#include <errno.h>
#include <sys/types.h>

#include "contexts.h"
#include "options.h"
#include "pool.h"
#include "real.h"
#include "thread.h"
#include "tracker.h"

#define GS_DEVICE_NAME_BYTES 64

struct gs_state {
    pid_t pid;                   /* immutable: of the process that started */
    bool active;                 /* immutable: false = forward everything */
    bool forked_child;           /* immutable: its parent made CUDA calls, too */
    struct gs_options options;   /* immutable */
    struct gs_stacks *stacks;    /* immutable pointer; NULL = none; locks itself */
    struct gs_tracker *tracker;  /* likewise */
    struct gs_pool *pool;        /* likewise */
    struct gs_pool *host_pool;   /* likewise: pinned memory; not without the pool */
    struct gs_contexts contexts; /* locks itself */
    int reported;                /* atomic: enum reported of finish.c, or a thread's id */
    bool bad; /* there were leaks or errors; set before `reported` says written */
    /* Of devices seen, written under contexts.lock, read at exit. */
    char device_names[GS_MAX_DEVICES][GS_DEVICE_NAME_BYTES];
    int device_count; /* one more than the highest ordinal seen; atomic */
};

/* The state, started if need be; NULL where every call is to be forwarded. */
struct gs_state *gs_state(void);
/* The state if it was started and is active, else NULL. Async-signal-safe. */
struct gs_state *gs_state_peek(void);

/* In a forked child: there is none. */
void gs_state_forget(void);

/* The state once it is active and the driver is complete, which neither ever ceases to
 * be; NULL before, and in a forked child. Atomic. */
extern struct gs_state *gs_state_ready __attribute__((visibility("hidden")));

/* What gs_enter does while there is none: looks for the driver, starts. Keeps errno. */
struct gs_state *gs_enter_first(void) __attribute__((cold, noinline));

/* The program's errno, for gs_leave. */
static inline void gs_keep_errno(void)
{
    gs_thread.saved_errno = *gs_thread_errno();
}

/*
 * Enter a wrapper: the state, or NULL if the call is to be forwarded as it is (re-entered
 * from within a wrapper, switched off, no complete driver). After a non-NULL answer
 * gs_leave is due. The program's errno is as it was once gs_leave returns.
 */
static inline struct gs_state *gs_enter(void)
{
    struct gs_state *state = __atomic_load_n(&gs_state_ready, __ATOMIC_ACQUIRE);
    gs_lock_record_reentry(gs_thread.depth > 0);
    if (GS_UNLIKELY(gs_thread.depth > 0)) {
        return NULL;
    }
    if (GS_UNLIKELY(!state)) {
        state = gs_enter_first();
        if (!state) {
            return NULL;
        }
    }
    gs_keep_errno();
    gs_thread.depth = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return state;
}

static inline void gs_leave(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    gs_thread.depth = 0;
    *gs_thread.errno_at = gs_thread.saved_errno;
}

/*
 * The same for a path on which nothing is called that could change errno: NULL, with
 * nothing done, also where something has to be got ready first. Before anything is called
 * gs_keep_errno is due, and then gs_leave in the place of gs_leave_lightly.
 */
static inline struct gs_state *gs_enter_lightly(void)
{
    struct gs_state *state = __atomic_load_n(&gs_state_ready, __ATOMIC_ACQUIRE);
    if (GS_UNLIKELY(gs_thread.depth > 0 || !state)) {
        return NULL;
    }
    gs_thread.depth = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return state;
}

static inline void gs_leave_lightly(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    gs_thread.depth = 0;
}

/* gs_context_current if it is the one that the thread has seen last, else NULL. */
static inline const struct gs_context *gs_context_again(const struct gs_state *state)
{
    const struct gs_real *real = __atomic_load_n(&gs_real_found, __ATOMIC_ACQUIRE);
    CUcontext handle = NULL;
    if (GS_UNLIKELY(!real || real->cuCtxGetCurrent(&handle) != CUDA_SUCCESS)) {
        return NULL;
    }
    const struct gs_context *last = gs_thread.context;
    return GS_LIKELY(last && last->handle == handle) &&
                   GS_LIKELY(
                       gs_thread.context_generation ==
                       __atomic_load_n(&state->contexts.generation, __ATOMIC_ACQUIRE))
               ? last
               : NULL;
}

/*
 * Whether a call that is to be forwarded (gs_enter gave NULL) carries a pointer of the
 * pool's, which the driver must never see. Happens only where a wrapper was interrupted,
 * by a signal handler that frees. Takes no lock.
 */
bool gs_owned_by_pool(CUdeviceptr dptr);

#endif
