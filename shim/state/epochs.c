/*
 * epochs.c - the life of an epoch: open, closed, done.
 *
 * A close first takes the epoch out of `open`: later frees join another epoch, so the
 * event comes after every free of this one.
 *
 * Owns:  struct gs_epoch; all that are open or that a pending block refers to.
 * Lock:  epochs->lock for the states and the references.
 */
#include "shim/state/epochs.h"

#include <stdlib.h>

enum state { OPEN, CLOSING, CLOSED, ORDERED, DONE, BROKEN };

struct gs_epoch {
    struct gs_epochs *home; /* immutable */
    uint64_t number;        /* immutable: numbered in the order of opening */
    enum state state;       /* under home->lock, like all members below */
    unsigned references;    /* of pending blocks and of functions at work */
    unsigned frees;
    size_t bytes;
    uint64_t event;         /* from CLOSED on */
    struct gs_epoch *proof; /* from DONE on: whose event proved it done; NULL: its own */
};

/* The epoch as a fence: an epoch's address plus 1, hence odd; an event's address is
 * even. */
static gs_fence fence_of(struct gs_epoch *epoch)
{
    return (gs_fence)(uintptr_t)epoch | 1;
}

static struct gs_epoch *epoch_of(gs_fence fence)
{
    return (struct gs_epoch *)(uintptr_t)(fence & ~(gs_fence)1);
}

bool gs_epoch_is(gs_fence fence)
{
    return fence & 1;
}

void gs_epochs_init(struct gs_epochs *epochs, const struct gs_event_ops *event_ops,
                    void *self)
{
    *epochs = (struct gs_epochs){.event_ops = event_ops, .self = self, .room = SIZE_MAX};
    gs_lock_init(&epochs->lock, GS_RANK_EPOCHS);
}

void gs_epochs_headroom(struct gs_epochs *epochs, size_t bytes)
{
    __atomic_store_n(&epochs->room, bytes, __ATOMIC_RELAXED);
}

static void break_all(struct gs_epochs *epochs)
{
    __atomic_store_n(&epochs->broken, true, __ATOMIC_RELAXED);
}

/* The blocks of the epoch are ready, or no longer waited for. home->lock is held. */
static void release_bytes(struct gs_epoch *epoch)
{
    epoch->home->held -= epoch->bytes;
    epoch->bytes = 0;
}

/* Drops references; the last one frees the epoch. No lock is held. */
static void drop_many(struct gs_epoch *epoch, unsigned references)
{
    struct gs_epochs *home = epoch->home;
    gs_lock_take(&home->lock);
    epoch->references -= references;
    bool last = epoch->references == 0;
    struct gs_epoch *proof = NULL;
    if (last) {
        proof = epoch->proof;
        release_bytes(epoch);
        home->busy = home->busy == epoch->number ? 0 : home->busy;
        home->open = home->open == epoch ? NULL : home->open;
    }
    gs_lock_drop(&home->lock);
    if (last) {
        if (epoch->event) {
            home->event_ops->release(home->self, epoch->event);
        }
        free(epoch);
    }
    if (proof) { /* a proof has no proof itself */
        drop_many(proof, 1);
    }
}

static void drop(struct gs_epoch *epoch)
{
    drop_many(epoch, 1);
}

/* ---- frees ------------------------------------------------------------------------- */

static bool is_large_share(const struct gs_epochs *epochs, size_t bytes)
{
    size_t room = __atomic_load_n(&epochs->room, __ATOMIC_RELAXED);
    return bytes > room / GS_EPOCH_SHARE;
}

static bool is_full(const struct gs_epochs *epochs, const struct gs_epoch *epoch)
{
    unsigned most = epochs->ordered ? GS_EPOCH_CALL_FREES : GS_EPOCH_FREES;
    return epoch->frees >= most || is_large_share(epochs, epoch->bytes);
}

/* Returns true if the frees have paid for another driver call, or the epochs hold a large
 * share of the free memory. epochs->lock is held. */
static bool is_earned(const struct gs_epochs *epochs)
{
    return epochs->calls * GS_EPOCH_CALL_FREES <=
               epochs->frees + GS_EPOCH_AHEAD * GS_EPOCH_CALL_FREES ||
           is_large_share(epochs, epochs->held);
}

bool gs_epochs_worth_looking(struct gs_epochs *epochs)
{
    gs_lock_take(&epochs->lock);
    bool worth = epochs->ordered || is_earned(epochs);
    gs_lock_drop(&epochs->lock);
    return worth;
}

bool gs_epochs_worth_asking(struct gs_epochs *epochs)
{
    gs_lock_take(&epochs->lock);
    bool worth =
        epochs->held > 0 && (is_earned(epochs) || gs_patience_is_over(&epochs->patience));
    if (worth) {
        gs_patience_queried(&epochs->patience);
    }
    gs_lock_drop(&epochs->lock);
    return worth;
}

