/*
 * thread_slots.h - which thread has which slot, and how others are kept out of it.
 *
 * A slot has one thread, which goes in and out with plain stores: no atomic exchange, no
 * line that another thread writes. Who wants to look inside takes the slot's lock, says
 * so in `wanted`, makes sure that every thread has passed a full barrier (membarrier),
 * and looks whether the owner is inside: an owner whose `busy` could not be seen yet is
 * bound to see `wanted`, and goes for the lock. Where the kernel has no such call the
 * owner's store is an exchange, a barrier by itself.
 *
 * With more threads than slots some share one; all of these take its lock. A thread's end
 * gives its slot back.
 *
 * Slots are the process's, not a tracker's: what lies in slot n of any tracker (struct
 * gs_shard) is guarded by gate n.
 *
 * Owns:  gates and the register of slots (thread_slots.c).
 * Lock:  a gate's own, GS_RANK_SHARD; the register's, GS_RANK_SLOTS.
 * Source: membarrier(2).   Design: docs/tracker.md, "Threads"
 */
#ifndef GS_THREAD_SLOTS_H
#define GS_THREAD_SLOTS_H

#include "gs_base.h"
#include "tracker_lock.h"

#define GS_SHARDS 64u

/* Why an owner has to take the lock. */
#define GS_GATE_CLOSED 1u /* somebody looks inside */
#define GS_GATE_SHARED 2u /* the slot has, or had, several threads */

struct gs_gate {
    uint32_t busy;               /* atomic: the owner is inside, without the lock */
    uint32_t wanted;             /* atomic: GS_GATE_*; written under lock */
    uint32_t locked;             /* who is inside holds the lock; theirs who are inside */
    uint32_t number;             /* of the slot; written before anybody has it */
    struct gs_tracker_lock lock; /* GS_RANK_SHARD */
} __attribute__((aligned(128)));

extern struct gs_gate gs_gates[GS_SHARDS] __attribute__((visibility("hidden")));
/* Is the kernel asked for barriers? Atomic; falls to false once it refuses. */
extern uint32_t gs_gates_asymmetric __attribute__((visibility("hidden")));

/* No slot from this on was ever had; atomic, grows under the register's lock. */
extern uint32_t gs_slots_used __attribute__((visibility("hidden")));

/* The gate of this thread's slot, NULL before its first call. Lock: thread-local. */
extern __thread struct gs_gate *gs_own_gate
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* A slot for the calling thread: its own, or shared where all are taken. Returns its
 * gate. Preserves errno. Locks: takes the register's; none of the tracker's is held. */
struct gs_gate *gs_slot_assign(void) __attribute__((cold, noinline));
/* The calling thread, which has none, takes slot `number` and shares it from now on with
 * whoever has it. Locks: as gs_slot_assign. */
void gs_slot_join(uint32_t number);

/* Where gs_gate_enter finds that the gate is wanted. */
void gs_gate_enter_slowly(struct gs_gate *gate) __attribute__((cold, noinline));
void gs_gate_leave_slowly(struct gs_gate *gate) __attribute__((cold, noinline));

/*
 * Close one gate, if that takes no wait for its lock. True: it is locked and marked; it
 * is the caller's after gs_gates_barrier and once gs_gate_is_empty, and must be opened.
 */
bool gs_gate_try_close(struct gs_gate *gate);
void gs_gate_open(struct gs_gate *gate);
/* Every thread has passed a full barrier since. Preserves errno. */
void gs_gates_barrier(void);
/* Has the owner of a closed gate left it? */
static inline bool gs_gate_is_empty(const struct gs_gate *gate)
{
    return __atomic_load_n(&gate->busy, __ATOMIC_SEQ_CST) == 0;
}

/* Close all gates and wait until nobody is inside any; the caller is in none. */
void gs_gates_close_all(void);
void gs_gates_open_all(void);

/* In a forked child: no other thread has a slot, and none is inside. */
void gs_slots_after_fork_in_child(void);

/* The owner goes in. */
static inline void gs_gate_enter(struct gs_gate *gate)
{
    gs_lock_check_take(GS_RANK_SHARD);
    if (GS_LIKELY(__atomic_load_n(&gs_gates_asymmetric, __ATOMIC_RELAXED) != 0)) {
        __atomic_store_n(&gate->busy, 1, __ATOMIC_RELAXED);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    } else {
        (void)__atomic_exchange_n(&gate->busy, 1, __ATOMIC_SEQ_CST);
    }
    if (GS_UNLIKELY(__atomic_load_n(&gate->wanted, __ATOMIC_SEQ_CST) != 0))
        gs_gate_enter_slowly(gate);
    gs_lock_record_held(GS_RANK_SHARD);
}

static inline void gs_gate_leave(struct gs_gate *gate)
{
    if (GS_UNLIKELY(gate->locked != 0))
        gs_gate_leave_slowly(gate);
    else
        __atomic_store_n(&gate->busy, 0, __ATOMIC_RELEASE);
    gs_lock_record_given(GS_RANK_SHARD);
}

#endif
