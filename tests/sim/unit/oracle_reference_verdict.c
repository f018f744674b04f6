/*
 * oracle_reference_verdict.c - the plain rules of which accesses are in order: what pairs
 * of them, and what lives they are in. See oracle_reference.h; the rules in words are in
 * verdict.c.
 */
#include <criterion/criterion.h>

#include "oracle_graph.h"
#include "oracle_reference_state.h"

static bool before(enum ref_graph graph, int a, int b)
{
    return is_behind(graph, ref_ops[b].access, ref_ops[a].end);
}

bool ref_is_behind(int b, int a)
{
    return before(REF_N, a, b) && before(REF_S, a, b);
}

/* Do the accesses come at that point or behind it? */
static bool since(enum ref_graph graph, int op, int point)
{
    return ref_ops[op].end == point || is_behind(graph, ref_ops[op].access, point);
}

static bool inside(int inner, int outer)
{
    const struct ref_allocation *x = &ref_allocations[inner],
                                *y = &ref_allocations[outer];

    return x->inner && y->born < x->born && (!y->ended || y->over > x->born);
}

/* 0: they share the memory; 1: a's allocation hands it on to b's; 2: the other way round.
 */
static int who_hands_on(const struct ref_mark *a, const struct ref_mark *b)
{
    if (a->allocation == b->allocation || a->allocation == REF_NONE ||
        b->allocation == REF_NONE)
        return 0;
    const struct ref_allocation *x = &ref_allocations[a->allocation],
                                *y = &ref_allocations[b->allocation];
    if (inside(b->allocation, a->allocation)) {
        if (ref_ops[a->op].heard < y->born)
            return 1;
        return y->ended && ref_ops[a->op].heard > y->over ? 2 : 0;
    }
    if (inside(a->allocation, b->allocation)) {
        if (ref_ops[b->op].heard < x->born)
            return 2;
        return x->ended && ref_ops[b->op].heard > x->over ? 1 : 0;
    }
    if (x->born < y->born)
        return x->ended ? 1 : 0;
    return y->ended ? 2 : 0;
}

static bool handed_on_in_n(const struct ref_mark *old, const struct ref_mark *new)
{
    const struct ref_allocation *from = &ref_allocations[old->allocation],
                                *to = &ref_allocations[new->allocation];
    int till = inside(new->allocation, old->allocation) ? to->birth : from->end;
    int from_here =
        inside(old->allocation, new->allocation) ? from->end_point : to->birth_point;

    return is_behind(REF_N, till, ref_ops[old->op].end) &&
           since(REF_N, new->op, from_here);
}

static bool handed_on_in_s(const struct ref_mark *old, const struct ref_mark *new)
{
    const struct ref_allocation *from = &ref_allocations[old->allocation],
                                *to = &ref_allocations[new->allocation];

    if (before(REF_S, old->op, new->op))
        return true;
    if (inside(old->allocation, new->allocation))
        return from->retired > 0 && from->retired < ref_ops[new->op].heard &&
               is_behind(REF_S, from->free, ref_ops[old->op].end);
    return is_behind(REF_S, to->birth, ref_ops[old->op].end);
}

/* a ran before b. ORACLE_FINDINGS: in order. */
static enum oracle_finding judge(const struct ref_mark *a, const struct ref_mark *b)
{
    bool n = ref_ops[a->op].own || ref_ops[b->op].own, s = false;

