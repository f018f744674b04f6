/*
 * notify.h - simulator notifications: report the shim's own actions to a simulated
 * driver, so that the simulator can distinguish an unsafe reuse or an extra wait from the
 * program's own actions. A real driver has no such function; then these functions do
 * nothing.
 *
 * Owns: nothing.   Lock: none. With a heap's lock held only gs_notify_retire may be
 * called: in the other functions the simulator may switch to another thread.
 * Design: docs/simulator.md, "The oracle"; include/cudasim_notify.h
 */
#ifndef GS_NOTIFY_H
#define GS_NOTIFY_H

#include "cudasim_notify.h"
#include "shim/cuda/cuda_names.h"

/* Set once with the driver's table (real.c), then immutable; NULL: no simulator. */
extern cudasim_notify_function *gs_notify_to __attribute__((visibility("hidden")));

static inline bool gs_notified(void)
{
    return GS_UNLIKELY(gs_notify_to != NULL);
}

/* Sends notifications to this function from now on, if it accepts them; NULL is
 * allowed. */
void gs_notify_find(void *function);

/* Out of line, so that a caller pays only for the test. */
#define GS_NOTIFY_COLD __attribute__((cold, noinline))
GS_NOTIFY_COLD void gs_notify_enter(const char *call, bool native_waits);
GS_NOTIFY_COLD void gs_notify_enter_free(const char *call, uint64_t addr, size_t bytes);
GS_NOTIFY_COLD void gs_notify_plain(enum cudasim_note_kind kind);
/* Rows of events.def, called while gs_notified(). `ordered`: in the order of the stream.
 * At a free the simulator may switch to another thread. */
GS_NOTIFY_COLD void gs_notify_hand_out(enum gs_api api, uint64_t addr, size_t bytes,
                                       CUstream stream, bool ordered);
GS_NOTIFY_COLD void gs_notify_take_back(enum gs_api api, uint64_t addr);
GS_NOTIFY_COLD void gs_notify_take_back_in(enum gs_api api, uint64_t addr,
                                           CUstream stream, bool per_thread);
GS_NOTIFY_COLD void gs_notify_proof(uint64_t addr, CUevent event);
/* Reports one of several events that together prove a reuse safe; `more` follow. */
GS_NOTIFY_COLD void gs_notify_proof_of(uint64_t addr, CUevent event, unsigned more);

/* The driver calls up to gs_notify_end are the shim's own, on behalf of `call`;
 * native_waits: the program's call itself would wait for the context's work. Nests. */
static inline void gs_notify_begin(const char *call, bool native_waits)
{
    if (gs_notified()) {
        gs_notify_enter(call, native_waits);
    }
}

/* Like gs_notify_begin, on behalf of a free of this memory. The kind and size of the
 * memory determine the native wait. */
static inline void gs_notify_free(const char *call, uint64_t addr, size_t bytes)
{
    if (gs_notified()) {
        gs_notify_enter_free(call, addr, bytes);
    }
}

static inline void gs_notify_end(void)
{
    if (gs_notified()) {
        gs_notify_plain(CUDASIM_LEAVE);
    }
}

/* The answer to `call`, which the library makes on behalf of the program's call `of`. */
#define GS_ON_BEHALF(of, native_waits, call)                                             \
    ({                                                                                   \
        gs_notify_begin(of, native_waits);                                               \
        __typeof__(call) answered = (call);                                              \
        gs_notify_end();                                                                 \
        answered;                                                                        \
    })

/* The driver calls up to gs_notify_back represent the program's own call. */
static inline void gs_notify_forward(void)
{
    if (gs_notified()) {
        gs_notify_plain(CUDASIM_FORWARD);
    }
}

static inline void gs_notify_back(void)
{
    if (gs_notified()) {
        gs_notify_plain(CUDASIM_BACK);
    }
}

/* The block may be reused, because this event was found complete; NULL: because of a wait
 * of this thread. */
static inline void gs_notify_retire(uint64_t addr, CUevent event)
{
    if (gs_notified()) {
        gs_notify_proof(addr, event);
    }
}

#endif
