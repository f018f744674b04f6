/*
 * thread_slots.c - slots of threads: assigned, shared, returned, closed and opened.
 *
 * Owns:  gs_gates, the registry: the number of threads of each slot.
 * Lock:  the registry's lock for the counts; a gate's for its `wanted`.
 * Design: docs/tracker.md
 */
#include "tracker/thread_slots.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "gs_membarrier.h"
#include "gs_wait.h"

/* A thread is inside for a few instructions only, unless it was interrupted. */
#define SPINS  200
#define NAP_NS 20000
/* The wait after the kernel has refused a barrier: far longer than a store needs to
 * become visible. */
#define SETTLE_NS 10000000

struct gs_gate gs_gates[GS_SHARDS];
uint32_t gs_gates_asymmetric; /* written before the first slot, or by the barrier */
uint32_t gs_slots_used;
__thread struct gs_gate *gs_own_gate
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

static struct gs_tracker_lock registry;
static uint32_t users[GS_SHARDS]; /* threads of each slot; guarded by `registry` */
static uint32_t next_shared;      /* guarded by `registry` */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end; /* immutable after `once` */
static bool thread_end_set;      /* likewise */

void gs_slots_barrier(void)
{
    if (__atomic_load_n(&gs_gates_asymmetric, __ATOMIC_RELAXED) == 0 ||
        gs_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
        return;
    }
    /* The kernel now refuses the call: owners use exchanges from here on, and the nap
     * outlasts the stores made before. */
    __atomic_store_n(&gs_gates_asymmetric, 0, __ATOMIC_SEQ_CST);
    gs_nap(SETTLE_NS);
}

static void set_wanted(struct gs_gate *gate, uint32_t bits)
{
    __atomic_store_n(&gate->wanted, gate->wanted | bits, __ATOMIC_SEQ_CST);
}

static void wait_until_empty(const struct gs_gate *gate)
{
    struct gs_wait wait = {.spins = SPINS, .nap_ns = NAP_NS};

    while (!gs_slot_is_empty(gate)) {
        (void)gs_wait_step(&wait);
    }
}

/* ---- enter and leave -------------------------------------------------------------- */

void gs_slot_enter_slowly(struct gs_gate *gate)
{
    __atomic_store_n(&gate->busy, 0, __ATOMIC_SEQ_CST);
    gs_tracker_lock_take_raw(&gate->lock);
    gate->locked = 1;
}

void gs_slot_leave_slowly(struct gs_gate *gate)
{
    gate->locked = 0;
    gs_tracker_lock_give_raw(&gate->lock);
}

bool gs_slot_try_close(struct gs_gate *gate)
{
    if (!gs_tracker_lock_try_raw(&gate->lock)) {
        return false;
    }
    set_wanted(gate, GS_GATE_CLOSED);
    return true;
}

void gs_slot_open(struct gs_gate *gate)
{
    __atomic_store_n(&gate->wanted, gate->wanted & ~GS_GATE_CLOSED, __ATOMIC_SEQ_CST);
    gs_tracker_lock_give_raw(&gate->lock);
}

void gs_slots_close_all(void)
{
    gs_lock_check_take(GS_RANK_SHARD);
    for (unsigned i = 0; i < GS_SHARDS; i++) {
        gs_tracker_lock_take_raw(&gs_gates[i].lock);
        set_wanted(&gs_gates[i], GS_GATE_CLOSED);
    }
    gs_lock_record_held(GS_RANK_SHARD);
    gs_slots_barrier();
    for (unsigned i = 0; i < GS_SHARDS; i++) {
        wait_until_empty(&gs_gates[i]);
    }
}

void gs_slots_open_all(void)
{
    for (unsigned i = 0; i < GS_SHARDS; i++) {
        gs_slot_open(&gs_gates[i]);
    }
    gs_lock_record_given(GS_RANK_SHARD);
}

/* ---- the registry ---------------------------------------------------------------- */

/* The registry's lock is held: GS_GATE_SHARED changes under it. */
static bool is_shared(const struct gs_gate *gate)
{
    return (__atomic_load_n(&gate->wanted, __ATOMIC_RELAXED) & GS_GATE_SHARED) != 0;
}

