/*
 * event_ipc.c - events that processes share.
 *
 * The entry of an event has places for its newest 32 records. A place says by the highest
 * number done in it: a wait for a record is misled only if 32 later ones were made while
 * that one was still running. A record whose process has ended counts as done: its device
 * work is gone, and nobody would ever say so.
 *
 * Owns:  shares.   Lock: none.
 * Source: Driver API, "Event Management".
 */
#include "event_ipc.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "context.h"
#include "event.h"
#include "ipc.h"
#include "sched.h"

#define POLL_NS       20000
#define POLLS_A_CHECK 500 /* of whether the recording process still runs */

struct sim_event_share {
    atomic_uint refs;
    atomic_uint entry_in_ledger; /* of an own event; 0: another process's, or closed */
    struct sim_process *process; /* with a reference */
    struct sim_entry *entry;     /* in its ledger */
    uint32_t serial;             /* of the entry's use */
    uint64_t before;             /* records of the entry's earlier uses */
};

static struct sim_event_share *new_share(const struct sim_name *name,
                                         struct sim_process *process)
{
    struct sim_event_share *share = calloc(1, sizeof(*share));

    if (!share)
        return NULL;
    atomic_init(&share->refs, 1);
    share->process = process;
    share->entry = &process->ledger->entries[name->entry];
    share->serial = name->serial;
    return share;
}

static void unref(struct sim_event_share *share)
{
    if (atomic_fetch_sub_explicit(&share->refs, 1, memory_order_acq_rel) != 1)
        return;
    sim_process_detach(share->process);
    free(share);
}

