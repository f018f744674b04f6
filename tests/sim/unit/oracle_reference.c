/*
 * oracle_reference.c - the oracle's rules over an explicit graph. See
 * oracle_reference.h.
 *
 * An operation is four nodes, each behind the one before: its launch, its start, its
 * accesses, its end. A programmatic launch is behind the launch before it, all others
 * behind the ends of all before them in the stream. That a is before b: the accesses of
 * b are behind the end of a.
 */
#include "oracle_reference.h"

#include <criterion/criterion.h>

#include "oracle_graph.h"
#include "oracle_reference_state.h"

struct ref_step ref_step;

/* ---- things ----------------------------------------------------------------------- */

struct ref_op ref_ops[REF_OPS];
struct ref_allocation ref_allocations[REF_ALLOCATIONS];
struct ref_unit ref_units[REF_UNITS];
int ref_op_count;

static struct stream {
    int all;    /* node: behind its making and the ends of all in it */
    int launch; /* node: of its last operation */
    int last;   /* node: the end of that */
} streams[REF_STREAMS];

static struct host {
    int now; /* node */
    bool gone;
} hosts[REF_HOSTS];

static int stream_count, host_count, allocation_count, now;
static bool separate;

void ref_begin(bool separate_hosts)
{
    graph_clear();
    ref_op_count = stream_count = host_count = allocation_count = 0;
    now = 0;
    separate = separate_hosts;
    for (int i = 0; i < REF_UNITS; i++)
        ref_units[i] = (struct ref_unit){.newest = REF_NONE, .outer = REF_NONE};
    ref_host_new(REF_NONE);
}

void ref_step_begin(void)
{
    ref_step.count = 0;
    ref_step.beside_beginning = false;
    ref_step.hidden = REF_NONE;
}

void ref_find(enum oracle_finding kind, int first, int second, int allocation)
{
    for (int i = 0; i < ref_step.count; i++) {
        struct ref_finding *old = &ref_step.findings[i];
        if (old->first == first && old->second == second &&
            old->allocation == allocation) {
            old->kinds |= 1u << kind;
            return;
        }
    }
    cr_assert_lt(ref_step.count, (int)GS_ARRAY_LEN(ref_step.findings));
    ref_step.findings[ref_step.count++] =
        (struct ref_finding){1u << kind, first, second, allocation};
}

/* ---- hosts and streams ------------------------------------------------------------ */

static struct host *host_of(int host)
{
    return &hosts[separate ? host : 0];
}

/* The host goes on, behind that in the one graph or in both. */
static void host_behind(int host, enum ref_graph graph, int before)
{
    int next = node();

    edge(REF_BOTH, next, host_of(host)->now);
    edge(graph, next, before);
    host_of(host)->now = next;
}

int ref_host_event(int host)
{
    int next = node();

    edge(REF_BOTH, next, host_of(host)->now);
    host_of(host)->now = next;
    return next;
}

static void behind_all_hosts(enum ref_graph graph, int behind)
{
    for (int i = 0; i < host_count; i++) {
        if (!hosts[i].gone)
            edge(graph, behind, host_of(i)->now);
    }
}

int ref_host_new(int creator)
{
    int host = host_count++, first;

    cr_assert_lt(host, REF_HOSTS);
    hosts[host] = (struct host){REF_NONE, false};
    first = node();
    if (separate && creator != REF_NONE) {
        edge(REF_BOTH, first, hosts[creator].now);
    } else if (separate) {
        for (int i = 0; i < host; i++)
            edge(REF_BOTH, first, hosts[i].now);
    }
    hosts[host].now = first;
    return host;
}

void ref_host_end(int host)
{
    hosts[host].gone = true;
}

int ref_stream_new(int host)
{
    int stream = stream_count++;

    cr_assert_lt(stream, REF_STREAMS);
    streams[stream].all = streams[stream].launch = streams[stream].last = node();
    edge(REF_BOTH, streams[stream].all, host_of(host)->now);
    return stream;
}

/* ---- operations ------------------------------------------------------------------- */

