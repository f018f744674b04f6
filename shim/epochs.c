/*
 * epochs.c - the life of an epoch: joined, closed, seen done.
 *
 * Who closes one takes it out of `open` first: a free that comes now joins another, so
 * the mark that follows is behind every free of this one.
 *
 * Owns:  struct gs_epoch; those that are open or referred to by a pending block.
 * Lock:  epochs->lock for the states and the references.
 */
#include "epochs.h"

#include <stdlib.h>

#include "mutants.h"

enum state { OPEN, CLOSING, CLOSED, DONE, BROKEN };

struct gs_epoch {
    struct gs_epochs *home; /* immutable */
    enum state state;       /* under home->lock, and those below */
    unsigned references;    /* pending blocks, and whoever works with it */
    unsigned frees;
    size_t bytes;
    uint64_t mark; /* from CLOSED on */
};

/* An epoch as a fence: its address is even, the fence is odd, and an event's is even. */
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

void gs_epochs_init(struct gs_epochs *epochs, const struct gs_marker *marker, void *self)
{
    *epochs = (struct gs_epochs){.marker = marker, .self = self, .room = SIZE_MAX};
    pthread_mutex_init(&epochs->lock, NULL);
}

void gs_epochs_room(struct gs_epochs *epochs, size_t bytes)
{
    __atomic_store_n(&epochs->room, bytes, __ATOMIC_RELAXED);
}

static void break_all(struct gs_epochs *epochs)
{
    __atomic_store_n(&epochs->broken, true, __ATOMIC_RELAXED);
}

/* One reference less; the last one takes the epoch along. No lock is held. */
static void drop(struct gs_epoch *epoch)
{
    struct gs_epochs *home = epoch->home;
    pthread_mutex_lock(&home->lock);
    bool last = --epoch->references == 0;
    if (last && home->open == epoch) {
        home->open = NULL;
    }
    pthread_mutex_unlock(&home->lock);
    if (last) {
        if (epoch->mark) {
            home->marker->release(home->self, epoch->mark);
        }
        free(epoch);
    }
}

/* ---- frees ------------------------------------------------------------------------- */

static bool is_full(const struct gs_epochs *epochs, const struct gs_epoch *epoch)
{
    size_t room = __atomic_load_n(&epochs->room, __ATOMIC_RELAXED);
    if (gs_mutant(GS_MUTANT_pressure_ignored)) {
        room = SIZE_MAX;
    }
    return epoch->frees >= GS_EPOCH_FREES || epoch->bytes > room / GS_EPOCH_SHARE;
}

enum gs_status gs_epochs_join(struct gs_epochs *epochs, size_t bytes, gs_fence *fence,
                              bool *full)
{
    if (GS_UNLIKELY(__atomic_load_n(&epochs->broken, __ATOMIC_RELAXED))) {
        return GS_ERR_BACKEND;
    }
    enum gs_status status = GS_ERR_HOST_NOMEM;
    pthread_mutex_lock(&epochs->lock);
    struct gs_epoch *epoch = epochs->open;
    if (!epoch) {
        epoch = calloc(1, sizeof(*epoch));
        if (!epoch) {
            goto unlock;
        }
        epoch->home = epochs;
        epochs->open = epoch;
    }
    epoch->references++;
    epoch->frees++;
    epoch->bytes += bytes;
    *full = is_full(epochs, epoch);
    *fence = fence_of(epoch);
    status = GS_OK;
unlock:
    pthread_mutex_unlock(&epochs->lock);
    return status;
}

/* ---- marks ------------------------------------------------------------------------- */

/* No free may join any more, if it is still open; with a reference for the caller. */
static struct gs_epoch *begin_close(struct gs_epochs *epochs,
                                    const struct gs_epoch *wanted)
{
    pthread_mutex_lock(&epochs->lock);
    struct gs_epoch *epoch = epochs->open;
    if (wanted && epoch != wanted) {
        epoch = NULL;
    }
    if (epoch) {
        epoch->state = CLOSING;
        epoch->references++;
        epochs->open = NULL;
    }
    pthread_mutex_unlock(&epochs->lock);
    return epoch;
}

/* What could not be marked now is open again, or, where another has been opened since,
 * waits as an epoch of its own until it is asked after. */
static void end_close(struct gs_epoch *epoch, enum gs_status status, uint64_t mark)
{
    struct gs_epochs *home = epoch->home;
    pthread_mutex_lock(&home->lock);
    if (status == GS_OK) {
        epoch->mark = mark;
        epoch->state = CLOSED;
    } else if (status == GS_ERR_TIMEOUT) {
        epoch->state = OPEN;
        if (!home->open) {
            home->open = epoch;
        }
    } else {
        epoch->state = BROKEN;
    }
    pthread_mutex_unlock(&home->lock);
    if (status != GS_OK && status != GS_ERR_TIMEOUT) {
        break_all(home);
    }
}

static void close_epoch(struct gs_epoch *epoch)
{
    struct gs_epochs *home = epoch->home;
    uint64_t mark = 0;
    enum gs_status status = home->marker->record(home->self, &mark);
    end_close(epoch, status, mark);
    drop(epoch);
}

void gs_epochs_close(struct gs_epochs *epochs)
{
    struct gs_epoch *epoch = begin_close(epochs, NULL);
    if (epoch) {
        close_epoch(epoch);
    }
}

/* One that was open, and is no longer the one that frees join, is closed all the same. */
static bool take_stray(struct gs_epoch *epoch)
{
    struct gs_epochs *home = epoch->home;
    pthread_mutex_lock(&home->lock);
    bool stray = epoch->state == OPEN && home->open != epoch;
    if (stray) {
        epoch->state = CLOSING;
        epoch->references++;
    }
    pthread_mutex_unlock(&home->lock);
    return stray;
}

/* ---- questions --------------------------------------------------------------------- */

static enum state state_of(struct gs_epoch *epoch, uint64_t *mark)
{
    pthread_mutex_lock(&epoch->home->lock);
    enum state state = epoch->state;
    *mark = epoch->mark;
    pthread_mutex_unlock(&epoch->home->lock);
    return state;
}

static void become(struct gs_epoch *epoch, enum state state)
{
    pthread_mutex_lock(&epoch->home->lock);
    epoch->state = state;
    pthread_mutex_unlock(&epoch->home->lock);
}

static enum gs_status ask(struct gs_epoch *epoch, uint64_t mark)
{
    struct gs_epochs *home = epoch->home;
    enum gs_status status = home->marker->query(home->self, mark);
    if (status == GS_ERR_BACKEND && gs_mutant(GS_MUTANT_error_is_done)) {
        status = GS_OK;
    }
    if (status == GS_OK) {
        become(epoch, DONE);
    } else if (status != GS_ERR_TIMEOUT) {
        become(epoch, BROKEN);
        break_all(home);
    }
    return status;
}

enum gs_status gs_epoch_query(gs_fence fence)
{
    struct gs_epoch *epoch = epoch_of(fence);
    uint64_t mark;
    enum state state = state_of(epoch, &mark);
    if (state == OPEN) {
        if (begin_close(epoch->home, epoch) || take_stray(epoch)) {
            close_epoch(epoch);
        }
        state = state_of(epoch, &mark);
    }
    switch (state) {
    case CLOSED:
        return gs_mutant(GS_MUTANT_closed_is_done) ? GS_OK : ask(epoch, mark);
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

uint64_t gs_epoch_mark(gs_fence fence)
{
    uint64_t mark;
    return state_of(epoch_of(fence), &mark) == DONE ? mark : 0;
}
