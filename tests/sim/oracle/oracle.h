/*
 * oracle.h - which accesses of a program were ordered, and by what: the judge of reuse.
 *
 * Every operation given to the device has two clocks. N holds what the program and the
 * native meaning of its calls order; S holds what was really ordered in this run. They
 * are the same until a layer between the program and the driver announces itself
 * (cudasim_notify): then what that layer does on its own account counts in S alone, and
 * what the program meant counts in N alone. Two accesses to the same bytes, one of them a
 * write, are then
 *
 *   in order in N and in S   right
 *   in order in N, not in S  the layer's bug: it lost an order the program had
 *   in order in neither      the program's own race
 *   in order in S alone      masked: a race that this run happened to hide
 *
 * All but the first are findings. The rules in full, also for an access and the life of
 * its memory, are in verdict.c. The oracle knows no CUDA: the driver tells it of lines
 * (streams and host threads), operations, waits, allocations and accesses.
 *
 * NULL is taken for an operation, a line or an allocation anywhere, and is one that
 * nothing is known of. Without memory the oracle says so once and forgets what it was
 * told until then: findings are missed, none is invented.
 *
 * Owns:  lines, operations, allocations, the shadow of accessed bytes, findings.
 * Lock:  one of its own inside every function; none is held when one returns.
 * Design: docs/simulator.md, "The oracle"
 */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include "gs_base.h"

struct oracle_line; /* a sequence of operations or calls: a stream or a host thread */
struct oracle_op;   /* one operation of a stream; reference counted */
struct oracle_allocation; /* one life of a range of memory; reference counted */

/* What the program is told when it asks for no oracle: nothing of this file is called. */
extern bool oracle_on; /* set by oracle_start, immutable afterwards */

struct oracle_options {
    uint64_t seed;          /* named in each finding, so that it can be replayed */
    bool separate_hosts;    /* host threads are ordered by what is seen alone; otherwise
                             * what one thread did before another is taken as ordered:
                             * locks and flags of the program cannot be seen */
    bool stacks;            /* keep the call stack of each operation */
    const char *file;       /* machine-readable lines are appended there too; or NULL */
    unsigned most_findings; /* printed to stderr; the file gets one for each pair of call
                             * sites, and all are counted */
};

/* Switch it on. Called once, before any other function here. */
void oracle_start(const struct oracle_options *options);

/* ---- lines ------------------------------------------------------------------------ */

enum oracle_line_kind { ORACLE_HOST, ORACLE_STREAM };

/*
 * In:   id    named in findings: a stream's number, a thread's kernel id
 *       host  whose past the new line knows; NULL: that of every host thread so far,
 *             ended ones too
 *
 * Without memory: NULL.
 */
struct oracle_line *oracle_line_new(enum oracle_line_kind kind, uint64_t id,
                                    struct oracle_line *host);

/* No more operations or calls will come: the pointer must not be used again. What it did
 * stays known to those that were told of it. */
void oracle_line_end(struct oracle_line *line);

/* ---- operations ------------------------------------------------------------------- */

enum oracle_overlap {
    ORACLE_IN_ORDER,      /* behind all that is in the stream before it */
    ORACLE_OVERLAPS,      /* a programmatic launch: may run beside the one before it */
    ORACLE_OVERLAPS_WAITS /* launched so, but it waits for the one before it inside */
};

struct oracle_work {
    const char *call; /* the function that gave it to the device; static storage */
    struct oracle_line *host, *stream; /* host NULL: it is behind no host thread */
    enum oracle_overlap overlap;
    bool own;      /* by a layer for itself: its waits order nothing in N */
    bool unfenced; /* who sees what it wrote is behind that write alone, not behind what
                    * the operation itself is behind */
};

/* An operation that is not submitted yet; one reference. One that never is can collect
 * what others, or a host thread, are to be behind. Without memory: NULL. */
struct oracle_op *oracle_op_new(void);
void oracle_op_ref(struct oracle_op *op);
void oracle_op_unref(struct oracle_op *op); /* NULL is allowed */

