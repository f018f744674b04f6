/*
 * edges.c - order found at run time: an operation saw what another had written, when
 * operations behind it had been submitted already and their clocks stood.
 *
 * An edge says: who is behind this point is behind that pair, too. The edges are kept
 * closed: what one edge's pair is behind through another is in the pair itself, so a
 * question follows one edge at most. When there are many, each is put into every clock
 * that is behind its point, and they are dropped; clocks made later are made of those.
 *
 * What was seen may be behind the point itself, in N: a thread that natively would have
 * waited for the operation (a layer's free does not) goes on and lets it end. Natively
 * that program blocks there, and has no order. Such an edge is circular: by it one is
 * behind the pair in N only if it is behind the point in S, too. Else all that the thread
 * did since that free would be behind all the rest of it. Circular edges are kept apart,
 * and in N they are in no other edge's pair: a question follows them one by one. When
 * there are many the older half is put into the clocks that are behind them.
 *
 * Owns:  the edges.   Lock: the oracle's.
 */
#include "oracle_state.h"

#include <string.h>

#define MOST_EDGES   64
#define MOST_CIRCLES 64

struct edge {
    struct oracle_point from; /* who is behind this ... */
    struct oracle_pair to;    /* ... is behind that */
};

static struct edge edges[MOST_EDGES];     /* the oracle's lock */
static size_t edge_count;                 /* the oracle's lock */
static struct edge circles[MOST_CIRCLES]; /* the oracle's lock; oldest first */
static size_t circle_count;               /* the oracle's lock */
static size_t circles_settling; /* the oracle's lock; put into the clocks just now */

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

/* By itself, or through an edge that is not circular in that graph? */
static bool knows_plainly(const struct oracle_clock *clock, struct oracle_point here,
                          bool n, struct oracle_point point)
{
    if (behind(clock, here, point))
        return true;
    for (size_t i = 0; i < edge_count; i++) {
        if (behind(end_of(&edges[i], n), none, point) &&
            behind(clock, here, edges[i].from))
            return true;
    }
    for (size_t i = 0; !n && i < circle_count; i++) {
        if (behind(circles[i].to.s, none, point) && behind(clock, here, circles[i].from))
            return true;
    }
    return false;
}

/* In N, through circular edges: each that is followed may lead to others. */
static bool knows_in_circles(const struct oracle_pair *pair, struct oracle_point here,
                             struct oracle_point point)
{
    const struct oracle_clock *reached[1 + MOST_CIRCLES] = {pair->n};
    bool done[MOST_CIRCLES];
    size_t count = 1;

    for (size_t i = 0; i < circle_count; i++)
        done[i] = !knows_plainly(pair->s, here, false, circles[i].from);
    for (size_t at = 0; at < count; at++) {
        const struct oracle_point own = at == 0 ? here : none;
        if (at > 0 && knows_plainly(reached[at], none, true, point))
            return true;
        for (size_t i = 0; i < circle_count; i++) {
            if (done[i] || !knows_plainly(reached[at], own, true, circles[i].from))
                continue;
            reached[count++] = circles[i].to.n;
            done[i] = true;
        }
    }
    return false;
}

bool oracle_pair_knows_at(const struct oracle_pair *pair, struct oracle_point here,
                          bool n, struct oracle_point point)
{
    return point.index == 0 || knows_plainly(n ? pair->n : pair->s, here, n, point) ||
           (n && circle_count > 0 && knows_in_circles(pair, here, point));
}

/* Put into the clock what it is behind through edges that are not circular there. */
static void settle_clock(struct oracle_clock **clock, struct oracle_point here, bool n)
{
    for (size_t i = 0; i < edge_count; i++) {
        if (behind(*clock, here, edges[i].from))
            oracle_clock_join(clock, end_of(&edges[i], n));
    }
    for (size_t i = 0; !n && i < circle_count; i++) {
        if (behind(*clock, here, circles[i].from))
            oracle_clock_join(clock, circles[i].to.s);
    }
}

static void settle_plainly(struct oracle_pair *pair, struct oracle_point here)
{
    settle_clock(&pair->n, here, true);
    settle_clock(&pair->s, here, false);
}

static void settle(struct oracle_pair *pair, struct oracle_point here)
{
    bool more = true;

    settle_plainly(pair, here);
    while (more) {
        more = false;
        for (size_t i = 0; i < circles_settling; i++) {
            if (!behind(pair->n, here, circles[i].from) ||
                !behind(pair->s, here, circles[i].from) ||
                oracle_clock_within(circles[i].to.n, pair->n))
                continue;
            oracle_clock_join(&pair->n, circles[i].to.n);
            more = true;
        }
    }
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

static void settle_allocation(struct oracle_allocation *allocation)
{
    settle(&allocation->birth, none);
    settle(&allocation->end, none);
    settle(&allocation->end_host, none);
    settle_clock(&allocation->free, none, false);
}

static void drop_edges(struct edge *all, size_t *count, size_t dropped)
{
    for (size_t i = 0; i < dropped; i++)
        oracle_pair_clear(&all[i].to);
    *count -= dropped;
    memmove(all, all + dropped, *count * sizeof(*all));
}

/* Every clock there is, and the pair, take over what the edges say; they go. */
static void settle_all(struct oracle_pair *pair)
{
    circles_settling = circle_count == MOST_CIRCLES ? MOST_CIRCLES / 2 : 0;
    settle(pair, none);
    oracle_ops_visit(settle_op);
    for (struct oracle_line *line = oracle_lines; line; line = line->next)
        settle_line(line);
    for (struct oracle_allocation *allocation = oracle_allocations; allocation;
         allocation = allocation->next)
        settle_allocation(allocation);
    oracle_pasts_visit(settle);
    for (size_t i = circles_settling; i < circle_count; i++)
        settle(&circles[i].to, none);
    drop_edges(edges, &edge_count, edge_count);
    drop_edges(circles, &circle_count, circles_settling);
}

/* Let a pair that is behind the point be behind what the edge from there leads to. */
static void lead_on(struct oracle_pair *pair, struct oracle_point from,
                    const struct oracle_pair *to, bool circular)
{
    if (!circular && behind(pair->n, none, from))
        oracle_clock_join(&pair->n, to->n);
    if (behind(pair->s, none, from))
        oracle_clock_join(&pair->s, to->s);
}

/* Who is behind the point is behind the pair from now on. Takes over its references. */
static void add_edge(struct oracle_point from, struct oracle_pair *to)
{
    bool circular = oracle_pair_knows(to, true, from);

    if (edge_count == MOST_EDGES || circle_count == MOST_CIRCLES)
        settle_all(to);
    settle_plainly(to, none); /* once is enough: the edges are closed */
    for (size_t i = 0; i < edge_count; i++)
        lead_on(&edges[i].to, from, to, circular);
    for (size_t i = 0; i < circle_count; i++)
        lead_on(&circles[i].to, from, to, circular);
    if (circular)
        circles[circle_count++] = (struct edge){from, *to};
    else
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
