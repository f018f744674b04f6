/*
 * edges.c - order found at run time: an operation saw what another had written, when
 * operations behind it had been submitted already and their clocks stood.
 *
 * An edge says: who is behind this point is behind that pair, too. The edges are kept
 * closed: what one edge's pair is behind through another is in the pair itself, so a
 * question follows one edge at most. When there are many, each is put into every clock
 * that is behind its point, and they are dropped; clocks made later are made of those.
 *
 * Owns:  the edges.   Lock: the oracle's.
 */
#include "oracle_state.h"

#define MOST_EDGES 64

struct edge {
    struct oracle_point from; /* who is behind this ... */
    struct oracle_pair to;    /* ... is behind that */
};

static struct edge edges[MOST_EDGES]; /* the oracle's lock */
static size_t edge_count;             /* the oracle's lock */

static const struct oracle_point none = {ORACLE_NO_SLOT, 0};

static bool behind(const struct oracle_clock *clock, struct oracle_point here,
                   struct oracle_point point)
{
    return (here.slot == point.slot && here.index >= point.index) ||
           oracle_clock_at(clock, point.slot) >= point.index;
}

static struct oracle_clock *end_of(const struct edge *edge, bool n)
{
    return n ? edge->to.n : edge->to.s;
}

bool oracle_clock_knows(const struct oracle_clock *clock, struct oracle_point here,
                        bool n, struct oracle_point point)
{
    if (point.index == 0 || behind(clock, here, point))
        return true;
    for (size_t i = 0; i < edge_count; i++) {
        if (behind(end_of(&edges[i], n), none, point) &&
            behind(clock, here, edges[i].from))
            return true;
    }
    return false;
}

/* Put into the clock what it is behind through edges. */
static void settle_clock(struct oracle_clock **clock, struct oracle_point here, bool n)
{
    for (size_t i = 0; i < edge_count; i++) {
        if (behind(*clock, here, edges[i].from))
            oracle_clock_join(clock, end_of(&edges[i], n));
    }
}

static void settle(struct oracle_pair *pair, struct oracle_point here)
{
    settle_clock(&pair->n, here, true);
    settle_clock(&pair->s, here, false);
}

static void settle_op(struct oracle_op *op)
{
    settle(&op->knows, op->here);
    if (op->was_told)
        settle(&op->told, none);
}

static void settle_line(struct oracle_line *line)
{
    settle(&line->knows, line->here);
    settle(&line->base, line->base_here);
    settle(&line->last, line->last_here);
}

static void settle_tenant(struct oracle_tenant *tenant)
{
    settle(&tenant->birth, none);
    settle(&tenant->end, none);
    settle(&tenant->end_host, none);
    settle_clock(&tenant->free, none, false);
}

/* Every clock there is takes over what the edges say; they go. */
static void settle_all(void)
{
    oracle_ops_visit(settle_op);
    for (struct oracle_line *line = oracle_lines; line; line = line->next)
        settle_line(line);
    for (struct oracle_tenant *tenant = oracle_tenants; tenant; tenant = tenant->next)
        settle_tenant(tenant);
    oracle_pasts_visit(settle);
    for (size_t i = 0; i < edge_count; i++)
        oracle_pair_clear(&edges[i].to);
    edge_count = 0;
}

/* Who is behind the point is behind the pair from now on. Takes over its references. */
static void add_edge(struct oracle_point from, struct oracle_pair *to)
{
    settle(to, none); /* once is enough: the edges are closed */
    if (edge_count == MOST_EDGES)
        settle_all();
    for (size_t i = 0; i < edge_count; i++) {
        struct edge *edge = &edges[i];
        if (behind(edge->to.n, none, from))
            oracle_clock_join(&edge->to.n, to->n);
        if (behind(edge->to.s, none, from))
            oracle_clock_join(&edge->to.s, to->s);
    }
    edges[edge_count++] = (struct edge){from, *to};
}

/* ---- what was seen ---------------------------------------------------------------- */

struct seen {
    struct oracle_pair pair;
    struct oracle_op *op;
    uintptr_t from,
        to; /* bytes the host is known to have written last: to is exclusive */
    bool gap;
};

static void see_writer(const struct oracle_mark *mark, uintptr_t start, uintptr_t end,
                       void *argument)
{
    struct seen *seen = argument;

    if (!mark->writes || mark->op == seen->op)
        return;
    if (mark->op->host && start <= seen->from && end >= seen->to)
        seen->gap = false;
    const struct oracle_pair *knows =
        mark->op->unfenced ? &mark->op->told : &mark->op->knows;
    oracle_clock_join(&seen->pair.s, knows->s);
    oracle_clock_raise(&seen->pair.s, mark->op->here);
    if (mark->op->own)
        return; /* the program knows nothing of it */
    oracle_clock_join(&seen->pair.n, knows->n);
    oracle_clock_raise(&seen->pair.n, mark->op->here);
}

static void join_pasts(struct oracle_pair *into)
{
    for (struct oracle_past *past = oracle_next_past(NULL); past;
         past = oracle_next_past(past))
        oracle_pair_join(into, &past->knows);
}

/* What the host may have told the operation. */
static void join_hosts(struct oracle_pair *into, const struct oracle_op *op)
{
    if (op && op->was_told)
        oracle_pair_join(into, &op->told);
    else
        join_pasts(into);
}

void oracle_op_was_told(struct oracle_op *op)
{
    if (!op)
        return;
    oracle_lock();
    if (!op->was_told)
        join_pasts(&op->told);
    op->was_told = true;
    oracle_unlock();
}

void oracle_op_saw(struct oracle_op *op, uintptr_t address, size_t bytes, bool host_may)
{
    const struct oracle_range range = {address, bytes};

    oracle_lock();
    struct seen seen = {{NULL, NULL}, op, address, oracle_range_end(&range), true};
    oracle_shadow_visit(seen.from, seen.to, see_writer, &seen);
    if (host_may && seen.gap)
        join_hosts(&seen.pair, op);
    if (op && op->own) {
        oracle_clock_unref(seen.pair.n);
        seen.pair.n = NULL;
    }
    if (op && !op->submitted) {
        oracle_pair_join(&op->knows, &seen.pair);
        oracle_pair_clear(&seen.pair);
    } else if (!op) {
        oracle_pair_clear(&seen.pair);
        oracle_unknown();
    } else if (oracle_clock_within(seen.pair.n, op->knows.n) &&
               oracle_clock_within(seen.pair.s, op->knows.s)) {
        oracle_pair_clear(&seen.pair);
    } else {
        add_edge(op->here, &seen.pair);
    }
    oracle_unlock();
}