int ref_submit(int host, int stream, enum oracle_overlap overlap, bool own,
               const int *afters, int after_count, const int *lines, int line_count)
{
    enum ref_graph graph = own ? REF_S : REF_BOTH;
    struct stream *line = &streams[stream];
    int number = ref_op_count++;
    struct ref_op *op = &ref_ops[number];

    cr_assert_lt(number, REF_OPS);
    *op =
        (struct ref_op){node(), node(), node(), node(), own, false, false, false, ++now};
    edge(REF_BOTH, op->start, op->launch);
    edge(REF_BOTH, op->access, op->start);
    edge(REF_BOTH, op->end, op->access);
    edge(graph, op->launch, host_of(host)->now);
    for (int i = 0; i < after_count; i++)
        edge(graph, op->launch, ref_ops[afters[i]].end);
    for (int i = 0; i < line_count; i++)
        edge(graph, op->launch, streams[lines[i]].all);
    if (overlap == ORACLE_IN_ORDER)
        edge(REF_BOTH, op->launch, line->all);
    else
        edge(REF_BOTH, op->launch, line->launch);
    if (overlap == ORACLE_OVERLAPS_WAITS)
        edge(REF_BOTH, op->start, line->last);
    int all = node();
    edge(REF_BOTH, all, line->all);
    edge(REF_BOTH, all, op->end);
    line->all = all;
    line->launch = op->launch;
    line->last = op->end;
    return number;
}

int ref_host_op(int event)
{
    int number = ref_op_count++;

    cr_assert_lt(number, REF_OPS);
    ref_ops[number] =
        (struct ref_op){event, event, event, event, false, true, true, false, ++now};
    return number;
}

void ref_done(int op)
{
    ref_ops[op].done = true;
}

/* Behind whoever is remembered to have written the unit. Was one of them the host? */
static bool behind_writers(int behind, int unit, bool own)
{
    bool host_wrote = false;

    for (int i = 0; i < ref_units[unit].count; i++) {
        const struct ref_mark *mark = &ref_units[unit].marks[i];
        if (!mark->writes || mark->taken_in)
            continue;
        edge(own || ref_ops[mark->op].own ? REF_S : REF_BOTH, behind,
             ref_ops[mark->op].end);
        host_wrote |= ref_ops[mark->op].host;
    }
    return host_wrote;
}

void ref_saw_memory(int op, int unit, bool host_may)
{
    int seen = node();
    bool host_wrote = behind_writers(seen, unit, ref_ops[op].own);

    ref_ops[op].saw = true;
    if (host_may && !host_wrote)
        behind_all_hosts(ref_ops[op].own ? REF_S : REF_BOTH, seen);
    if (is_behind(REF_N, seen, ref_ops[op].end))
        circular_edge(ref_ops[op].access, seen);
    else
        edge(REF_BOTH, ref_ops[op].access, seen);
}

void ref_host_saw(int host, int op, bool own, bool asked)
{
    if (!own || !asked)
        host_behind(host, own ? REF_S : REF_BOTH, ref_ops[op].end);
}

void ref_host_saw_stream(int host, int stream, bool own, bool asked)
{
    if (!own || !asked)
        host_behind(host, own ? REF_S : REF_BOTH, streams[stream].all);
}

void ref_host_saw_memory(int host, int unit)
{
    int writers = node();

    behind_writers(writers, unit, false);
    host_behind(host, REF_BOTH, writers);
}

void ref_host_function(int op)
{
    for (int i = 0; i < host_count && !ref_ops[op].own; i++) {
        if (!hosts[i].gone && (separate || i == 0))
            host_behind(i, REF_BOTH, ref_ops[op].start);
    }
}

/* ---- allocations ----------------------------------------------------------------------
 */

static int reaching(int allocation, int from, int to)
{
    while (allocation != REF_NONE && (to <= ref_allocations[allocation].from ||
                                      from >= ref_allocations[allocation].to))
        allocation = ref_allocations[allocation].outer;
    return allocation;
}

static int live(int allocation, int unit)
{
    while (allocation != REF_NONE && (ref_allocations[allocation].ended ||
                                      unit < ref_allocations[allocation].from ||
                                      unit >= ref_allocations[allocation].to))
        allocation = ref_allocations[allocation].outer;
    return allocation;
}

int ref_allocation_find(int unit)
{
    int newest = ref_units[unit].newest;

    if (newest == REF_NONE || !ref_allocations[newest].ended)
        return newest;
    return live(ref_units[unit].outer, unit);
}