/* Before submission: it also waits for that one, finished or not. */
void oracle_op_after(struct oracle_op *op, const struct oracle_op *before);

/* Before submission: it also waits for all that was submitted to a line so far, done or
 * not. */
void oracle_op_after_line(struct oracle_op *op, const struct oracle_line *before);
/* The same in N alone: by what the program's call means, which a layer serves itself. */
void oracle_op_natively_after_line(struct oracle_op *op,
                                   const struct oracle_line *before);

/* It takes its place. From now on its clocks stand, but for oracle_op_saw. */
void oracle_op_submit(struct oracle_op *op, const struct oracle_work *work);

/*
 * While it runs: a wait of the device for a value in memory has ended. It is behind
 * whoever last wrote there, and, if the host can write there, behind what the host
 * threads have seen by now, or had at oracle_op_was_told, since they may have written it
 * at any time; if a host thread has announced that it did (oracle_host_access), behind
 * that write alone. Operations that are behind this one are behind that too, also those
 * submitted already.
 *
 * Of an operation that is not submitted: it collects that (a host thread that saw a value
 * in memory).
 */
void oracle_op_saw(struct oracle_op *op, uintptr_t address, size_t bytes, bool host_may);

/*
 * What the operation waited for in memory has come, or its function has returned: what
 * host threads learn from now on it was not told, whenever oracle_op_saw is called. The
 * first call counts.
 */
void oracle_op_was_told(struct oracle_op *op);

/* ---- host threads ----------------------------------------------------------------- */

/* A call found it done (own as in oracle_work). asked: by a query that might have
 * answered no; what a layer asks on its own account orders nothing but the allocations it
 * retires with it. */
void oracle_host_saw(struct oracle_line *host, const struct oracle_op *op, bool own,
                     bool asked);

/* A call returned when all that was submitted to that line so far was done. */
void oracle_host_saw_line(struct oracle_line *host, const struct oracle_line *line,
                          bool own, bool asked);

/* A host function starts: what it may tell the host threads, they know from now on: what
 * it is behind. One of a layer's own tells them nothing. */
void oracle_host_function(const struct oracle_op *op);

/* ---- allocations ----------------------------------------------------------------------
 */

struct oracle_range {
    uintptr_t address;
    size_t bytes;
};

/*
 * A life of the range begins: an allocation is handed out. It is in order behind the ends
 * of those that had its bytes before; in S as far as they were retired. The host goes on
 * behind what the host knew that ended them. One that has not ended, and is not around
 * the new one, ends now. Returned with a reference; without memory: NULL.
 *
 * In:  host  who got it
 *      op    the stream's point from which it may be used, for a stream-ordered
 *            allocation; NULL: at once
 *      inner it lies inside an allocation that goes on (a layer's block in a driver's
 * segment)
 */
struct oracle_allocation *oracle_allocation_begin(const struct oracle_range *range,
                                                  const char *call,
                                                  struct oracle_line *host,
                                                  const struct oracle_op *op, bool inner);

/*
 * It ends: freed. What was accessed must be in order before it, in N; an access that is
 * not races with the free. Ending it twice does nothing.
 *
 * In:  op      the stream's point of a stream-ordered free, told of before it is done;
 *              NULL: the host's
 *      waited  the end waits, by the native meaning of the call, for these lines: the
 *              host goes on behind them, in N; in S only if it has seen them
 */
void oracle_allocation_end(struct oracle_allocation *allocation, const char *call,
                           struct oracle_line *host, const struct oracle_op *op,
                           struct oracle_line *const *waited, size_t waited_count);

/* The owner of the memory (driver or layer) has seen `op` done and takes it as proof that
 * the allocation's bytes may be handed out. With op not done that is a finding. NULL:
 * what the calling host has waited for. */
void oracle_allocation_retire(struct oracle_allocation *allocation,
                              struct oracle_line *host, const struct oracle_op *op);

/* The host can touch the bytes from the beginning on, without a call: said at once after
 * oracle_allocation_begin. Who had them before must really be over by then. */
