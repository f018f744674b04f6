/*
 * streams_seen.h - what a synchronize of one stream proves: that stream's calls are
 * complete; and where that is true of every call there was, the context is idle.
 *
 * A context watches a few streams that the program synchronizes. The base is a wait for
 * the whole context: with its snapshot the calls of each watched stream are counted. A
 * later synchronize of a watched stream covers the calls of that stream that its own
 * snapshot has. The calls that were covered since the base are added to the base: while
 * the process has begun no more calls than that, each one is complete.
 *
 * Calls are those of the context's device (submissions.h).
 *
 * Why it cannot err in the unsafe direction. Every call counts in the sum of all, and in
 * one stream at most. No call counts as covered that a synchronize of its own stream did
 * not wait for: calls that no stream's synchronize covers (GS_STREAMS_BEYOND), streams
 * that a thread has no room for and the calls of threads that ended count in no stream,
 * and only the next base covers them. So the covered calls never exceed those that are
 * complete, and there are as many covered as begun only if all are. Which calls they are
 * the sum does not say: "complete since a point" (all_contexts.h) does not rest on it.
 *
 * A handle names one stream while it is watched: it leaves the table before its stream is
 * destroyed, and every base is void once a context may have ended. A new stream with the
 * old handle proves nothing before the next base, which counts the old stream's calls as
 * its own.
 *
 * Owns:  the list of tables; a table stands in its context's entry (contexts.h).
 * Lock:  a mutex inside, never held across a driver call. A synchronize only tries it: a
 *        proof that is not made costs a wait.
 * Design: docs/free.md, "How it is known"
 */
#ifndef GS_STREAMS_SEEN_H
#define GS_STREAMS_SEEN_H

#include "submissions.h"

/* Streams that a context watches. */
#define GS_SEEN_STREAMS 4u

struct gs_seen_stream {
    uintptr_t stream;       /* gs_submissions_stream_of */
    uint64_t base, covered; /* its calls at the base, and those known to be complete */
    bool based;             /* the base has it */
    bool waited;            /* was synchronized since the base */
};

/* One context's; zeroes at first, but for the device. */
struct gs_streams_seen {
    unsigned device;  /* immutable: gs_submissions_count_of its device */
    unsigned count;   /* atomic, written under the lock: rows in use */
    uint64_t version; /* the rest under the lock: changes of the rows and of the base */
    uint64_t ends;    /* ends of contexts before the base */
    uint64_t mark;    /* the base's snapshot; 0: none */
    struct gs_seen_stream rows[GS_SEEN_STREAMS];
    struct gs_streams_seen *next; /* of the list, that it stays in */
    bool listed;
};

/* What is known before a wait. */
struct gs_seen_before {
    bool counted;     /* `calls` holds */
    uintptr_t stream; /* that is waited for; 0: the whole context */
    uint64_t version, ends;
    uint64_t calls[GS_SEEN_STREAMS]; /* of each row */
};

/* Out of line part of the function below. */
struct gs_snapshot gs_seen_count(struct gs_streams_seen *seen, unsigned own_calls,
                                 struct gs_seen_before *before);

/*
 * Before a wait for the whole context, or for one stream, is entered. Returns the
 * snapshot that every mark of the wait rests on.
 */
static inline struct gs_snapshot gs_seen_begin(struct gs_streams_seen *seen,
                                               uintptr_t stream, unsigned own_calls,
                                               struct gs_seen_before *before)
{
    before->counted = false;
    before->stream = stream;
    if (!stream && GS_LIKELY(__atomic_load_n(&seen->count, __ATOMIC_RELAXED) == 0)) {
        return gs_submissions_snapshot(seen->device, own_calls);
    }
    return gs_seen_count(seen, own_calls, before);
}

/* The wait for the whole context has succeeded: it is the base from now on. */
void gs_seen_rebase(struct gs_streams_seen *seen, const struct gs_seen_before *before,
                    const struct gs_snapshot *snapshot);

/*
 * The wait for one stream has succeeded. Returns how many calls are complete, as a mark:
 * while no more have begun than that, the context is idle. Unlike a snapshot's it says
 * nothing of which calls they are. 0: not known.
 */
uint64_t gs_seen_cover(struct gs_streams_seen *seen, const struct gs_seen_before *before,
                       const struct gs_snapshot *snapshot);

/* The stream is about to be destroyed. */
void gs_seen_stream_ends(uintptr_t stream);
/* A context is about to end, or may have ended. */
void gs_seen_context_ends(void);

/* In a forked child: there are no tables. */
void gs_seen_reset(void);

#endif
