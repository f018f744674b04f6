/*
 * state.h - the whole state of a process that has made its first CUDA call.
 *
 * All state is reached through one pointer, so that a forked child starts as if the
 * library had never been used: it drops the pointer, and with it everything that its
 * parent's threads were changing.
 *
 * Lock: the pointer is atomic; each member documents its own.
 */
#ifndef GS_STATE_H
#define GS_STATE_H

#include <errno.h>
#include <signal.h>
#include <sys/types.h>

#include "pool/pool.h"
#include "shim/link/real.h"
#include "shim/settings/options.h"
#include "shim/settings/thread.h"
#include "shim/state/contexts.h"
#include "tracker/tracker.h"

#define GS_DEVICE_NAME_BYTES 64
#define GS_DEVICE_UUID_BYTES 48 /* "GPU-", 32 digits and 4 hyphens */
#define GS_DEVICE_BUS_BYTES  24 /* "0000:3b:00.0"; a domain may have 32 bits */

struct gs_state {
    pid_t pid;                   /* immutable: the process that started */
    bool active;                 /* immutable: false = forward every call */
    bool forked_child;           /* immutable: the parent made CUDA calls, too */
    struct gs_options options;   /* immutable; fields of settable.def: atomic */
    struct gs_stacks *stacks;    /* immutable pointer; NULL = none; locks itself */
    struct gs_tracker *tracker;  /* likewise */
    struct gs_pool *pool;        /* likewise */
    struct gs_pool *host_pool;   /* likewise: pinned memory; exists only with the pool */
    struct gs_contexts contexts; /* locks itself */
    int reported;                /* atomic: enum reported of finish.c, or a thread's id */
    bool bad;      /* there were leaks or errors; set before `reported` says written */
    bool detached; /* atomic: nothing is reported until the next gpushim attach */
    /* Names of the known devices, written once, under contexts.lock. */
    char device_names[GS_MAX_DEVICES][GS_DEVICE_NAME_BYTES];
    char device_buses[GS_MAX_DEVICES][GS_DEVICE_BUS_BYTES];  /* likewise; "": unknown */
    char device_uuids[GS_MAX_DEVICES][GS_DEVICE_UUID_BYTES]; /* likewise */
    bool device_named[GS_MAX_DEVICES]; /* atomic: set after the names, read before them */
    int device_count;                  /* highest known ordinal plus one; atomic */
};

/* The state, created at the first call; NULL if every call is to be forwarded. */
struct gs_state *gs_state(void);
/* The state if it exists and is active, else NULL. Async-signal-safe. */
struct gs_state *gs_state_peek(void);
/* Atomic. True from the first call on: also while a thread creates the state. */
extern bool gs_state_begun;

/* In a forked child: drops the state. */
void gs_state_forget(void);

/*
 * In a forked child: claims the reset of the library for the caller, who must call
 * gs_state_claimed when all state is dropped. Waits while another thread resets. Signals
 * are blocked from the claim on; gs_state_claimed restores them, as does a claim in vain.
 *
 * Out:    false: the library was reset, or the process is no child
 * Limit:  Linux before 4.14 does not tell a child from its parent: true for every caller
 */
bool gs_state_claim(sigset_t *was);
void gs_state_claimed(const sigset_t *was);

/* Resets the library in a child whose fork ran no handler: clone or another system call
 * made it. Call before anything that its parent's state leads to. */
void gs_state_check_child(void);

/* The largest page of the architecture. */
#if defined(__x86_64__)
#define GS_STATE_ROOTS_BYTES 4096
#else
#define GS_STATE_ROOTS_BYTES 65536
#endif

/*
 * The pointers to the state of the process, on pages of their own: the kernel clears them
 * in each child that gets a copy of the memory (MADV_WIPEONFORK). A child lacks other
 * pages (MADV_DONTFORK), and must find none of the state that refers to them, by whatever
 * system call it was made.
 */
struct gs_state_roots {
    /* The state once it is active and the driver is complete, both of which are
     * permanent; NULL before, and in a child. Atomic. */
    struct gs_state *ready;
    struct gs_state *current; /* atomic; of state.c alone, as is the next */
    int owner;                /* atomic: enum owner */
} __attribute__((aligned(GS_STATE_ROOTS_BYTES)));

extern struct gs_state_roots gs_state_roots __attribute__((visibility("hidden")));

/* The slow path of gs_enter while there is no state: finds the driver, starts. Preserves
 * errno. */
struct gs_state *gs_enter_first(void) __attribute__((cold, noinline));

/* Saves the program's errno for gs_leave. */
static inline void gs_keep_errno(void)
{
    gs_thread.saved_errno = *gs_thread_errno();
}

/*
 * Enters a wrapper. Returns the state, or NULL if the call is to be forwarded unchanged
 * (re-entered from within a wrapper, switched off, incomplete driver). After a non-NULL
 * result gs_leave must follow; it restores the program's errno.
 */
static inline struct gs_state *gs_enter(void)
{
    struct gs_state *state = __atomic_load_n(&gs_state_roots.ready, __ATOMIC_ACQUIRE);
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

/* Runs the statement within the library, as a wrapper does, if `enter` gives a `state`.
 */
#define GS_WITHIN(enter, statement)                                                      \
    do {                                                                                 \
        struct gs_state *state = (enter);                                                \
        if (state) {                                                                     \
            statement;                                                                   \
            gs_leave();                                                                  \
        }                                                                                \
    } while (0)

/*
 * Like gs_enter, for a path that calls nothing which could change errno. Also returns
 * NULL, with nothing done, if preparation is needed first. A path that does call
 * something calls gs_keep_errno before, and gs_leave instead of gs_leave_fast.
 */
static inline struct gs_state *gs_enter_fast(void)
{
    struct gs_state *state = __atomic_load_n(&gs_state_roots.ready, __ATOMIC_ACQUIRE);
    if (GS_UNLIKELY(gs_thread.depth > 0 || !state)) {
        return NULL;
    }
    gs_thread.depth = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return state;
}

static inline void gs_leave_fast(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    gs_thread.depth = 0;
}

/* gs_context_current if the thread's last known context is still current, else NULL. */
static inline const struct gs_context *gs_context_cached(const struct gs_state *state)
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
 * Returns true if a call that is to be forwarded (gs_enter gave NULL) has a pointer into
 * the pool's memory, which the driver must never get. Happens only where a signal handler
 * interrupted a wrapper and frees. Takes no lock.
 */
bool gs_owned_by_pool(CUdeviceptr dptr);

#endif
