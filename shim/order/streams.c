/*
 * streams.c - the table of living streams.
 * Owns:  the table.   Lock: streams_lock; `missing` is atomic.
 */
#include "streams.h"

#include <pthread.h>
#include <stdlib.h>

#include "real.h"
#include "submissions.h"

struct row {
    CUstream stream;
    CUcontext context;
};

static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct row *rows;           /* under streams_lock */
static size_t row_count, row_room; /* under streams_lock */
static bool missing;               /* atomic: a stream may not be in the table */

void gs_streams_end_proof(void)
{
    __atomic_store_n(&missing, true, __ATOMIC_RELEASE);
}

bool gs_streams_proof_holds(void)
{
    return !__atomic_load_n(&missing, __ATOMIC_ACQUIRE);
}

/* streams_lock is held. */
static bool make_room(void)
{
    if (row_count < row_room) {
        return true;
    }
    size_t room = row_room ? 2 * row_room : 32;
    struct row *grown = reallocarray(rows, room, sizeof(*grown));
    if (!grown) {
        return false;
    }
    rows = grown;
    row_room = room;
    return true;
}

void gs_streams_restore(CUstream stream, CUcontext context)
{
    if (!context) {
        return;
    }
    pthread_mutex_lock(&streams_lock);
    bool known = make_room();
    if (known) {
        rows[row_count++] = (struct row){stream, context};
    }
    pthread_mutex_unlock(&streams_lock);
    if (!known) {
        gs_streams_end_proof();
    }
}

void gs_streams_add(CUstream stream)
{
    CUcontext context = NULL;
    CUdevice device;
    bool known = gs_real()->cuCtxGetDevice(&device) == CUDA_SUCCESS;
    gs_submissions_meet_stream((uintptr_t)stream, known ? (int)device : -1);
    if (gs_real()->cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context) {
        gs_streams_end_proof();
        return;
    }
    gs_streams_restore(stream, context);
}

CUcontext gs_streams_find(CUstream stream)
{
    CUcontext found = NULL;
    pthread_mutex_lock(&streams_lock);
    for (size_t i = 0; i < row_count && !found; i++) {
        if (rows[i].stream == stream) {
            found = rows[i].context;
        }
    }
    pthread_mutex_unlock(&streams_lock);
    return found;
}

CUcontext gs_streams_remove(CUstream stream)
{
    CUcontext found = NULL;
    pthread_mutex_lock(&streams_lock);
    for (size_t i = row_count; i-- > 0 && !found;) {
        if (rows[i].stream == stream) {
            found = rows[i].context;
            rows[i] = rows[--row_count];
        }
    }
    pthread_mutex_unlock(&streams_lock);
    return found;
}

void gs_streams_end_context(CUcontext context)
{
    pthread_mutex_lock(&streams_lock);
    for (size_t i = row_count; i-- > 0;) {
        if (rows[i].context == context) {
            rows[i] = rows[--row_count];
        }
    }
    pthread_mutex_unlock(&streams_lock);
}

size_t gs_streams_of(CUcontext context, CUstream *out, size_t room)
{
    size_t count = 0;
    pthread_mutex_lock(&streams_lock);
    for (size_t i = 0; i < row_count; i++) {
        if (rows[i].context != context) {
            continue;
        }
        if (count < room) {
            out[count] = rows[i].stream;
        }
        count++;
    }
    pthread_mutex_unlock(&streams_lock);
    return count;
}

void gs_streams_reset(void)
{
    pthread_mutex_init(&streams_lock, NULL);
    rows = NULL;
    row_count = row_room = 0;
    __atomic_store_n(&missing, false, __ATOMIC_RELAXED);
}
