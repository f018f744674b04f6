/*
 * ops.c - operations: their places in their streams, and what they are behind.
 *
 * What an operation is behind is one pair of clocks, made when it is submitted, without
 * the operation itself; that it is behind all before it in its slot goes without saying.
 *
 *   in order          starts from all that is in the stream, the host's past and what it
 *                     waits for; it takes the next point of the stream's slot
 *   programmatic      starts from what the one before it started from; it has a slot of
 *                     its own, and the next one in order is behind both
 *   ... that waits    its accesses are in order, but a programmatic one after it may
 *                     start from what it started from
 *
 *   unfenced          is in order, and takes a point of a slot that nothing else of the
 *                     stream is counted in: who knows that point knows, of the rest, what
 *                     the host thread knew that gave it: it was over before
 *
 * A layer's own operation is in its place in the stream, in both clocks. What else it
 * waits for, and what the host thread knew that gave it, is passed on in S alone.
 *
 * Owns:  operations, in slabs.   Lock: the oracle's; reference counts are atomic.
 */
#include "oracle_state.h"

#include <stdlib.h>
#include <string.h>

#include "oracle_callers.h"

#define SLAB_OPS 128

struct slab {
    struct slab *next;
    struct oracle_op ops[SLAB_OPS];
};

struct oracle_op *oracle_pending;  /* the oracle's lock */
uint64_t oracle_operations;        /* the oracle's lock */
static struct slab *slabs;         /* the oracle's lock; never freed */
static struct oracle_op *idle_ops; /* the oracle's lock */

static void add_slab(void)
{
    struct slab *slab = oracle_allocate(NULL, sizeof(*slab));

    if (!slab)
        return;
    memset(slab, 0, sizeof(*slab));
    slab->next = slabs;
    slabs = slab;
    for (size_t i = SLAB_OPS; i-- > 0;) {
        slab->ops[i].next = idle_ops;
        idle_ops = &slab->ops[i];
    }
}

static struct oracle_op *op_new(void)
{
    if (!idle_ops)
        add_slab();
    struct oracle_op *op = idle_ops;
    if (!op) {
        oracle_lose();
        return NULL;
    }
    idle_ops = op->next;
    memset(op, 0, sizeof(*op));
    atomic_init(&op->refs, 1);
    op->in_use = true;
    op->here.slot = ORACLE_NO_SLOT;
    return op;
}

struct oracle_op *oracle_op_new(void)
{
    oracle_lock();
    struct oracle_op *op = op_new();
    oracle_unlock();
    return op;
}

void oracle_op_ref(struct oracle_op *op)
{
    if (op)
        atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
}

static void unlink_pending(struct oracle_op *op)
{
    if (op->done || !op->submitted || op->host)
        return;
    if (op->next)
        op->next->prev = op->prev;
    if (op->prev)
        op->prev->next = op->next;
    else
        oracle_pending = op->next;
    op->done = true;
}

static bool last_reference(struct oracle_op *op)
{
    return atomic_fetch_sub_explicit(&op->refs, 1, memory_order_acq_rel) == 1;
}

static void recycle(struct oracle_op *op)
{
    unlink_pending(op);
    oracle_pair_clear(&op->knows);
    oracle_pair_clear(&op->told);
    op->in_use = false;
    op->next = idle_ops;
    idle_ops = op;
}

void oracle_op_drop(struct oracle_op *op)
{
    if (op && last_reference(op))
        recycle(op);
}

void oracle_op_unref(struct oracle_op *op)
{
    if (!op || !last_reference(op))
        return;
    oracle_lock();
    recycle(op);
    oracle_unlock();
}

void oracle_ops_visit(void (*visit)(struct oracle_op *op))
{
    for (struct slab *slab = slabs; slab; slab = slab->next) {
        for (size_t i = 0; i < SLAB_OPS; i++) {
            if (slab->ops[i].in_use)
                visit(&slab->ops[i]);
        }
    }
}

/* ---- what it waits for ------------------------------------------------------------ */

void oracle_op_after(struct oracle_op *op, const struct oracle_op *before)
{
    oracle_lock();
    if (!op || !before) {
        oracle_unknown();
    } else if (!op->submitted) {
        oracle_pair_join(&op->knows, &before->knows);
        oracle_pair_raise(&op->knows, before->here);
    }
    oracle_unlock();
}