enum gs_status gs_epochs_join(struct gs_epochs *epochs, size_t bytes, gs_fence *fence,
                              bool *full)
{
    if (GS_UNLIKELY(__atomic_load_n(&epochs->broken, __ATOMIC_RELAXED))) {
        return GS_ERR_BACKEND;
    }
    enum gs_status status = GS_ERR_HOST_NOMEM;
    gs_lock_take(&epochs->lock);
    struct gs_epoch *epoch = epochs->open;
    if (!epoch) {
        epoch = calloc(1, sizeof(*epoch));
        if (!epoch) {
            goto unlock;
        }
        epoch->home = epochs;
        epoch->number = ++epochs->opened;
        epochs->open = epoch;
    }
    epoch->references++;
    epoch->frees++;
    epoch->bytes += bytes;
    epochs->held += bytes;
    epochs->frees++;
    *full = is_full(epochs, epoch);
    *fence = fence_of(epoch);
    status = GS_OK;
unlock:
    gs_lock_drop(&epochs->lock);
    return status;
}

/* ---- events ------------------------------------------------------------------------ */

/* Closes the epoch for frees if it is still open; takes a reference for the caller. */
static struct gs_epoch *begin_close(struct gs_epochs *epochs,
                                    const struct gs_epoch *wanted)
{
    gs_lock_take(&epochs->lock);
    struct gs_epoch *epoch = epochs->open;
    if (wanted && epoch != wanted) {
        epoch = NULL;
    }
    if (epoch) {
        epoch->state = CLOSING;
        epoch->references++;
        epochs->open = NULL;
    }
    gs_lock_drop(&epochs->lock);
    return epoch;
}

/* An epoch whose event could not be recorded now opens again. If another was opened
 * since, it waits as a stray epoch until the next query. */
static void end_close(struct gs_epoch *epoch, enum gs_status status, uint64_t event)
{
    struct gs_epochs *home = epoch->home;
    gs_lock_take(&home->lock);
    home->calls++;
    if (status == GS_OK) {
        epoch->event = event;
        epoch->state = CLOSED;
    } else if (status == GS_ERR_TIMEOUT) {
        epoch->state = OPEN;
        if (!home->open) {
            home->open = epoch;
        }
    } else {
        epoch->state = BROKEN;
    }
    gs_lock_drop(&home->lock);
    if (status != GS_OK && status != GS_ERR_TIMEOUT) {
        break_all(home);
    }
}

/* Checks whether an event recorded inside a free already makes the epoch's blocks ready.
 * The caller has a reference. */
static void check_event_order(struct gs_epoch *epoch)
{
    struct gs_epochs *home = epoch->home;
    gs_lock_take(&home->lock);
    epoch->references++;
    gs_lock_drop(&home->lock);
    bool ordered =
        home->event_ops->orders && home->event_ops->orders(home->self, fence_of(epoch));
    gs_lock_take(&home->lock);
    home->ordered = ordered;
    if (ordered && epoch->number > home->in_order) {
        home->in_order = epoch->number;
    }
    gs_lock_drop(&home->lock);
    if (!ordered) {
        drop(epoch);
    }
}

static void record_in_free(struct gs_epoch *epoch)
{
    struct gs_epochs *home = epoch->home;
    gs_lock_take(&home->lock);
    home->in_free = epoch->number > home->in_free ? epoch->number : home->in_free;
    gs_lock_drop(&home->lock);
}

bool gs_epochs_owe_wait(struct gs_epochs *epochs)
{
    gs_lock_take(&epochs->lock);
    bool owes = epochs->held > 0 && epochs->in_free > epochs->done &&
                epochs->in_free > epochs->in_order;
    gs_lock_drop(&epochs->lock);
    return owes;
}

/* `in_free`: no work can have been submitted since the epoch's last free. */
static void close_epoch(struct gs_epoch *epoch, bool in_free)
{
    struct gs_epochs *home = epoch->home;
    uint64_t event = 0;
    enum gs_status status = home->event_ops->record(home->self, &event);
    end_close(epoch, status, event);
    if (status == GS_OK && in_free) {
        record_in_free(epoch);
        check_event_order(epoch);
    }
    drop(epoch); /* NOLINT(clang-analyzer-unix.Malloc): the reference of begin_close */
}

void gs_epochs_close(struct gs_epochs *epochs)
{
    struct gs_epoch *epoch = begin_close(epochs, NULL);
    if (epoch) {
        close_epoch(epoch, true);
    }
}

void gs_epochs_capture_ends(struct gs_epochs *epochs)
{
    struct gs_epoch *epoch = begin_close(epochs, NULL);
    if (epoch) {
        close_epoch(epoch, false);
    }
}

/* Takes a stray epoch to be closed: one that is not closed, and that frees no longer
 * join. */
static bool take_stray(struct gs_epoch *epoch)
{
    struct gs_epochs *home = epoch->home;
    gs_lock_take(&home->lock);
    bool stray = epoch->state == OPEN && home->open != epoch;
    if (stray) {
        epoch->state = CLOSING;
        epoch->references++;
    }
    gs_lock_drop(&home->lock);
    return stray;
}

