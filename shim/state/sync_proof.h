/*
 * sync_proof.h - idle proofs from synchronizes of single streams. A synchronize of a
 * stream proves this stream's calls complete; if this covers every call ever begun, the
 * context is idle.
 *
 * A context tracks a few streams that the program synchronizes. The base is a wait for
 * the whole context: the calls of each tracked stream are counted together with its
 * snapshot. A later synchronize of a tracked stream covers this stream's calls in its own
 * snapshot. The calls covered since the base are added to the base: while the process has
 * begun no more calls than this sum, each call is complete.
 *
 * Calls are those of the context's device (submissions.h).
 *
 * Why errors are always on the safe side. Every call counts in the sum of all calls, and
 * in at most one stream. No call counts as covered unless a synchronize of its own stream
 * has waited for it. Some calls count in no stream, and only the next base covers them:
 * calls that no stream's synchronize covers (GS_STREAMS_BEYOND), calls to streams for
 * which a thread has no row, and calls of threads that have ended. So the covered calls
 * never exceed the complete ones, and they equal the begun ones only if all are complete.
 * The sum does not tell which calls are covered, so it cannot prove "complete since a
 * point" (all_contexts.h).
 *
 * A handle names one stream while it is tracked: it leaves the table before its stream is
 * destroyed, and every base becomes void once a context may have ended. A new stream with
 * an old handle proves nothing before the next base, which counts the old stream's calls
 * as its own.
 *
 * Owns:  the list of tables; a table is part of its context's entry (contexts.h).
 * Lock:  a mutex inside, never held across a driver call. A synchronize only tries to
 *        take it: a proof that is skipped costs a wait.
 * Design: docs/free.md, "How it is known"
 */
#ifndef GS_SYNC_PROOF_H
#define GS_SYNC_PROOF_H

#include "shim/state/submissions.h"

/* The most streams that a context tracks. */
#define GS_SYNC_PROOF_ROWS 4u

struct gs_sync_proof_row {
    uintptr_t stream;       /* gs_submissions_stream_of */
    uint64_t base, covered; /* its calls at the base, and those known to be complete */
    bool based;             /* the base includes this stream */
    bool waited;            /* was synchronized since the base */
};

/* The table of one context; all zero at first, except for the device. */
struct gs_sync_proof {
    unsigned device;  /* immutable: gs_submissions_count_of its device */
    unsigned count;   /* atomic, written under the lock: rows in use */
    uint64_t version; /* the rest under the lock: changes of the rows and of the base */
    uint64_t ends;    /* ends of contexts counted before the base */
    uint64_t mark;    /* the base's snapshot; 0: none */
    struct gs_sync_proof_row rows[GS_SYNC_PROOF_ROWS];
    struct gs_sync_proof *next; /* next table of the list; a table stays in the list */
    bool listed;
};

/* The counts taken before a wait. */
struct gs_sync_proof_before {
    bool counted;     /* `calls` is valid */
    uintptr_t stream; /* the stream waited for; 0: the whole context */
    uint64_t version, ends;
    uint64_t calls[GS_SYNC_PROOF_ROWS]; /* calls of each row */
};

/* The slow path of gs_sync_proof_begin. */
struct gs_snapshot gs_sync_proof_count(struct gs_sync_proof *seen, unsigned own_calls,
                                       struct gs_sync_proof_before *before);

/*
 * Called before a wait for the whole context, or for one stream. Returns the snapshot for
 * every mark of this wait.
 */
static inline struct gs_snapshot gs_sync_proof_begin(struct gs_sync_proof *seen,
                                                     uintptr_t stream, unsigned own_calls,
                                                     struct gs_sync_proof_before *before)
{
    before->counted = false;
    before->stream = stream;
    if (!stream && GS_LIKELY(__atomic_load_n(&seen->count, __ATOMIC_RELAXED) == 0)) {
        return gs_submissions_snapshot(seen->device, own_calls);
    }
    return gs_sync_proof_count(seen, own_calls, before);
}

/* Called after a wait for the whole context has succeeded: the wait becomes the base. */
void gs_sync_proof_rebase(struct gs_sync_proof *seen,
                          const struct gs_sync_proof_before *before,
                          const struct gs_snapshot *snapshot);

/*
 * Called after a wait for one stream has succeeded. Returns the number of complete calls,
 * as a mark: while no more calls have begun, the context is idle. Unlike a snapshot's
 * mark it does not tell which calls are complete. 0: not known.
 */
uint64_t gs_sync_proof_cover(struct gs_sync_proof *seen,
                             const struct gs_sync_proof_before *before,
                             const struct gs_snapshot *snapshot);

/* Called before a stream is destroyed. */
void gs_sync_proof_stream_ends(uintptr_t stream);
/* Called when a context is about to end or may have ended. */
void gs_sync_proof_context_ends(void);

/* In a forked child: drops all tables. */
void gs_sync_proof_reset(void);

#endif
