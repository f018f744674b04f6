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

struct ref_step ref_step;

/* ---- things ----------------------------------------------------------------------- */

static struct op {
    int launch, start, access, end;
    bool own, done, host;
    int heard;
} ops[REF_OPS];

static struct stream {
    int all;    /* node: behind its making and the ends of all in it */
    int launch; /* node: of its last operation */
    int last;   /* node: the end of that */
} streams[REF_STREAMS];

static struct host {
    int now; /* node */
    bool gone;
} hosts[REF_HOSTS];

static struct tenant {
    int from, to, outer;
    bool inner, ended, in_stream, follows;
    int birth, birth_point; /* nodes */
    int end, end_point, end_host, free;
    int born, over, retired;
} tenants[REF_TENANTS];

struct mark {
    int op, tenant;
    bool writes, atomic, taken_in;
};

static struct unit {
    int newest, outer;
    struct mark marks[2 * REF_OPS];
    int count;
} units[REF_UNITS];

static int op_count, stream_count, host_count, tenant_count, now;
static bool separate;

void ref_begin(bool separate_hosts)
{
    graph_clear();
    op_count = stream_count = host_count = tenant_count = 0;
    now = 0;
    separate = separate_hosts;
    for (int i = 0; i < REF_UNITS; i++)
        units[i] = (struct unit){.newest = REF_NONE, .outer = REF_NONE};
    ref_host_new(REF_NONE);
}

static void step_begin(void)
{
    ref_step.count = 0;
    ref_step.beside_beginning = false;
    ref_step.hidden = REF_NONE;
}