void oracle_allocation_for_host(struct oracle_allocation *allocation);

/* The memory of one that has ended goes with it, also from under those inside: said at
 * once after oracle_allocation_end. Who used it must really be over by then. */
void oracle_allocation_gone(struct oracle_allocation *allocation);

/* The innermost live allocation at the address, with a reference, or NULL. */
struct oracle_allocation *oracle_allocation_find(uintptr_t address);
void oracle_allocation_unref(struct oracle_allocation *allocation); /* NULL is allowed */

size_t oracle_allocation_bytes(const struct oracle_allocation *allocation);

/* Is it a layer's block that begins at that address? */
bool oracle_allocation_is_block(const struct oracle_allocation *allocation,
                                uintptr_t address);

/* ---- accesses --------------------------------------------------------------------- */

struct oracle_access {
    struct oracle_range range;
    struct oracle_allocation *allocation; /* as found at submission; NULL: none */
    bool writes;
    bool atomic; /* does not conflict with another atomic one */
    bool awaits; /* a read: it waits for a value of a word there */
    bool single; /* a write of one aligned word, at once: a wait sees it, or not yet */
    uintptr_t place; /* judged as if it were there, all of it; 0: where it is */
};

/* The operation runs, touching these bytes. Called when it is executed, before
 * oracle_op_done; accesses that come in parts may be told in as many calls. */
void oracle_op_runs(struct oracle_op *op, const struct oracle_access *accesses,
                    size_t count);

/*
 * Memory with several addresses: these are from now on addresses of the bytes that begin
 * at `place`, and accesses are judged by the bytes, lives by the addresses. Places are
 * addresses, too, of the memory itself, which no program need know. 0: the bytes at these
 * addresses are their own again.
 */
void oracle_place(const struct oracle_range *range, uintptr_t place);

/* The operation is complete: everybody who waits for it goes on. */
void oracle_op_done(struct oracle_op *op);

/* The host touches bytes itself, as a test program announces it. */
void oracle_host_access(struct oracle_line *host, const struct oracle_access *access);

/* The bytes are gone for good (unmapped, the device reset, host memory given back to the
 * system): forget what is known, also that they once had an allocation. */
void oracle_forget(const struct oracle_range *range);

/* ---- findings --------------------------------------------------------------------- */

enum oracle_finding {
    ORACLE_LOST_ORDER,    /* in N, not in S: the layer's */
    ORACLE_RACE,          /* in neither: the program's; also with an allocation or free */
    ORACLE_MASKED,        /* in S alone */
    ORACLE_NO_ALLOCATION, /* memory that nobody has, or that was freed before, in N */
    ORACLE_EARLY_RETIRE,  /* retired by something that is not done */
    ORACLE_HANDED_TWICE,  /* a layer gave a block's bytes to another while it lives */
    ORACLE_LAYER_BLOCKS,  /* a call waits for what native does not wait for */
    ORACLE_PROGRAM_BLOCKS, /* a call waits for ever, natively too */
    ORACLE_FINDINGS
};

/* How often each was found so far, and all together. */
void oracle_counts(unsigned counts[ORACLE_FINDINGS]);
unsigned oracle_findings(void);

/*
 * The liveness verdict, by the scheduler: the calling thread waits and nothing can end
 * it.
 *
 * In:  call     the driver function that blocks
 *      op       what it waits for
 *      culprit  the operation that does not end (a kernel or host function), or NULL
 *      own      the wait is a layer's; *entry* then names the program's call it serves
 *      native_waits  the program's call would wait for it natively too
 */
void oracle_blocked(const char *call, const char *entry, struct oracle_line *host,
                    const struct oracle_op *op, const struct oracle_op *culprit, bool own,
                    bool native_waits);

/* A launch whose accesses are not known. Counted, and printed at the end. */
void oracle_unchecked(const char *kernel);

/* One line of figures to stderr, if there is anything to say, or `always`. */
void oracle_summary(bool always);

#endif