/* Makes the slot shared. The registry's lock is held. */
static void make_shared(struct gs_gate *gate)
{
    gs_tracker_lock_take(&gate->lock, GS_RANK_SHARD);
    set_wanted(gate, GS_GATE_SHARED);
    gs_slots_barrier();
    wait_until_empty(gate);
    gs_tracker_lock_give(&gate->lock, GS_RANK_SHARD);
}

/* Resets the slot after its last thread. The registry's lock is held. */
static void reset_slot(struct gs_gate *gate)
{
    gs_tracker_lock_take(&gate->lock, GS_RANK_SHARD);
    __atomic_store_n(&gate->wanted, 0, __ATOMIC_SEQ_CST);
    gs_tracker_lock_give(&gate->lock, GS_RANK_SHARD);
}

/* Destructor of thread-specific data. If a later destructor frees memory, the thread gets
 * a new slot, and this function runs again. Signals are blocked: a handler could not know
 * that its thread holds the registry's lock, and would wait for it for ever. */
static void end_thread(void *unused)
{
    sigset_t all, before;

    (void)unused;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    struct gs_gate *gate = gs_own_gate;
    if (gate) {
        gs_own_gate = NULL;
        gs_tracker_lock_take(&registry, GS_RANK_SLOTS);
        if (--users[gate->number] == 0 && is_shared(gate)) {
            reset_slot(gate);
        }
        gs_tracker_lock_give(&registry, GS_RANK_SLOTS);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void prepare(void)
{
    thread_end_set = pthread_key_create(&thread_end, end_thread) == 0;
    __atomic_store_n(&gs_gates_asymmetric,
                     gs_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED),
                     __ATOMIC_SEQ_CST);
}

/* Registers the thread's end. Returns false if that fails: the thread must then share a
 * slot. */
static bool register_end(void)
{
    pthread_once(&once, prepare);
    return thread_end_set && pthread_setspecific(thread_end, gs_gates) == 0;
}

/* Gives the slot to the calling thread. The registry's lock is held. */
static void give_slot(uint32_t number)
{
    struct gs_gate *gate = &gs_gates[number];

    if (users[number]++ == 0) {
        gate->number = number;
    }
    if (number >= gs_slots_used) {
        __atomic_store_n(&gs_slots_used, number + 1, __ATOMIC_RELEASE);
    }
    gs_own_gate = gate;
}

static void join(uint32_t number)
{
    if (!is_shared(&gs_gates[number])) {
        make_shared(&gs_gates[number]);
    }
    give_slot(number);
}

void gs_slot_join(uint32_t number)
{
    (void)register_end();
    gs_tracker_lock_take(&registry, GS_RANK_SLOTS);
    join(number % GS_SHARDS);
    gs_tracker_lock_give(&registry, GS_RANK_SLOTS);
}

struct gs_gate *gs_slot_assign(void)
{
    int saved = errno;
    bool registered = register_end();
    uint32_t number = 0;

    gs_tracker_lock_take(&registry, GS_RANK_SLOTS);
    while (registered && number < GS_SHARDS && users[number] != 0) {
        number++;
    }
    if (registered && number < GS_SHARDS) {
        give_slot(number);
    } else {
        join(next_shared++ % GS_SHARDS);
    }
    gs_tracker_lock_give(&registry, GS_RANK_SLOTS);
    errno = saved;
    return gs_own_gate;
}

void gs_slots_after_fork_in_child(void)
{
    memset(gs_gates, 0, sizeof(gs_gates));
    memset(users, 0, sizeof(users));
    registry = (struct gs_tracker_lock){0};
    gs_own_gate = NULL;
    gs_slots_used = 0;
    gs_lock_forget_held();
    if (__atomic_load_n(&gs_gates_asymmetric, __ATOMIC_RELAXED) != 0) {
        __atomic_store_n(&gs_gates_asymmetric,
                         gs_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED),
                         __ATOMIC_SEQ_CST);
    }
}
