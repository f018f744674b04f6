/*
 * streams.c - the table of living streams.
 * Owns:  the table.   Lock: streams_lock; the flags are atomic.
 */
#include "shim/order/streams.h"

#include <stdlib.h>

#include "gs_locks.h"
#include "shim/link/known_functions.h"
#include "shim/link/real.h"
#include "shim/order/own_handles.h"
#include "shim/state/submissions.h"

struct row {
    CUstream stream;
    CUcontext context;
    uint64_t number;
};

static struct gs_mutex streams_lock = GS_MUTEX(GS_RANK_STREAMS);
static struct row *rows;           /* under streams_lock */
static size_t row_count, row_room; /* under streams_lock */
static uint64_t numbers;           /* under streams_lock: streams ever added */
static bool missing;               /* atomic: the table may lack a stream */
static bool any_blocking;          /* atomic: gs_streams_any_blocking */

void gs_streams_submits(uintptr_t tagged_stream)
{
    if (tagged_stream & (GS_STREAMS_PER_THREAD | GS_STREAMS_LOOSE | GS_STREAMS_BEYOND)) {
        __atomic_store_n(&any_blocking, true, __ATOMIC_RELEASE);
    }
}

bool gs_streams_any_blocking(void)
{
    return __atomic_load_n(&any_blocking, __ATOMIC_ACQUIRE) ||
           !gs_streams_proof_holds() || !gs_known_proof_holds();
}

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

static void put(CUstream stream, CUcontext context)
{
    gs_mutex_lock(&streams_lock);
    bool known = make_room();
    if (known) {
        rows[row_count++] = (struct row){stream, context, ++numbers};
    }
    gs_mutex_unlock(&streams_lock);
    if (!known) {
        gs_streams_end_proof();
    }
}

void gs_streams_restore(CUstream stream, CUcontext context)
{
    if (context) {
        put(stream, context);
    }
}

void gs_streams_add(CUstream stream, bool blocking)
{
    CUcontext context = NULL;
    CUdevice device;
    bool known = gs_real()->cuCtxGetDevice(&device) == CUDA_SUCCESS;
    gs_submissions_add_stream((uintptr_t)stream, known ? (int)device : -1);
    if (gs_real()->cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context) {
        gs_streams_end_proof();
        return;
    }
    if (blocking) {
        __atomic_store_n(&any_blocking, true, __ATOMIC_RELEASE);
    }
    put(stream, context);
}

/* The row of a stream; `context` NULL: there is none. */
static struct row row_of(CUstream stream)
{
    struct row found = {.context = NULL};
    gs_mutex_lock(&streams_lock);
    for (size_t i = 0; i < row_count && !found.context; i++) {
        if (rows[i].stream == stream) {
            found = rows[i];
        }
    }
    gs_mutex_unlock(&streams_lock);
    return found;
}

CUcontext gs_streams_find(CUstream stream)
{
    return row_of(stream).context;
}

CUcontext gs_streams_number(CUstream stream, uint64_t *number)
{
    struct row row = row_of(stream);
    *number = row.number;
    return row.context;
}

CUcontext gs_streams_remove(CUstream stream)
{
    CUcontext found = NULL;
    gs_mutex_lock(&streams_lock);
    for (size_t i = row_count; i-- > 0 && !found;) {
        if (rows[i].stream == stream) {
            found = rows[i].context;
            rows[i] = rows[--row_count];
        }
    }
    gs_mutex_unlock(&streams_lock);
    return found;
}

void gs_streams_end_context(CUcontext context)
{
    gs_mutex_lock(&streams_lock);
    for (size_t i = row_count; i-- > 0;) {
        if (rows[i].context == context) {
            gs_own_stream_stale(rows[i].stream);
            rows[i] = rows[--row_count];
        }
    }
    gs_mutex_unlock(&streams_lock);
}

size_t gs_streams_of(CUcontext context, CUstream *out, size_t room)
{
    size_t count = 0;
    gs_mutex_lock(&streams_lock);
    for (size_t i = 0; i < row_count; i++) {
        if (rows[i].context != context) {
            continue;
        }
        if (count < room) {
            out[count] = rows[i].stream;
        }
        count++;
    }
    gs_mutex_unlock(&streams_lock);
    return count;
}

void gs_streams_reset(void)
{
    gs_mutex_init(&streams_lock, GS_RANK_STREAMS);
    rows = NULL;
    row_count = row_room = 0;
    __atomic_store_n(&missing, false, __ATOMIC_RELAXED);
    __atomic_store_n(&any_blocking, false, __ATOMIC_RELAXED);
}