bool ref_allocation_ended(int allocation)
{
    return ref_allocations[allocation].ended;
}

static void end_life(struct ref_allocation *allocation, int host, int op)
{
    allocation->ended = true;
    allocation->over = ++now;
    allocation->end = node();
    allocation->end_point = op == REF_NONE ? ref_host_event(host) : ref_ops[op].end;
    allocation->end_host = host_of(host)->now;
    edge(REF_BOTH, allocation->end, allocation->end_point);
    int freed = node();
    if (allocation->free != REF_NONE)
        edge(REF_S, freed, allocation->free);
    edge(REF_S, freed, allocation->birth);
    edge(REF_S, freed, allocation->end_host);
    allocation->free = freed;
}

static void follow_unit(struct ref_allocation *allocation, int number, int host,
                        struct ref_unit *unit)
{
    int earlier = unit->newest, outer = REF_NONE;

    while (earlier != REF_NONE) {
        struct ref_allocation *other = &ref_allocations[earlier];
        if (!other->ended && allocation->inner) {
            if (other->inner)
                ref_find(ORACLE_HANDED_TWICE, earlier, REF_NONE, number);
            edge(REF_S, allocation->birth, other->birth);
            outer = earlier;
            break;
        }
        if (!other->ended)
            end_life(other, host, REF_NONE);
        allocation->follows = true;
        edge(REF_S, allocation->birth, other->free);
        if (separate)
            host_behind(host, REF_BOTH, other->end_host);
        earlier = earlier == unit->newest ? unit->outer : other->outer;
        earlier = reaching(earlier, allocation->from, allocation->to);
    }
    if (allocation->outer == REF_NONE)
        allocation->outer = outer;
    unit->newest = number;
    unit->outer = outer;
}

int ref_allocation_begin(int host, int op, int from, int to, bool inner)
{
    int number = allocation_count++;
    struct ref_allocation *allocation = &ref_allocations[number];

    cr_assert_lt(number, REF_ALLOCATIONS);
    *allocation = (struct ref_allocation){
        .from = from, .to = to, .outer = REF_NONE, .inner = inner, .free = REF_NONE};
    allocation->birth = node();
    allocation->born = ++now;
    allocation->in_stream = op != REF_NONE;
    ref_step_begin();
    for (int i = from; i < to; i++)
        follow_unit(allocation, number, host, &ref_units[i]);
    allocation->birth_point = op == REF_NONE ? ref_host_event(host) : ref_ops[op].end;
    edge(REF_BOTH, allocation->birth, allocation->birth_point);
    return number;
}

void ref_race_with_end(int number, int op)
{
    const struct ref_allocation *allocation = &ref_allocations[number];
    bool s = is_behind(REF_S, allocation->end, ref_ops[op].end);

    if (!is_behind(REF_N, allocation->end, ref_ops[op].end))
        ref_find(s ? ORACLE_MASKED : ORACLE_RACE, op, REF_NONE, number);
}

void ref_allocation_end(int number, int host, int op, const int *waited, int count)
{
    struct ref_allocation *allocation = &ref_allocations[number];

    ref_step_begin();
    if (allocation->ended)
        return;
    int all = node();
    for (int i = 0; i < count; i++)
        edge(REF_N, all, streams[waited[i]].all);
    host_behind(host, REF_N, all);
    end_life(allocation, host, op);
    edge(REF_N, allocation->end, all);
    for (int i = allocation->from; i < allocation->to; i++) {
        for (int k = 0; k < ref_units[i].count; k++) {
            const struct ref_mark *mark = &ref_units[i].marks[k];
            if (mark->allocation == number && !mark->taken_in && !ref_ops[mark->op].own)
                ref_race_with_end(number, mark->op);
        }
    }
}

void ref_allocation_retire(int number, int host, int op)
{
    struct ref_allocation *allocation = &ref_allocations[number];
    int freed = node();

    ref_step_begin();
    allocation->retired = ++now;
    if (allocation->free != REF_NONE)
        edge(REF_S, freed, allocation->free);
    if (op != REF_NONE && !ref_ops[op].done) {
        ref_find(ORACLE_EARLY_RETIRE, op, REF_NONE, number);
        return;
    }
    edge(REF_S, freed, op != REF_NONE ? ref_ops[op].end : host_of(host)->now);
    allocation->free = freed;
}
