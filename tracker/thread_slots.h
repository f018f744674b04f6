/*
 * thread_slots.h - assigns slots to threads, and excludes threads from their slots.
 *
 * A slot has one thread, which enters and leaves it with plain stores: no atomic
 * exchange, no line that another thread writes. A thread that needs to read another's
 * slot takes the slot's lock, sets `wanted`, forces a full barrier on every thread
 * (membarrier), and checks whether the owner is inside. An owner whose `busy` was not yet
 * visible is bound to see `wanted`, and takes the lock. Where the kernel lacks that call,
 * the owner's store is an atomic exchange, a barrier by itself.
 *
 * With more threads than slots some share one; all of these take its lock. A thread's end
 * frees its slot.
 *
 * Slots belong to the process, not to a tracker: gate n guards slot n of every tracker
 * (struct gs_shard).
 *
 * Owns:  gates and the registry of slots (thread_slots.c).
 * Lock:  a gate's own, GS_RANK_SHARD; the registry's, GS_RANK_SLOTS.
 * Source: membarrier(2).   Design: docs/tracker.md
 */
#ifndef GS_THREAD_SLOTS_H
#define GS_THREAD_SLOTS_H

#include "gs_base.h"
#include "tracker/tracker_lock.h"

#define GS_SHARDS 64u

/* Reasons for an owner to take the lock. */
#define GS_GATE_CLOSED 1u /* another thread reads the slot */
#define GS_GATE_SHARED 2u /* the slot has, or had, several threads */

struct gs_gate {
    uint32_t busy;               /* atomic: the owner is inside, without the lock */
    uint32_t wanted;             /* atomic: GS_GATE_*; written under lock */
    uint32_t locked;             /* the thread inside holds the lock; written inside */
    uint32_t number;             /* of the slot; written before its first thread */
    struct gs_tracker_lock lock; /* GS_RANK_SHARD */
} __attribute__((aligned(128)));

extern struct gs_gate gs_gates[GS_SHARDS] __attribute__((visibility("hidden")));
/* True if the kernel forces barriers. Atomic; becomes false once the kernel refuses. */
extern uint32_t gs_gates_asymmetric __attribute__((visibility("hidden")));

/* Slots from this one on were never assigned; atomic, grows under the registry's lock. */
extern uint32_t gs_slots_used __attribute__((visibility("hidden")));

/* The gate of this thread's slot, NULL before its first call. Lock: thread-local. */
extern __thread struct gs_gate *gs_own_gate
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Assigns a slot to the calling thread: its own, or a shared one if all are taken.
 * Returns its gate. Preserves errno. Locks: takes the registry's; holds none of the
 * tracker's. */
struct gs_gate *gs_slot_assign(void) __attribute__((cold, noinline));
/* Assigns slot `number` to the calling thread, which has none; the slot is shared from
 * now on. Locks: as gs_slot_assign. */
void gs_slot_join(uint32_t number);

/* The slow paths of gs_slot_enter, if the gate is wanted, and of gs_slot_leave. */
void gs_slot_enter_slowly(struct gs_gate *gate) __attribute__((cold, noinline));
void gs_slot_leave_slowly(struct gs_gate *gate) __attribute__((cold, noinline));

/*
 * Closes one gate, unless its lock is taken. True: the gate is locked and marked. The
 * slot is empty after gs_slots_barrier and gs_slot_is_empty. The caller must open the
 * gate.
 */
bool gs_slot_try_close(struct gs_gate *gate);
void gs_slot_open(struct gs_gate *gate);
/* Forces a full barrier on every thread. Preserves errno. */
void gs_slots_barrier(void);
/* Returns true if the owner of a closed gate has left it. */
static inline bool gs_slot_is_empty(const struct gs_gate *gate)
{
    return __atomic_load_n(&gate->busy, __ATOMIC_SEQ_CST) == 0;
}

/* Closes all gates and waits until no thread is inside any; the caller is in none. */
void gs_slots_close_all(void);
void gs_slots_open_all(void);

/* In a forked child: frees the slots of all other threads. */
void gs_slots_after_fork_in_child(void);

/* The owner enters its slot. */
static inline void gs_slot_enter(struct gs_gate *gate)
{
    gs_lock_check_take(GS_RANK_SHARD);
    if (GS_LIKELY(__atomic_load_n(&gs_gates_asymmetric, __ATOMIC_RELAXED) != 0)) {
        __atomic_store_n(&gate->busy, 1, __ATOMIC_RELAXED);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    } else {
        (void)__atomic_exchange_n(&gate->busy, 1, __ATOMIC_SEQ_CST);
    }
    if (GS_UNLIKELY(__atomic_load_n(&gate->wanted, __ATOMIC_SEQ_CST) != 0)) {
        gs_slot_enter_slowly(gate);
    }
    gs_lock_record_held(GS_RANK_SHARD);
}

static inline void gs_slot_leave(struct gs_gate *gate)
{
    if (GS_UNLIKELY(gate->locked != 0)) {
        gs_slot_leave_slowly(gate);
    } else {
        __atomic_store_n(&gate->busy, 0, __ATOMIC_RELEASE);
    }
    gs_lock_record_given(GS_RANK_SHARD);
}

#endif