CUresult sim_event_share_new(int device, struct sim_event_share **out)
{
    const struct sim_shared shared = {.kind = SIM_SHARE_EVENT, .device = device};
    struct sim_process *process;
    struct sim_name name;
    atomic_uint index = 0;

    SIM_TRY(sim_ledger_enter(&index, &shared, -1, &name));
    struct sim_event_share *share = NULL;
    if (sim_process_attach(&name, &process) == CUDA_SUCCESS) {
        share = new_share(&name, process);
        if (!share)
            sim_process_detach(process);
    }
    if (!share) {
        sim_ledger_strike(&index);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_init(&share->entry_in_ledger, atomic_load(&index));
    share->before = share->entry->shared.before;
    *out = share;
    return CUDA_SUCCESS;
}

void sim_event_share_close(struct sim_event_share *share)
{
    sim_ledger_strike(&share->entry_in_ledger);
    unref(share);
}

static bool is_over(const struct sim_event_share *share)
{
    return atomic_load_explicit(&share->entry->serial, memory_order_acquire) !=
           share->serial;
}

static struct sim_record *place_of(const struct sim_event_share *share, uint64_t record)
{
    return &share->entry->records[record % SIM_EVENT_RECORDS];
}

/* The highest number wins: records may end in another order than they were made. */
static void say_done(const struct sim_event_share *share, uint64_t record)
{
    atomic_ullong *done = &place_of(share, record)->done;
    unsigned long long before = atomic_load_explicit(done, memory_order_relaxed);

    while (before < record &&
           !atomic_compare_exchange_weak_explicit(
               done, &before, record, memory_order_release, memory_order_relaxed))
        ;
}

void sim_event_share_begin(struct sim_event_share *share, struct sim_op *op)
{
    if (is_over(share))
        return;
    uint64_t record = 1 + atomic_fetch_add(&share->entry->recorded, 1);
    struct sim_record *place = place_of(share, record);

    atomic_store_explicit(&place->by, getpid(), memory_order_relaxed);
    atomic_store_explicit(&place->begun, record, memory_order_release);
    atomic_fetch_add_explicit(&share->refs, 1, memory_order_relaxed);
    op->mark = (struct sim_mark){share, record};
    op->run_on_error = true;
}

void sim_event_share_end_op(struct sim_op *op)
{
    struct sim_event_share *share = op->mark.share;

    op->mark.share = NULL;
    if (op->kind == SIM_OP_EVENT)
        say_done(share, op->mark.record);
    unref(share);
}

static bool is_done(const struct sim_event_share *share, uint64_t record)
{
    return record <= share->before || is_over(share) ||
           atomic_load_explicit(&place_of(share, record)->done, memory_order_acquire) >=
               record;
}

/* Did the process that made this record end before it was done? */
static bool is_lost(const struct sim_event_share *share, uint64_t record)
{
    struct sim_record *place = place_of(share, record);

    return atomic_load_explicit(&place->begun, memory_order_acquire) == record &&
           sim_process_is_gone(atomic_load_explicit(&place->by, memory_order_relaxed));
}

/* Between two looks: let others run, then sleep a little. */
static void pause_once(const struct sim_event_share *share, uint64_t record,
                       unsigned *looks)
{
    const struct timespec pause = {0, POLL_NS};

    if (++*looks % POLLS_A_CHECK == 0 && is_lost(share, record))
        say_done(share, record);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static CUresult run_wait(struct sim_op *op)
{
    unsigned looks = 0;

    while (!is_done(op->mark.share, op->mark.record))
        pause_once(op->mark.share, op->mark.record, &looks);
    return CUDA_SUCCESS;
}

static bool wait_is_over(struct sim_op *op)
{
    const struct sim_mark *mark = &op->mark;

    return is_done(mark->share, mark->record) || is_lost(mark->share, mark->record);
}

void sim_event_share_wait_in(struct sim_event_share *share, struct sim_op *op)
{
    atomic_fetch_add_explicit(&share->refs, 1, memory_order_relaxed);
    op->mark = (struct sim_mark){share, atomic_load(&share->entry->recorded)};
    op->run = run_wait;
    op->ready = wait_is_over;
}

bool sim_event_share_is_elsewhere(const struct sim_event_share *share,
                                  const struct sim_op *own)
{
    uint64_t newest = atomic_load_explicit(&share->entry->recorded, memory_order_acquire);

    return !is_over(share) && newest > share->before &&
           (!own || own->mark.record != newest);
}

bool sim_event_share_is_done(const struct sim_event_share *share)
{
    uint64_t newest = atomic_load_explicit(&share->entry->recorded, memory_order_acquire);

    return is_done(share, newest) || is_lost(share, newest);
}

void sim_event_share_wait(const struct sim_event_share *share)
{
    uint64_t newest = atomic_load_explicit(&share->entry->recorded, memory_order_acquire);
    unsigned looks = 0;

    while (!is_done(share, newest)) {
        sim_sched_point();
        pause_once(share, newest, &looks);
    }
}

SIM_API(cuIpcGetEventHandle, CUipcEventHandle *out, CUevent handle)
{
    SIM_JUDGED_FIRST(!out || !handle, CUDA_ERROR_INVALID_VALUE);

    const struct sim_shared shared = {.kind = SIM_SHARE_EVENT};
    struct sim_name name;

    SIM_TRY(sim_enter(SIM_ID_cuIpcGetEventHandle));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_event *event = sim_event_get(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult res =
        CUDA_ERROR_INVALID_HANDLE; /* one that was opened here is not exported again */
    if (event->share && atomic_load(&event->share->entry_in_ledger))
        res = sim_ledger_enter(&event->share->entry_in_ledger, &shared, -1, &name);
    sim_event_put(event);
    if (res == CUDA_SUCCESS)
        memcpy(out, &name, sizeof(name));
    return res;
}

/* The share behind a name of another process's. */
static CUresult open_share(const struct sim_name *name, struct sim_event_share **out)
{
    struct sim_process *process;
    struct sim_shared shared;

    if (!sim_name_is_valid(name, SIM_SHARE_EVENT))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult res = sim_process_attach(name, &process);
    if (res != CUDA_SUCCESS)
        return res;
    struct sim_event_share *share = NULL;
    if (process->is_own)
        res = CUDA_ERROR_INVALID_CONTEXT;
    else if (!sim_entry_read(&process->ledger->entries[name->entry], name->serial,
                             SIM_SHARE_EVENT, &shared))
        res = CUDA_ERROR_INVALID_VALUE;
    else if ((share = new_share(name, process)) == NULL)
        res = CUDA_ERROR_OUT_OF_MEMORY;
    if (res != CUDA_SUCCESS) {
        sim_process_detach(process);
        return res;
    }
    share->before = shared.before;
    *out = share;
    return CUDA_SUCCESS;
}

SIM_API(cuIpcOpenEventHandle, CUevent *out, CUipcEventHandle handle)
{
    SIM_JUDGED_FIRST(!out, CUDA_ERROR_INVALID_VALUE);

    struct sim_context *context;
    struct sim_event_share *share;
    struct sim_name name;

    SIM_TRY(sim_enter_context(SIM_ID_cuIpcOpenEventHandle, &context));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&name, &handle, sizeof(name));
    CUresult res = open_share(&name, &share);
    return res == CUDA_SUCCESS
               ? sim_event_create(context, CU_EVENT_DISABLE_TIMING, share, out)
               : res;
}