void oracle_op_after_line(struct oracle_op *op, const struct oracle_line *before)
{
    oracle_lock();
    if (!op || !before) {
        oracle_unknown();
    } else if (!op->submitted) {
        oracle_pair_join(&op->knows, &before->knows);
        oracle_pair_raise(&op->knows, before->here);
    }
    oracle_unlock();
}

void oracle_op_natively_after_line(struct oracle_op *op, const struct oracle_line *before)
{
    oracle_lock();
    if (!op || !before) {
        oracle_unknown();
    } else if (!op->submitted) {
        oracle_clock_join(&op->knows.n, before->knows.n);
        oracle_clock_raise(&op->knows.n, before->here);
    }
    oracle_unlock();
}

/* ---- its place -------------------------------------------------------------------- */

/* Behind what the host thread knows; an own one in S alone. */
static void join_past(struct oracle_pair *into, const struct oracle_past *past, bool own)
{
    if (past && own)
        oracle_clock_join(&into->s, past->knows.s);
    else if (past)
        oracle_pair_join(into, &past->knows);
}

/* Let the line know what is in the pair; of an own operation in S alone. */
static void pass_on(struct oracle_line *line, const struct oracle_pair *pair, bool own,
                    const struct oracle_past *past)
{
    if (own) {
        oracle_clock_join(&line->knows.s, pair->s);
    } else {
        oracle_pair_join(&line->knows, pair);
        line->version = past ? past->version : line->version;
    }
}

static void start_in_order(struct oracle_op *op, struct oracle_line *line,
                           const struct oracle_past *past)
{
    bool waits = op->knows.n || op->knows.s;

    line->base_here = line->here;
    op->here = line->here = oracle_slot_next(&line->knows, line->here);
    if (!waits && past && line->version == past->version) {
        oracle_pair_set(&op->knows, &line->knows); /* which includes the past */
    } else {
        oracle_pair_join(&op->knows, &line->knows);
        join_past(&op->knows, past, op->own);
        pass_on(line, &op->knows, op->own, past);
    }
    oracle_pair_set(&line->base, &op->knows);
}

/* What a programmatic launch starts from; the line's base is that from now on. */
static void start_beside(struct oracle_op *op, struct oracle_line *line,
                         const struct oracle_past *past)
{
    oracle_pair_join(&op->knows, &line->base);
    oracle_pair_raise(&op->knows, line->base_here);
    join_past(&op->knows, past, op->own);
    oracle_pair_set(&line->base, &op->knows);
    line->base_here.slot = ORACLE_NO_SLOT;
}

/* A slot for a programmatic launch: the one the stream used longest ago, if the launch
 * knows all that was counted there. */
static struct oracle_point slot_beside(struct oracle_line *line,
                                       const struct oracle_pair *known)
{
    struct oracle_beside *beside = &line->beside;

    if (beside->count > 0) {
        struct oracle_point oldest = beside->points[beside->first];
        if (oldest.index < UINT32_MAX && oracle_pair_knows(known, true, oldest) &&
            oracle_pair_knows(known, false, oldest)) {
            beside->first = (beside->first + 1) & (beside->room - 1);
            beside->count--;
            return oldest;
        }
    }
    return oracle_slot_take(known);
}

static void keep_beside(struct oracle_beside *beside, struct oracle_point point)
{
    if (beside->count == beside->room) {
        uint32_t room = beside->room ? 2 * beside->room : 8;
        struct oracle_point *points = oracle_allocate(NULL, room * sizeof(*points));
        if (!points)
            return; /* the slot is not used again */
        for (uint32_t i = 0; i < beside->count; i++)
            points[i] = beside->points[(beside->first + i) & (beside->room - 1)];
        free(beside->points);
        *beside = (struct oracle_beside){points, 0, beside->count, room};
    }
    beside->points[(beside->first + beside->count++) & (beside->room - 1)] = point;
}

/* A programmatic launch. One that waits inside is behind the end of the one before it,
 * not behind what that one itself has not waited for. */
static void take_place_beside(struct oracle_op *op, struct oracle_line *line,
                              const struct oracle_past *past, bool waits)
{
    start_beside(op, line, past);
    pass_on(line, &op->knows, op->own, past);
    if (waits) {
        oracle_pair_join(&op->knows, &line->last);
        oracle_pair_raise(&op->knows, line->last_here);
    }
    op->here = slot_beside(line, &op->knows);
    op->here.index++;
    oracle_pair_raise(&line->knows, op->here);
    keep_beside(&line->beside, op->here);
}

