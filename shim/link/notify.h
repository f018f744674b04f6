/*
 * notify.h - says to a simulated driver what the shim does on its own account, so that
 * an unsafe reuse or a wait too many can be told from the program's own. A real driver
 * has no such function: then nothing here does anything.
 *
 * Owns: nothing.   Lock: none. With a heap's lock held only gs_notify_retire may be
 * called: the others are places where another thread may go on.
 * Design: docs/simulator.md, "The oracle"; include/cudasim_notify.h
 */
#ifndef GS_NOTIFY_H
#define GS_NOTIFY_H

#include "cuda_names.h"
#include "cudasim_notify.h"

/* Set once with the driver's table (real.c), immutable after; NULL: nobody listens. */
extern cudasim_notify_function *gs_notify_to __attribute__((visibility("hidden")));

static inline bool gs_notified(void)
{
    return GS_UNLIKELY(gs_notify_to != NULL);
}

/* Speak to that function from now on, if it wants to hear; NULL is allowed. */
void gs_notify_find(void *function);

/* Out of line, so that a caller pays for the question alone. */
#define GS_NOTIFY_COLD __attribute__((cold, noinline))
GS_NOTIFY_COLD void gs_notify_enter(const char *call, bool native_waits);
GS_NOTIFY_COLD void gs_notify_enter_free(const char *call, uint64_t addr, size_t bytes);
GS_NOTIFY_COLD void gs_notify_plain(enum cudasim_note_kind kind);
GS_NOTIFY_COLD void gs_notify_block(enum cudasim_note_kind kind, const char *call,
                                    uint64_t addr, size_t bytes);
GS_NOTIFY_COLD void gs_notify_ordered(enum cudasim_note_kind kind, const char *call,
                                      uint64_t addr, CUstream stream, bool per_thread);
GS_NOTIFY_COLD void gs_notify_block_in(const char *call, uint64_t addr, size_t bytes,
                                       CUstream stream);
GS_NOTIFY_COLD void gs_notify_proof(uint64_t addr, CUevent event);
/* One of several events that prove it together; `more` are told next. */
GS_NOTIFY_COLD void gs_notify_proof_of(uint64_t addr, CUevent event, unsigned more);

/* The driver calls up to gs_notify_end are the shim's own, in the service of `call`;
 * native_waits: the program's call would wait for the context's work by itself. Nests. */
static inline void gs_notify_begin(const char *call, bool native_waits)
{
    if (gs_notified()) {
        gs_notify_enter(call, native_waits);
    }
}

/* The same, in the service of the free of that memory, which natively waits for what its
 * kind and size say. */
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

/* The program gets a block. */
static inline void gs_notify_hand_out(const char *call, uint64_t addr, size_t bytes)
{
    if (gs_notified()) {
        gs_notify_block(CUDASIM_HAND_OUT, call, addr, bytes);
    }
}

/* The same, in the order of a stream. */
static inline void gs_notify_hand_out_in(const char *call, uint64_t addr, size_t bytes,
                                         CUstream stream)
{
    if (gs_notified()) {
        gs_notify_block_in(call, addr, bytes, stream);
    }
}

/* The program freed it; whatever the free waits for, it has waited for. Another thread
 * may go on here. */
static inline void gs_notify_take_back(const char *call, uint64_t addr)
{
    if (gs_notified()) {
        gs_notify_block(CUDASIM_TAKE_BACK, call, addr, 0);
        gs_notify_plain(CUDASIM_YIELD);
    }
}

/* The program freed it in the order of a stream. */
static inline void gs_notify_take_back_in(const char *call, uint64_t addr,
                                          CUstream stream, bool per_thread)
{
    if (gs_notified()) {
        gs_notify_ordered(CUDASIM_TAKE_BACK, call, addr, stream, per_thread);
        gs_notify_plain(CUDASIM_YIELD);
    }
}

/* Its memory may be handed out again, because that event was seen complete; NULL:
 * because of a wait of this thread. */
static inline void gs_notify_retire(uint64_t addr, CUevent event)
{
    if (gs_notified()) {
        gs_notify_proof(addr, event);
    }
}

#endif
