/*
 * announce.h - says to a simulated driver what the shim does on its own account, so that
 * an unsafe reuse or a wait too many can be told from the program's own. A real driver
 * has no such function: then nothing here does anything.
 *
 * Owns: nothing.   Lock: none. With a heap's lock held only gs_announce_retire may be
 * called: the others are places where another thread may go on.
 * Design: docs/simulator.md, "The oracle"; include/cudasim_announce.h
 */
#ifndef GS_ANNOUNCE_H
#define GS_ANNOUNCE_H

#include "cuda_names.h"
#include "cudasim_announce.h"

/* Set once with the driver's table (real.c), immutable after; NULL: nobody listens. */
extern cudasim_announce_function *gs_announce_to __attribute__((visibility("hidden")));

static inline bool gs_announced(void)
{
    return GS_UNLIKELY(gs_announce_to != NULL);
}

/* Speak to that function from now on, if it wants to hear; NULL is allowed. */
void gs_announce_find(void *function);

/* Out of line, so that a caller pays for the question alone. */
#define GS_ANNOUNCE_COLD __attribute__((cold, noinline))
GS_ANNOUNCE_COLD void gs_announce_enter(const char *call, bool native_waits);
GS_ANNOUNCE_COLD void gs_announce_enter_free(const char *call, uint64_t addr,
                                             size_t bytes);
GS_ANNOUNCE_COLD void gs_announce_plain(enum cudasim_note_kind kind);
GS_ANNOUNCE_COLD void gs_announce_block(enum cudasim_note_kind kind, const char *call,
                                        uint64_t addr, size_t bytes);
GS_ANNOUNCE_COLD void gs_announce_ordered(enum cudasim_note_kind kind, const char *call,
                                          uint64_t addr, CUstream stream,
                                          bool per_thread);
GS_ANNOUNCE_COLD void gs_announce_block_in(const char *call, uint64_t addr, size_t bytes,
                                           CUstream stream);
GS_ANNOUNCE_COLD void gs_announce_proof(uint64_t addr, CUevent event);
/* One of several events that prove it together; `more` are told next. */
GS_ANNOUNCE_COLD void gs_announce_proof_of(uint64_t addr, CUevent event, unsigned more);

/* The driver calls up to gs_announce_end are the shim's own, in the service of `call`;
 * native_waits: the program's call would wait for the context's work by itself. Nests. */
static inline void gs_announce_begin(const char *call, bool native_waits)
{
    if (gs_announced()) {
        gs_announce_enter(call, native_waits);
    }
}

/* The same, in the service of the free of that memory, which natively waits for what its
 * kind and size say. */
static inline void gs_announce_free(const char *call, uint64_t addr, size_t bytes)
{
    if (gs_announced()) {
        gs_announce_enter_free(call, addr, bytes);
    }
}

static inline void gs_announce_end(void)
{
    if (gs_announced()) {
        gs_announce_plain(CUDASIM_LEAVE);
    }
}

/* The program gets a block. */
static inline void gs_announce_hand_out(const char *call, uint64_t addr, size_t bytes)
{
    if (gs_announced()) {
        gs_announce_block(CUDASIM_HAND_OUT, call, addr, bytes);
    }
}

/* The same, in the order of a stream. */
static inline void gs_announce_hand_out_in(const char *call, uint64_t addr, size_t bytes,
                                           CUstream stream)
{
    if (gs_announced()) {
        gs_announce_block_in(call, addr, bytes, stream);
    }
}

/* The program freed it; whatever the free waits for, it has waited for. Another thread
 * may go on here. */
static inline void gs_announce_take_back(const char *call, uint64_t addr)
{
    if (gs_announced()) {
        gs_announce_block(CUDASIM_TAKE_BACK, call, addr, 0);
        gs_announce_plain(CUDASIM_YIELD);
    }
}

/* The program freed it in the order of a stream. */
static inline void gs_announce_take_back_in(const char *call, uint64_t addr,
                                            CUstream stream, bool per_thread)
{
    if (gs_announced()) {
        gs_announce_ordered(CUDASIM_TAKE_BACK, call, addr, stream, per_thread);
        gs_announce_plain(CUDASIM_YIELD);
    }
}

/* Its memory may be handed out again, because that event was seen complete; NULL:
 * because of a wait of this thread. */
static inline void gs_announce_retire(uint64_t addr, CUevent event)
{
    if (gs_announced()) {
        gs_announce_proof(addr, event);
    }
}

#endif