/* In order, but counted in another slot of the stream, so that its point can be known
 * without what is before it in the stream; earlier ones of its kind alone are. */
static void take_place_unfenced(struct oracle_op *op, struct oracle_line *line,
                                const struct oracle_past *past)
{
    static const struct oracle_pair nothing = {NULL, NULL};

    start_in_order(op, line, past);
    oracle_pair_raise(&op->knows, op->here);
    if (line->unfenced.index == 0)
        line->unfenced = oracle_slot_take(&nothing);
    op->here = line->unfenced = oracle_slot_next(&line->knows, line->unfenced);
    oracle_pair_raise(&line->knows, op->here);
    join_past(&op->told, past, op->own);
    op->was_told = true;
}

static void take_place(struct oracle_op *op, struct oracle_line *line,
                       const struct oracle_past *past, enum oracle_overlap overlap)
{
    if (op->unfenced) {
        take_place_unfenced(op, line, past);
        oracle_pair_set(&line->last, &op->knows);
        line->last_here = op->here;
        return;
    }
    if (overlap == ORACLE_IN_ORDER)
        start_in_order(op, line, past);
    else
        take_place_beside(op, line, past, overlap == ORACLE_OVERLAPS_WAITS);
    oracle_pair_set(&line->last, &op->knows);
    line->last_here = op->here;
}

void oracle_op_submit(struct oracle_op *op, const struct oracle_work *work)
{
    uint32_t stack = oracle_callers_take();

    oracle_lock();
    struct oracle_line *line = work->stream;
    if (!op || op->submitted || !line || line->kind != ORACLE_STREAM) {
        oracle_unknown();
        oracle_unlock();
        return;
    }
    op->heard = ++oracle_now;
    op->own = work->own;
    op->unfenced = work->unfenced;
    op->call = work->call;
    op->line = line->id;
    op->number = ++line->count;
    op->stack = stack;
    if (op->own) { /* what it waits for orders nothing in N */
        oracle_clock_unref(op->knows.n);
        op->knows.n = NULL;
    }
    take_place(op, line, oracle_past_of(work->host), work->overlap);
    op->submitted = true;
    op->next = oracle_pending;
    op->prev = NULL;
    if (op->next)
        op->next->prev = op;
    oracle_pending = op;
    oracle_operations++;
    oracle_unlock();
}

void oracle_op_done(struct oracle_op *op)
{
    if (!op)
        return;
    oracle_lock();
    unlink_pending(op);
    op->done = true;
    oracle_unlock();
}

/* ---- the host --------------------------------------------------------------------- */

void oracle_host_saw(struct oracle_line *host, const struct oracle_op *op, bool own,
                     bool asked)
{
    oracle_lock();
    struct oracle_past *past = oracle_past_of(host);
    if (!past || !op)
        oracle_unknown();
    else if (!own || !asked)
        oracle_past_learns(past, &op->knows, op->here, !own);
    oracle_unlock();
}

void oracle_host_saw_line(struct oracle_line *host, const struct oracle_line *line,
                          bool own, bool asked)
{
    oracle_lock();
    struct oracle_past *past = oracle_past_of(host);
    if (!past || !line || line->kind != ORACLE_STREAM)
        oracle_unknown();
    else if (!own || !asked)
        oracle_past_learns(past, &line->knows, line->here, !own);
    oracle_unlock();
}

void oracle_host_function(const struct oracle_op *op)
{
    oracle_lock();
    if (!op)
        oracle_unknown();
    for (struct oracle_past *past = oracle_next_past(NULL); op && !op->own && past;
         past = oracle_next_past(past)) {
        const struct oracle_point start = {op->here.slot, op->here.index - 1};
        oracle_past_learns(past, &op->knows, start, true);
    }
    oracle_unlock();
}

struct oracle_op *oracle_op_of_host(struct oracle_line *host, const char *call)
{
    struct oracle_past *past = oracle_past_of(host);
    struct oracle_op *op = past ? op_new() : NULL;

    if (!op)
        return NULL;
    op->heard = ++oracle_now;
    op->here = oracle_past_event(past);
    oracle_pair_set(&op->knows, &past->knows);
    op->call = call;
    op->line = host->id;
    op->host = op->submitted = op->done = true;
    return op;
}