    switch (who_hands_on(a, b)) {
    case 0:
        n = n || before(REF_N, a->op, b->op);
        s = before(REF_S, a->op, b->op) ||
            (a->allocation == REF_NONE && b->allocation != REF_NONE &&
             is_behind(REF_S, ref_allocations[b->allocation].birth, ref_ops[a->op].end));
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

static bool had_it(int allocation, int op)
{
    return allocation != REF_NONE &&
           ref_allocations[allocation].born < ref_ops[op].heard &&
           !(ref_allocations[allocation].ended &&
             ref_allocations[allocation].over < ref_ops[op].heard);
}

/* Whose the unit is for that access; false: nobody's. */
static bool whose(int op, int given, int at, int *out)
{
    const struct ref_unit *unit = &ref_units[at];
    int newest = unit->newest;

    bool within = given != REF_NONE && at >= ref_allocations[given].from &&
                  at < ref_allocations[given].to;

    *out = within ? given : REF_NONE;
    if (newest == REF_NONE || newest == given)
        return true;
    if (within) {
        if (ref_ops[op].own || !inside(newest, given) ||
            ref_allocations[newest].born > ref_ops[op].heard)
            return true;
        *out = newest;
        return had_it(newest, op);
    }
    if (had_it(newest, op))
        *out = newest;
    else if (had_it(unit->outer, op) && at >= ref_allocations[unit->outer].from &&
             at < ref_allocations[unit->outer].to)
        *out = unit->outer;
    return *out != REF_NONE || (ref_allocations[newest].born > ref_ops[op].heard &&
                                !ref_allocations[newest].follows);
}

static bool in_its_life(int op, int number)
{
    if (number == REF_NONE)
        return true;
    const struct ref_allocation *allocation = &ref_allocations[number];
    if (ref_ops[op].own)
        return !allocation->ended || allocation->over > ref_ops[op].heard;
    if (allocation->ended && ref_ops[op].end != allocation->end_point &&
        !is_behind(REF_N, allocation->end, ref_ops[op].end) &&
        is_behind(REF_N, ref_ops[op].access, allocation->end_point))
        return false;
    if (allocation->in_stream && !since(REF_N, op, allocation->birth_point)) {
        bool s = since(REF_S, op, allocation->birth_point);
        ref_step.beside_beginning = true;
        ref_find(s ? ORACLE_MASKED : ORACLE_RACE, REF_NONE, op, number);
    }
    if (allocation->ended)
        ref_race_with_end(number, op);
    return true;
}

/* A manner is three facts, a bit for each. */
enum { WRITES = 1, ATOMIC = 2, ALONE = 4, MANNERS = 8 };

static int manner_of(const struct ref_access *access)
{
    bool alone = access->writes ? access->single && !access->atomic : access->awaits;

    return (access->writes ? WRITES : 0) | (access->atomic ? ATOMIC : 0) |
           (alone ? ALONE : 0);
}

static bool conflict(int a, int b)
{
    if (!((a | b) & WRITES))
        return false;
    if ((a ^ b) & WRITES && a & ALONE && b & ALONE)
        return false; /* a wait, and what it waits for */
    /* A wait is atomic, whether that is said or not. */
    bool a_atomic = a & ATOMIC || (a & ALONE && !(a & WRITES));
    bool b_atomic = b & ATOMIC || (b & ALONE && !(b & WRITES));
    return !(a_atomic && b_atomic);
}

static bool takes_in(const struct ref_mark *new, const struct ref_mark *old)
{
    if (new->allocation == REF_NONE && old->allocation != REF_NONE)
        return false;
    if (old->allocation != REF_NONE && old->allocation != new->allocation &&
        !ref_ops[old->op].own &&
        (inside(new->allocation, old->allocation) ||
         inside(old->allocation, new->allocation)))
        return false;
    for (int other = 0; other < MANNERS; other++) {
        if (conflict(other, old->manner) && !conflict(other, new->manner))
            return false;
    }
    return true;
}

/* Did it, or one that it is behind, wait at run time? */
static bool is_behind_a_wait(int op)
{
    for (int i = 0; i < ref_op_count; i++) {
        if (ref_ops[i].saw &&
            (i == op || is_behind(REF_S, ref_ops[op].access, ref_ops[i].access)))
            return true;
    }
    return false;
}

/* Was a mark let go, from that one on, for a later one that is behind it by lives alone:
 * by what was retired, not by any order that is passed on? */
static bool is_by_lives(const struct ref_unit *unit, int from)
{
    for (int i = from; i < unit->count; i++) {
        if (unit->marks[i].by_lives)
            return true;
    }
    return false;
}

/* Not followed through others: a wait at run time that put the new one behind a later
 * user of the bytes, which is behind the old one by lives alone, or where the bytes were
 * handed on in between; a layer's own use of nobody's memory. */
static bool not_followed(const struct ref_unit *unit, int old, const struct ref_mark *new)
{
    const struct ref_mark *mark = &unit->marks[old];

    if (mark->allocation == REF_NONE && ref_ops[mark->op].own)
        return true;
    return is_behind_a_wait(new->op) &&
           (is_by_lives(unit, old) || who_hands_on(mark, new) != 0);
}

static void touch(struct ref_unit *unit, const struct ref_mark *new)
{
    for (int i = 0; i < unit->count; i++) {
        struct ref_mark *old = &unit->marks[i];
        bool conflicts = conflict(old->manner, new->manner);
        bool stronger = !old->taken_in && takes_in(new, old);

        if (!conflicts && !stronger)
            continue;
        enum oracle_finding kind = judge(old, new);
        if (old->op == new->op) {
            old->taken_in |= stronger && old->allocation == new->allocation;
            continue;
        }
        if (conflicts && kind != ORACLE_FINDINGS) {
            if (!old->taken_in)
                ref_find(kind, old->op, new->op, REF_NONE);
            else if (!not_followed(unit, i, new))
                ref_step.hidden = new->op;
        }
        if (stronger && kind == ORACLE_FINDINGS &&
            (!ref_ops[new->op].own || ref_ops[old->op].own)) {
            old->taken_in = true;
            old->by_lives = !ref_is_behind(new->op, old->op);
        }
    }
    cr_assert_lt(unit->count, (int)GS_ARRAY_LEN(unit->marks));
    unit->marks[unit->count++] = *new;
}

static void access_memory(int op, const struct ref_access *access)
{
    for (int i = access->from; i < access->to; i++) {
        struct ref_mark mark = {op,    REF_NONE, manner_of(access), access->writes,
                                false, false};
        if (whose(op, access->allocation, i, &mark.allocation) &&
            in_its_life(op, mark.allocation))
            touch(&ref_units[i], &mark);
        else
            ref_find(ORACLE_NO_ALLOCATION, REF_NONE, op, REF_NONE);
    }
}

void ref_run(int op, const struct ref_access *accesses, int count)
{
    ref_step_begin();
    for (int i = 0; i < count; i++)
        access_memory(op, &accesses[i]);
}

int ref_host_access(int host, const struct ref_access *access)
{
    int number = ref_host_op(ref_host_event(host));

    ref_step_begin();
    access_memory(number, access);
    return number;
}
