/*
 * all_contexts.c - the roll of contexts.
 * Owns:  roll.   Lock: roll.lock; never over a call of the driver.
 * Source: all_contexts.h
 */
#include "all_contexts.h"

#include <stdlib.h>

#include "state.h"

unsigned gs_all_contexts_count; /* written under roll.lock */

static struct {
    pthread_mutex_t lock;
    CUcontext *handles; /* under lock */
    unsigned count, room;
    bool incomplete; /* one found no room: nothing is ever complete again */
} roll = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* roll.lock is held. Returns roll.count if it is not there. */
static unsigned place_of(CUcontext handle)
{
    unsigned i = 0;
    while (i < roll.count && roll.handles[i] != handle) {
        i++;
    }
    return i;
}

/* roll.lock is held. */
static void publish(void)
{
    __atomic_store_n(&gs_all_contexts_count, roll.count + (roll.incomplete ? 2 : 0),
                     __ATOMIC_RELEASE);
}

/* Room for one more; roll.lock is held. */
static bool grow(void)
{
    if (roll.count < roll.room) {
        return true;
    }
    unsigned room = roll.room ? 2 * roll.room : 8;
    CUcontext *grown = reallocarray(roll.handles, room, sizeof(*grown));
    if (!grown) {
        return false;
    }
    roll.handles = grown;
    roll.room = room;
    return true;
}

void gs_all_contexts_add(CUcontext handle)
{
    pthread_mutex_lock(&roll.lock);
    if (handle && place_of(handle) == roll.count) {
        if (grow()) {
            roll.handles[roll.count++] = handle;
        } else {
            roll.incomplete = true;
        }
        publish();
    }
    pthread_mutex_unlock(&roll.lock);
}

void gs_all_contexts_remove(CUcontext handle)
{
    pthread_mutex_lock(&roll.lock);
    unsigned i = place_of(handle);
    if (i < roll.count) {
        roll.handles[i] = roll.handles[--roll.count];
        publish();
    }
    pthread_mutex_unlock(&roll.lock);
}

void gs_all_contexts_reset(void)
{
    pthread_mutex_init(&roll.lock, NULL);
    roll.handles = NULL; /* another thread may have been changing them */
    roll.count = roll.room = 0;
    roll.incomplete = false;
    __atomic_store_n(&gs_all_contexts_count, 0, __ATOMIC_RELEASE);
}

/* Returns false behind the last one. */
static bool handle_at(unsigned i, CUcontext *handle)
{
    bool found;
    pthread_mutex_lock(&roll.lock);
    found = i < roll.count;
    if (found) {
        *handle = roll.handles[i];
    }
    pthread_mutex_unlock(&roll.lock);
    return found;
}

bool gs_all_contexts_search(struct gs_state *state, uint64_t point,
                            const struct gs_context *but)
{
    CUcontext handle;
    if (!gs_known_proof_holds() || roll.incomplete) {
        return false;
    }
    for (unsigned i = 0; handle_at(i, &handle); i++) {
        if (but && but->handle == handle) {
            continue;
        }
        if (gs_mutant(GS_MUTANT_others_ignored)) {
            continue;
        }
        const struct gs_context *context = gs_context_find(state, handle);
        if (!context || __atomic_load_n(&context->idle_at, __ATOMIC_ACQUIRE) < point) {
            return false;
        }
    }
    return true;
}
