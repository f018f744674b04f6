/*
 * sync_proof.c - the streams that contexts track, and which of their calls are
 * complete.
 * Owns:  the list of tables that have ever had a row.   Lock: proof_lock.
 */
#include "shim/state/sync_proof.h"

#include "gs_locks.h"

static struct gs_mutex proof_lock = GS_MUTEX(GS_RANK_SYNC_PROOF);
static struct gs_sync_proof *tables; /* under proof_lock */
static uint64_t ends;                /* atomic: ends of contexts */

/* proof_lock is held up to the next such note. */

static struct gs_sync_proof_row *find(struct gs_sync_proof *seen, uintptr_t stream)
{
    for (unsigned i = 0; i < seen->count; i++) {
        if (seen->rows[i].stream == stream) {
            return &seen->rows[i];
        }
    }
    return NULL;
}

static void set_count(struct gs_sync_proof *seen, unsigned count)
{
    __atomic_store_n(&seen->count, count, __ATOMIC_RELAXED);
    seen->version++;
}

/* Removes a row. The calls it covered become part of the base. */
static void remove_row(struct gs_sync_proof *seen, struct gs_sync_proof_row *row)
{
    if (row->based) {
        seen->mark += row->covered - row->base;
    }
    *row = seen->rows[seen->count - 1];
    set_count(seen, seen->count - 1);
}

/* Adds a row for the stream if there is space. A full table has space again after the
 * next base, if some stream is no longer waited for. */
static void add_row(struct gs_sync_proof *seen, uintptr_t stream)
{
    if (seen->count == GS_SYNC_PROOF_ROWS) {
        return;
    }
    seen->rows[seen->count] =
        (struct gs_sync_proof_row){.stream = stream, .waited = true};
    set_count(seen, seen->count + 1);
    if (!seen->listed) {
        seen->listed = true;
        seen->next = tables;
        tables = seen;
    }
}

static bool is_unchanged(const struct gs_sync_proof *seen,
                         const struct gs_sync_proof_before *before)
{
    return seen->version == before->version &&
           before->ends == __atomic_load_n(&ends, __ATOMIC_ACQUIRE);
}

/* proof_lock is not held from here on. */

struct gs_snapshot gs_sync_proof_count(struct gs_sync_proof *seen, unsigned own_calls,
                                       struct gs_sync_proof_before *before)
{
    uintptr_t streams[GS_SYNC_PROOF_ROWS];
    unsigned count = 0;
    before->ends = __atomic_load_n(&ends, __ATOMIC_ACQUIRE);
    if (gs_mutex_try(&proof_lock)) {
        before->version = seen->version;
        before->counted = true;
        for (; count < seen->count; count++) {
            streams[count] = seen->rows[count].stream;
        }
        gs_mutex_unlock(&proof_lock);
    }
    return gs_submissions_snapshot_of(seen->device, own_calls, streams, count,
                                      before->calls);
}

/* Removes rows of a full table whose stream was not waited for since the last base. */
static void drop_idle_rows(struct gs_sync_proof *seen)
{
    for (unsigned i = seen->count; seen->count == GS_SYNC_PROOF_ROWS && i-- > 0;) {
        if (!seen->rows[i].waited) {
            remove_row(seen, &seen->rows[i]);
        }
    }
}

void gs_sync_proof_rebase(struct gs_sync_proof *seen,
                          const struct gs_sync_proof_before *before,
                          const struct gs_snapshot *snapshot)
{
    if (!before->counted || snapshot->mark == 0 || !gs_mutex_try(&proof_lock)) {
        return;
    }
    if (is_unchanged(seen, before)) {
        seen->mark = snapshot->mark;
        seen->ends = before->ends;
        seen->version++;
        for (unsigned i = 0; i < seen->count; i++) {
            struct gs_sync_proof_row *row = &seen->rows[i];
            row->base = row->covered = before->calls[i];
            row->based = true;
        }
        drop_idle_rows(seen);
        for (unsigned i = 0; i < seen->count; i++) {
            seen->rows[i].waited = false;
        }
    }
    gs_mutex_unlock(&proof_lock);
}

/* proof_lock is held. */
static uint64_t all_covered(const struct gs_sync_proof *seen)
{
    uint64_t sum = seen->mark;
    for (unsigned i = 0; i < seen->count; i++) {
        const struct gs_sync_proof_row *row = &seen->rows[i];
        if (row->based) {
            sum += row->covered - row->base;
        }
    }
    return sum;
}

uint64_t gs_sync_proof_cover(struct gs_sync_proof *seen,
                             const struct gs_sync_proof_before *before,
                             const struct gs_snapshot *snapshot)
{
    uint64_t mark = 0;
    if (!before->counted || snapshot->mark == 0 || !gs_mutex_try(&proof_lock)) {
        return 0;
    }
    struct gs_sync_proof_row *row = find(seen, before->stream);
    if (!row) {
        add_row(seen, before->stream);
    } else {
        row->waited = true;
        if (is_unchanged(seen, before) && seen->mark != 0 && row->based &&
            seen->ends == before->ends) {
            uint64_t calls = before->calls[row - seen->rows];
            row->covered = row->covered > calls ? row->covered : calls;
            mark = all_covered(seen);
        }
    }
    gs_mutex_unlock(&proof_lock);
    return mark;
}

void gs_sync_proof_stream_ends(uintptr_t stream)
{
    uintptr_t name = gs_submissions_stream_of(stream);
    gs_mutex_lock(&proof_lock);
    for (struct gs_sync_proof *seen = tables; seen; seen = seen->next) {
        struct gs_sync_proof_row *row = find(seen, name);
        if (row) {
            remove_row(seen, row);
        }
    }
    gs_mutex_unlock(&proof_lock);
}

void gs_sync_proof_context_ends(void)
{
    __atomic_add_fetch(&ends, 1, __ATOMIC_ACQ_REL);
}

void gs_sync_proof_reset(void)
{
    gs_mutex_init(&proof_lock, GS_RANK_SYNC_PROOF);
    tables = NULL;
    __atomic_store_n(&ends, 0, __ATOMIC_RELAXED);
}