/* ---- queries ----------------------------------------------------------------------- */

/* Applies the result of a later epoch's event, which covers this epoch, too: all its
 * blocks were freed before the later epoch opened. home->lock is held. */
static void apply_results(struct gs_epoch *epoch)
{
    const struct gs_epochs *home = epoch->home;
    if (epoch->state != CLOSED) {
        return;
    }
    if (epoch->number <= home->done) {
        epoch->state = DONE;
        if (home->seen && home->seen != epoch) {
            epoch->proof = home->seen;
            epoch->proof->references++;
        }
    } else if (epoch->number <= home->in_order) {
        epoch->state = ORDERED;
    } else {
        return;
    }
    release_bytes(epoch);
}

static enum state state_of(struct gs_epoch *epoch, uint64_t *event)
{
    gs_lock_take(&epoch->home->lock);
    apply_results(epoch);
    enum state state = epoch->state;
    *event = epoch->event;
    gs_lock_drop(&epoch->home->lock);
    return state;
}

static void set_state(struct gs_epoch *epoch, enum state state)
{
    struct gs_epochs *home = epoch->home;
    struct gs_epoch *seen = NULL;
    gs_lock_take(&home->lock);
    if (state == DONE && epoch->number > home->done) {
        home->done = epoch->number;
        seen = home->seen;
        home->seen = epoch;
        epoch->references++;
    }
    if (state == DONE) {
        apply_results(epoch);
    } else {
        epoch->state = state;
    }
    gs_lock_drop(&home->lock);
    if (seen) {
        drop(seen);
    }
}

static enum gs_status query_mark(struct gs_epoch *epoch, uint64_t event)
{
    struct gs_epochs *home = epoch->home;
    gs_lock_take(&home->lock);
    home->calls++;
    gs_lock_drop(&home->lock);
    enum gs_status status = home->event_ops->query(home->self, event);
    gs_lock_take(&home->lock);
    home->busy = status == GS_ERR_TIMEOUT ? epoch->number : 0;
    if (status == GS_OK) {
        gs_patience_paid(&home->patience);
    }
    gs_lock_drop(&home->lock);
    if (status == GS_OK) {
        set_state(epoch, DONE);
    } else if (status != GS_ERR_TIMEOUT) {
        set_state(epoch, BROKEN);
        break_all(home);
    }
    return status;
}

/* Returns true if the open epoch should be closed now rather than when it is full. */
static bool is_pressing(struct gs_epochs *epochs)
{
    gs_lock_take(&epochs->lock);
    bool pressing = is_large_share(epochs, epochs->held);
    gs_lock_drop(&epochs->lock);
    return pressing;
}

/* Whether an earlier epoch is not done: then this one is not done either. */
static bool is_behind_a_busy_one(const struct gs_epoch *epoch)
{
    gs_lock_take(&epoch->home->lock);
    bool behind = epoch->home->busy && epoch->number > epoch->home->busy;
    gs_lock_drop(&epoch->home->lock);
    return behind;
}

enum gs_status gs_epoch_query(gs_fence fence)
{
    struct gs_epoch *epoch = epoch_of(fence);
    uint64_t event;
    enum state state = state_of(epoch, &event);
    if (state == OPEN && is_pressing(epoch->home)) {
        if (begin_close(epoch->home, epoch) || take_stray(epoch)) {
            close_epoch(epoch, false);
        }
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the block has a reference */
        state = state_of(epoch, &event);
    }
    switch (state) {
    case CLOSED:
        return is_behind_a_busy_one(epoch) ? GS_ERR_TIMEOUT : query_mark(epoch, event);
    case ORDERED:
    case DONE:
        return GS_OK;
    case BROKEN:
        return GS_ERR_BACKEND;
    default:
        return GS_ERR_TIMEOUT;
    }
}

void gs_epoch_release(gs_fence fence)
{
    drop(epoch_of(fence));
}

void gs_epoch_release_many(gs_fence fence, unsigned blocks)
{
    drop_many(epoch_of(fence), blocks);
}

uint64_t gs_epoch_proof_event(gs_fence fence)
{
    const struct gs_epoch *epoch = epoch_of(fence);
    uint64_t event;
    if (state_of(epoch_of(fence), &event) != DONE) {
        return 0;
    }
    return epoch->proof ? epoch->proof->event : event;
}

void gs_epochs_end(struct gs_epochs *epochs)
{
    gs_lock_take(&epochs->lock);
    struct gs_epoch *seen = epochs->seen;
    epochs->seen = NULL;
    epochs->done = UINT64_MAX; /* nothing runs any more */
    gs_lock_drop(&epochs->lock);
    if (seen) {
        drop(seen);
    }
}

uint64_t gs_epoch_event(gs_fence fence)
{
    uint64_t event;
    (void)state_of(epoch_of(fence), &event);
    return event;
}