static void find(enum oracle_finding kind, int first, int second, int tenant)
{
    for (int i = 0; i < ref_step.count; i++) {
        struct ref_finding *old = &ref_step.findings[i];
        if (old->first == first && old->second == second && old->tenant == tenant) {
            old->kinds |= 1u << kind;
            return;
        }
    }
    cr_assert_lt(ref_step.count, (int)GS_ARRAY_LEN(ref_step.findings));
    ref_step.findings[ref_step.count++] =
        (struct ref_finding){1u << kind, first, second, tenant};
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

static int host_event(int host)
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
    int number = op_count++;
    struct op *op = &ops[number];

    cr_assert_lt(number, REF_OPS);
    *op = (struct op){node(), node(), node(), node(), own, false, false, ++now};
    edge(REF_BOTH, op->start, op->launch);
    edge(REF_BOTH, op->access, op->start);
    edge(REF_BOTH, op->end, op->access);
    edge(graph, op->launch, host_of(host)->now);
    for (int i = 0; i < after_count; i++)
        edge(graph, op->launch, ops[afters[i]].end);
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

void ref_done(int op)
{
    ops[op].done = true;
}

/* Behind whoever is remembered to have written the unit. Was one of them the host? */
static bool behind_writers(int behind, int unit, bool own)
{
    bool host_wrote = false;

    for (int i = 0; i < units[unit].count; i++) {
        const struct mark *mark = &units[unit].marks[i];
        if (!mark->writes || mark->taken_in)
            continue;
        edge(own || ops[mark->op].own ? REF_S : REF_BOTH, behind, ops[mark->op].end);
        host_wrote |= ops[mark->op].host;
    }
    return host_wrote;
}

void ref_saw_memory(int op, int unit, bool host_may)
{
    bool host_wrote = behind_writers(ops[op].access, unit, ops[op].own);

    if (host_may && !host_wrote)
        behind_all_hosts(ops[op].own ? REF_S : REF_BOTH, ops[op].access);
}

void ref_host_saw(int host, int op, bool own, bool asked)
{
    if (!own || !asked)
        host_behind(host, own ? REF_S : REF_BOTH, ops[op].end);
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
    for (int i = 0; i < host_count && !ops[op].own; i++) {
        if (!hosts[i].gone && (separate || i == 0))
            host_behind(i, REF_BOTH, ops[op].start);
    }
}

/* ---- tenants ---------------------------------------------------------------------- */

static int reaching(int tenant, int from, int to)
{
    while (tenant != REF_NONE &&
           (to <= tenants[tenant].from || from >= tenants[tenant].to))
        tenant = tenants[tenant].outer;
    return tenant;
}

static int live(int tenant, int unit)
{
    while (tenant != REF_NONE && (tenants[tenant].ended || unit < tenants[tenant].from ||
                                  unit >= tenants[tenant].to))
        tenant = tenants[tenant].outer;
    return tenant;
}

int ref_tenant_find(int unit)
{
    int newest = units[unit].newest;

    if (newest == REF_NONE || !tenants[newest].ended)
        return newest;
    return live(units[unit].outer, unit);
}

bool ref_tenant_ended(int tenant)
{
    return tenants[tenant].ended;
}

static void end_life(struct tenant *tenant, int host, int op)
{
    tenant->ended = true;
    tenant->over = ++now;
    tenant->end = node();
    tenant->end_point = op == REF_NONE ? host_event(host) : ops[op].end;
    tenant->end_host = host_of(host)->now;
    edge(REF_BOTH, tenant->end, tenant->end_point);
    int freed = node();
    if (tenant->free != REF_NONE)
        edge(REF_S, freed, tenant->free);
    edge(REF_S, freed, tenant->birth);
    edge(REF_S, freed, tenant->end_host);
    tenant->free = freed;
}

static void follow_unit(struct tenant *tenant, int number, int host, struct unit *unit)
{
    int earlier = unit->newest, outer = REF_NONE;

    while (earlier != REF_NONE) {
        struct tenant *other = &tenants[earlier];
        if (!other->ended && tenant->inner) {
            edge(REF_S, tenant->birth, other->birth);
            outer = earlier;
            break;
        }
        if (!other->ended)
            end_life(other, host, REF_NONE);
        tenant->follows = true;
        edge(REF_S, tenant->birth, other->free);
        if (separate)
            host_behind(host, REF_BOTH, other->end_host);
        earlier = earlier == unit->newest ? unit->outer : other->outer;
        earlier = reaching(earlier, tenant->from, tenant->to);
    }
    if (tenant->outer == REF_NONE)
        tenant->outer = outer;
    unit->newest = number;
    unit->outer = outer;
}

int ref_tenant_begin(int host, int op, int from, int to, bool inner)
{
    int number = tenant_count++;
    struct tenant *tenant = &tenants[number];

    cr_assert_lt(number, REF_TENANTS);
    *tenant = (struct tenant){
        .from = from, .to = to, .outer = REF_NONE, .inner = inner, .free = REF_NONE};
    tenant->birth = node();
    tenant->born = ++now;
    tenant->in_stream = op != REF_NONE;
    step_begin();
    for (int i = from; i < to; i++)
        follow_unit(tenant, number, host, &units[i]);
    tenant->birth_point = op == REF_NONE ? host_event(host) : ops[op].end;
    edge(REF_BOTH, tenant->birth, tenant->birth_point);
    return number;
}

static void race_with_end(int number, int op)
{
    const struct tenant *tenant = &tenants[number];
    bool s = is_behind(REF_S, tenant->end, ops[op].end);

    if (!is_behind(REF_N, tenant->end, ops[op].end))
        find(s ? ORACLE_MASKED : ORACLE_RACE, op, REF_NONE, number);
}

void ref_tenant_end(int number, int host, int op, const int *waited, int count)
{
    struct tenant *tenant = &tenants[number];

    step_begin();
    if (tenant->ended)
        return;
    int all = node();
    for (int i = 0; i < count; i++)
        edge(REF_N, all, streams[waited[i]].all);
    host_behind(host, REF_N, all);
    end_life(tenant, host, op);
    edge(REF_N, tenant->end, all);
    for (int i = tenant->from; i < tenant->to; i++) {
        for (int k = 0; k < units[i].count; k++) {
            const struct mark *mark = &units[i].marks[k];
            if (mark->tenant == number && !mark->taken_in && !ops[mark->op].own)
                race_with_end(number, mark->op);
        }
    }
}

void ref_tenant_retire(int number, int host, int op)
{
    struct tenant *tenant = &tenants[number];
    int freed = node();

    step_begin();
    tenant->retired = ++now;
    if (tenant->free != REF_NONE)
        edge(REF_S, freed, tenant->free);
    if (op != REF_NONE && !ops[op].done) {
        find(ORACLE_EARLY_RETIRE, op, REF_NONE, number);
        return;
    }
    edge(REF_S, freed, op != REF_NONE ? ops[op].end : host_of(host)->now);
    tenant->free = freed;
}

/* ---- verdicts --------------------------------------------------------------------- */

static bool before(enum ref_graph graph, int a, int b)
{
    return is_behind(graph, ops[b].access, ops[a].end);
}

bool ref_is_behind(int b, int a)
{
    return before(REF_N, a, b) && before(REF_S, a, b);
}

/* Do the accesses come at that point or behind it? */
static bool since(enum ref_graph graph, int op, int point)
{
    return ops[op].end == point || is_behind(graph, ops[op].access, point);
}

static bool inside(int inner, int outer)
{
    const struct tenant *x = &tenants[inner], *y = &tenants[outer];

    return x->inner && y->born < x->born && (!y->ended || y->over > x->born);
}

/* 0: they share the memory; 1: a's tenant hands it on to b's; 2: the other way round. */
static int who_hands_on(const struct mark *a, const struct mark *b)
{
    if (a->tenant == b->tenant || a->tenant == REF_NONE || b->tenant == REF_NONE)
        return 0;
    const struct tenant *x = &tenants[a->tenant], *y = &tenants[b->tenant];
    if (inside(b->tenant, a->tenant)) {
        if (ops[a->op].heard < y->born)
            return 1;
        return y->ended && ops[a->op].heard > y->over ? 2 : 0;
    }
    if (inside(a->tenant, b->tenant)) {
        if (ops[b->op].heard < x->born)
            return 2;
        return x->ended && ops[b->op].heard > x->over ? 1 : 0;
    }
    if (x->born < y->born)
        return x->ended ? 1 : 0;
    return y->ended ? 2 : 0;
}

static bool handed_on_in_n(const struct mark *old, const struct mark *new)
{
    const struct tenant *from = &tenants[old->tenant], *to = &tenants[new->tenant];
    int till = inside(new->tenant, old->tenant) ? to->birth : from->end;
    int from_here = inside(old->tenant, new->tenant) ? from->end_point : to->birth_point;

    return is_behind(REF_N, till, ops[old->op].end) && since(REF_N, new->op, from_here);
}

static bool handed_on_in_s(const struct mark *old, const struct mark *new)
{
    const struct tenant *from = &tenants[old->tenant], *to = &tenants[new->tenant];

    if (before(REF_S, old->op, new->op))
        return true;
    if (inside(old->tenant, new->tenant))
        return from->retired > 0 && from->retired < ops[new->op].heard &&
               is_behind(REF_S, from->free, ops[old->op].end);
    return is_behind(REF_S, to->birth, ops[old->op].end);
}

/* a ran before b. ORACLE_FINDINGS: in order. */
static enum oracle_finding judge(const struct mark *a, const struct mark *b)
{
    bool n = ops[a->op].own || ops[b->op].own, s = false;

    switch (who_hands_on(a, b)) {
    case 0:
        n = n || before(REF_N, a->op, b->op);
        s = before(REF_S, a->op, b->op) ||
            (a->tenant == REF_NONE && b->tenant != REF_NONE &&
             is_behind(REF_S, tenants[b->tenant].birth, ops[a->op].end));
        if (!n && before(REF_N, b->op, a->op))
            return ORACLE_LOST_ORDER; /* they ran the wrong way round */
        break;
    case 1:
        n = n || handed_on_in_n(a, b);
        s = handed_on_in_s(a, b);
        break;
    default:
        n = n || handed_on_in_n(b, a);
        break;
    }
    return n && s ? ORACLE_FINDINGS
                  : (n ? ORACLE_LOST_ORDER : (s ? ORACLE_MASKED : ORACLE_RACE));
}

static bool had_it(int tenant, int op)
{
    return tenant != REF_NONE && tenants[tenant].born < ops[op].heard &&
           !(tenants[tenant].ended && tenants[tenant].over < ops[op].heard);
}

/* Whose the unit is for that access; false: nobody's. */
static bool whose(int op, int given, int at, int *out)
{
    const struct unit *unit = &units[at];
    int newest = unit->newest;

    bool within =
        given != REF_NONE && at >= tenants[given].from && at < tenants[given].to;

    *out = within ? given : REF_NONE;
    if (newest == REF_NONE || newest == given)
        return true;
    if (within) {
        if (ops[op].own || !inside(newest, given) || tenants[newest].born > ops[op].heard)
            return true;
        *out = newest;
        return had_it(newest, op);
    }
    if (had_it(newest, op))
        *out = newest;
    else if (had_it(unit->outer, op) && at >= tenants[unit->outer].from &&
             at < tenants[unit->outer].to)
        *out = unit->outer;
    return *out != REF_NONE ||
           (tenants[newest].born > ops[op].heard && !tenants[newest].follows);
}

static bool in_its_life(int op, int number)
{
    if (number == REF_NONE)
        return true;
    const struct tenant *tenant = &tenants[number];
    if (ops[op].own)
        return !tenant->ended || tenant->over > ops[op].heard;
    if (tenant->ended && ops[op].end != tenant->end_point &&
        is_behind(REF_N, ops[op].access, tenant->end_point))
        return false;
    if (tenant->in_stream && !since(REF_N, op, tenant->birth_point)) {
        bool s = since(REF_S, op, tenant->birth_point);
        ref_step.beside_beginning = true;
        find(s ? ORACLE_MASKED : ORACLE_RACE, REF_NONE, op, number);
    }
    if (tenant->ended)
        race_with_end(number, op);
    return true;
}

static bool takes_in(const struct mark *new, const struct mark *old)
{
    if (new->tenant == REF_NONE && old->tenant != REF_NONE)
        return false;
    if (old->tenant != REF_NONE && old->tenant != new->tenant && !ops[old->op].own &&
        (inside(new->tenant, old->tenant) || inside(old->tenant, new->tenant)))
        return false;
    if (new->writes)
        return !new->atomic || old->atomic;
    return !old->writes && (!new->atomic || old->atomic);
}

/* Not followed through others: one that runs late in memory that was an inner tenant's
 * before or since, where waits at run time may have put it behind later users; a layer's
 * own use of nobody's memory. */
static bool not_followed(const struct mark *old, const struct mark *new)
{
    return (who_hands_on(old, new) == 2 &&
            (inside(old->tenant, new->tenant) || inside(new->tenant, old->tenant))) ||
           (old->tenant == REF_NONE && ops[old->op].own);
}

static void touch(struct unit *unit, const struct mark *new)
{
    for (int i = 0; i < unit->count; i++) {
        struct mark *old = &unit->marks[i];
        bool conflict = (old->writes || new->writes) && !(old->atomic && new->atomic);
        bool stronger = !old->taken_in && takes_in(new, old);

        if (!conflict && !stronger)
            continue;
        enum oracle_finding kind = judge(old, new);
        if (old->op == new->op) {
            old->taken_in |= stronger && old->tenant == new->tenant;
            continue;
        }
        if (conflict && kind != ORACLE_FINDINGS) {
            if (!old->taken_in)
                find(kind, old->op, new->op, REF_NONE);
            else if (!not_followed(old, new))
                ref_step.hidden = new->op;
        }
        old->taken_in |= stronger && kind == ORACLE_FINDINGS &&
                         (!ops[new->op].own || ops[old->op].own);
    }
    cr_assert_lt(unit->count, (int)GS_ARRAY_LEN(unit->marks));
    unit->marks[unit->count++] = *new;
}

static void access_memory(int op, const struct ref_access *access)
{
    for (int i = access->from; i < access->to; i++) {
        struct mark mark = {op, REF_NONE, access->writes, access->atomic, false};
        if (whose(op, access->tenant, i, &mark.tenant) && in_its_life(op, mark.tenant))
            touch(&units[i], &mark);
        else
            find(ORACLE_NO_TENANT, REF_NONE, op, REF_NONE);
    }
}

void ref_run(int op, const struct ref_access *accesses, int count)
{
    step_begin();
    for (int i = 0; i < count; i++)
        access_memory(op, &accesses[i]);
}

int ref_host_access(int host, const struct ref_access *access)
{
    int number = op_count++, event = host_event(host);

    cr_assert_lt(number, REF_OPS);
    ops[number] = (struct op){event, event, event, event, false, true, true, ++now};
    step_begin();
    access_memory(number, access);
    return number;
}
