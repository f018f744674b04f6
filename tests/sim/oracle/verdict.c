/*
 * verdict.c - the rules: when two accesses are in order, and whose bytes an access
 * touches.
 *
 * Two accesses to the same bytes, a having run before b:
 *
 *   of one allocation     in N: either is behind the other; in S: b is behind a, and not
 * in N the other way round a's allocation older  in N: a is before the end of its
 * allocation and b behind the beginning of its own; in S: a is over for b, or was when
 * b's allocation began (what was retired by then, what the host that freed had waited
 * for) b's allocation older  b runs late, on bytes that have been handed on. In N as
 * above with the two exchanged; in S they are not in order one of no allocation  as of
 * one allocation; if that is a, what was over when b's allocation began is over for b
 *
 * For an allocation inside another the outer one's accesses before it are before its
 * beginning, those behind it behind its end. What a layer does on its own account is by
 * right in order with everything: the program did not ask for it. If it is not so in S,
 * that is lost order.
 *
 * An access and the life of its allocation:
 *
 *   behind the end in N              NO_ALLOCATION: a use after free, whatever ran when.
 * What the free natively waits for is before the end, also if something that comes after
 * that free lets it run no allocation, and there was one     NO_ALLOCATION the outer
 * allocation's, of bytes that an inner one had till it ended    NO_ALLOCATION, if it is
 * the program's; a layer may use what it holds neither before the end nor behind it RACE
 * with the free, MASKED if in order in S not behind a beginning in a stream     RACE with
 * the allocation, MASKED likewise. A beginning by the host is different: who has the
 *                                    address has it from there, by ways not to be seen
 *
 * What is NO_ALLOCATION is neither judged against other accesses nor remembered: one
 * mistake, one finding. Bytes that never had an allocation may be touched by anyone.
 *
 * Where memory has several addresses, allocations of different addresses share bytes.
 * Those that live side by side do so as one allocation's accesses do; one that begins
 * after another has ended is handed the bytes.
 *
 * Manners: a read conflicts with writes, an atomic access with those that are not, but a
 * wait for the value of a word not with a write of that word at once, which is what it
 * waits for. The order between the two is found at run time (edges.c).
 *
 * An access may reach into more than one allocation (mappings side by side). Bytes
 * outside the allocation that was found for it at submission belong to whoever had them
 * then.
 *
 * Owns:  nothing.   Lock: the oracle's.
 */
#include "oracle_state.h"

#define BIT(manner) (1u << ORACLE_##manner)

const unsigned char oracle_conflicts[ORACLE_MANNERS] = {
    [ORACLE_READ] = BIT(WRITE) | BIT(SINGLE_WRITE) | BIT(ATOMIC_WRITE),
    [ORACLE_ATOMIC_READ] = BIT(WRITE) | BIT(SINGLE_WRITE),
    [ORACLE_AWAITING_READ] = BIT(WRITE),
    [ORACLE_WRITE] = BIT(READ) | BIT(ATOMIC_READ) | BIT(AWAITING_READ) | BIT(WRITE) |
                     BIT(SINGLE_WRITE) | BIT(ATOMIC_WRITE),
    [ORACLE_SINGLE_WRITE] =
        BIT(READ) | BIT(ATOMIC_READ) | BIT(WRITE) | BIT(SINGLE_WRITE) | BIT(ATOMIC_WRITE),
    [ORACLE_ATOMIC_WRITE] = BIT(READ) | BIT(WRITE) | BIT(SINGLE_WRITE),
};

static bool nowhere(struct oracle_point point)
{
    return point.slot == ORACLE_NO_SLOT;
}

static bool is_at(const struct oracle_op *op, struct oracle_point point)
{
    return op->here.slot == point.slot && op->here.index == point.index;
}

bool oracle_allocation_inside(const struct oracle_allocation *inner,
                              const struct oracle_allocation *outer)
{
    return inner->inner && outer->born < inner->born &&
           (!outer->ended || outer->over > inner->born);
}

/* ---- pairs ------------------------------------------------------------------------ */

enum handing { TOGETHER, FIRST_TO_SECOND, SECOND_TO_FIRST };

/* An access of an outer allocation, and an inner one: which has the bytes first? */
static enum handing around(const struct oracle_op *outer,
                           const struct oracle_allocation *inner)
{
    if (outer->heard < inner->born)
        return FIRST_TO_SECOND;
    return inner->ended && outer->heard > inner->over ? SECOND_TO_FIRST : TOGETHER;
}

/* Was there a time at which both lived? */
static bool side_by_side(const struct oracle_allocation *x,
                         const struct oracle_allocation *y)
{
    const struct oracle_allocation *older = x->born < y->born ? x : y;
    const struct oracle_allocation *younger = older == x ? y : x;

    return !older->ended || older->over > younger->born;
}

/* Whose allocation hands the bytes on to whose? */
static enum handing handing(const struct oracle_mark *a, const struct oracle_mark *b)
{
    const struct oracle_allocation *x = a->allocation, *y = b->allocation;

    if (x == y || !x || !y)
        return TOGETHER;
    if (oracle_allocations_apart(x, y) && side_by_side(x, y))
        return TOGETHER;
    if (oracle_allocation_inside(y, x))
        return around(a->op, y);
    if (oracle_allocation_inside(x, y)) {
        enum handing back = around(b->op, x);
        if (back == TOGETHER)
            return TOGETHER;
        return back == FIRST_TO_SECOND ? SECOND_TO_FIRST : FIRST_TO_SECOND;
    }
    if (x->born < y->born)
        return x->ended ? FIRST_TO_SECOND : TOGETHER;
    return y->ended ? SECOND_TO_FIRST : TOGETHER;
}

/* In N: was the older access over before its bytes were handed on, and did the younger
 * one come behind that? */
static bool handed_on_in_n(const struct oracle_mark *older,
                           const struct oracle_mark *younger)
{
    const struct oracle_allocation *from = older->allocation, *to = younger->allocation;
    bool goes_in = oracle_allocation_inside(to, from),
         comes_out = oracle_allocation_inside(from, to);
    const struct oracle_pair *till = goes_in ? &to->birth : &from->end;
    struct oracle_point since = comes_out ? from->end_here : to->birth_here;
    uint64_t heard = comes_out ? from->over : to->born;

    if (!oracle_pair_knows(till, true, older->op->here))
        return false;
    return nowhere(since) || heard <= oracle_lost ||
           oracle_op_knows(younger->op, true, since);
}

/* In S: was it over, as far as anybody could know who handed the bytes on? */
static bool handed_on_in_s(const struct oracle_mark *older,
                           const struct oracle_mark *younger)
{
    const struct oracle_allocation *from = older->allocation, *to = younger->allocation;
    const struct oracle_pair free = {NULL, from->free};

    if (oracle_op_knows(younger->op, false, older->op->here))
        return true;
    if (oracle_allocation_inside(from, to)) /* back to the outer one */
        return from->retired > 0 && from->retired < younger->op->heard &&
               oracle_pair_knows(&free, false, older->op->here);
    if (oracle_pair_knows(&to->birth, false, older->op->here))
        return true;
    /* At another address the younger one did not follow the older. */
    return oracle_allocations_apart(from, to) && from->retired < to->born &&
           oracle_pair_knows(&free, false, older->op->here);
}

enum oracle_finding oracle_judge_pair(const struct oracle_mark *a,
                                      const struct oracle_mark *b)
{
    bool n = a->op->own || b->op->own, s = false;

    switch (handing(a, b)) {
    case TOGETHER:
        n = n || oracle_op_knows(b->op, true, a->op->here);
        s = oracle_op_knows(b->op, false, a->op->here) ||
            (!a->allocation && b->allocation &&
             oracle_pair_knows(&b->allocation->birth, false, a->op->here));
        if (!n && oracle_op_knows(a->op, true, b->op->here))
            return ORACLE_LOST_ORDER; /* they ran the wrong way round */
        break;
    case FIRST_TO_SECOND:
        n = n || handed_on_in_n(a, b);
        s = handed_on_in_s(a, b);
        break;
    case SECOND_TO_FIRST:
        n = n || handed_on_in_n(b, a);
        break;
    }
    if (n)
        return s ? ORACLE_FINDINGS : ORACLE_LOST_ORDER;
    return s ? ORACLE_MASKED : ORACLE_RACE;
}

/* ---- whose bytes ------------------------------------------------------------------ */

/* Had it the bytes when the operation was submitted? */
static bool had_it(const struct oracle_allocation *allocation, const struct oracle_op *op)
{
    return allocation && allocation->born < op->heard &&
           !(allocation->ended && allocation->over < op->heard);
}

static bool lies_in(uintptr_t address, const struct oracle_allocation *allocation)
{
    return address >= allocation->range.address &&
           address < oracle_range_end(&allocation->range);
}

/*
 * Whose bytes the operation touches from an address on.
 *
 * In:   given  the allocation found for its access at submission, or NULL
 * Out:  *out   the allocation; NULL: never anybody's
 *
 * False: nobody's, though they were somebody's.
 */
static bool whose(const struct oracle_op *op, struct oracle_allocation *given,
                  uintptr_t address, const struct oracle_lodging *lodging,
                  struct oracle_allocation **out)
{
    struct oracle_allocation *newest = lodging->newest;

    bool inside = given && lies_in(address, given);

    *out = inside ? given : NULL;
    if (!newest || newest == given)
        return true;
    if (inside) {
        if (op->own || !oracle_allocation_inside(newest, given) ||
            newest->born > op->heard)
            return true; /* its own, or a later one's by now */
        *out = newest;
        return had_it(newest, op);
    }
    if (had_it(newest, op))
        *out = newest;
    else if (had_it(lodging->outer, op) && lies_in(address, lodging->outer))
        *out = lodging->outer;
    return *out || (newest->born > op->heard && !newest->follows);
}

static void no_allocation(const struct oracle_mark *mark, uintptr_t start, uintptr_t end,
                          const struct oracle_allocation *last, const char *note)
{
    if (oracle_told_before(last ? ~last->born : 0, mark->op->heard))
        return;
    oracle_found(&(struct oracle_report){
        .kind = ORACLE_NO_ALLOCATION,
        .start = start,
        .end = end,
        .second = mark,
        .allocation = last,
        .note = note,
    });
}

static void race_with_start(const struct oracle_mark *mark, uintptr_t start,
                            uintptr_t end)
{
    const struct oracle_allocation *allocation = mark->allocation;
    bool s = oracle_op_knows(mark->op, false, allocation->birth_here);

    if (oracle_told_before(allocation->born, mark->op->heard))
        return;
    oracle_found(&(struct oracle_report){
        .kind = s ? ORACLE_MASKED : ORACLE_RACE,
        .start = start,
        .end = end,
        .second = mark,
        .allocation = allocation,
        .begins = true,
    });
}

/* first, second: as oracle_told_before. */
static void race_with_end(const struct oracle_mark *mark, uintptr_t start, uintptr_t end,
                          const struct oracle_allocation *allocation, uint64_t first,
                          uint64_t second)
{
    bool s = oracle_pair_knows(&allocation->end, false, mark->op->here);

    if (oracle_told_before(first, second))
        return;
    oracle_found(&(struct oracle_report){
        .kind = s ? ORACLE_MASKED : ORACLE_RACE,
        .start = start,
        .end = end,
        .first = mark,
        .allocation = allocation,
        .ends = true,
    });
}

/* May it touch its allocation's bytes, as to when that begins and ends? */
static bool in_its_life(const struct oracle_mark *mark, uintptr_t start, uintptr_t end)
{
    const struct oracle_allocation *allocation = mark->allocation;
    const struct oracle_op *op = mark->op;

    if (!allocation || allocation->born <= oracle_lost)
        return true;
    if (op->own) {
        if (!allocation->ended || allocation->over > op->heard)
            return true;
        no_allocation(mark, start, end, allocation, "it is a layer's own, after the end");
        return false;
    }
    bool over = allocation->ended && !nowhere(allocation->end_here);
    bool before_end = over && oracle_pair_knows(&allocation->end, true, op->here);
    if (over && !before_end && !is_at(op, allocation->end_here) &&
        oracle_op_knows(op, true, allocation->end_here)) {
        no_allocation(mark, start, end, allocation, "it is behind the end");
        return false;
    }
    if (allocation->birth_in_stream && !oracle_op_knows(op, true, allocation->birth_here))
        race_with_start(mark, start, end);
    if (over && !before_end)
        race_with_end(mark, start, end, allocation, allocation->over, op->heard);
    return true;
}

/* Where the bytes from an address on change sides of an allocation's bounds, or the end.
 */
static uintptr_t one_side(uintptr_t at, uintptr_t end,
                          const struct oracle_allocation *allocation)
{
    if (!allocation)
        return end;
    if (at < allocation->range.address)
        return end < allocation->range.address ? end : allocation->range.address;
    if (lies_in(at, allocation) && end > oracle_range_end(&allocation->range))
        return oracle_range_end(&allocation->range);
    return end;
}

/* A piece of an access that lies in one lodging and on one side of the bounds of those
 * concerned. False: nobody's. */
static bool piece_of(const struct oracle_op *op, const struct oracle_access *access,
                     uintptr_t at, struct oracle_lodging *lodging,
                     struct oracle_allocation **out)
{
    oracle_lodging_at(at, lodging);
    lodging->end = one_side(at, lodging->end, access->allocation);
    lodging->end = one_side(at, lodging->end, lodging->outer);
    return whose(op, access->allocation, at, lodging, out);
}

static unsigned char manner_of(const struct oracle_access *access)
{
    if (access->writes && access->atomic)
        return ORACLE_ATOMIC_WRITE;
    if (access->writes)
        return access->single ? ORACLE_SINGLE_WRITE : ORACLE_WRITE;
    if (access->awaits)
        return ORACLE_AWAITING_READ;
    return access->atomic ? ORACLE_ATOMIC_READ : ORACLE_READ;
}

/* Judge a piece where its bytes are. */
static void touch(const struct oracle_mark *mark, const struct oracle_access *access,
                  uintptr_t start, uintptr_t end)
{
    while (start < end) {
        uintptr_t piece_end = end;
        uintptr_t shift = access->place ? access->place - access->range.address
                                        : oracle_place_at(start, &piece_end);
        oracle_shadow_touch(mark, start, piece_end, shift);
        start = piece_end;
    }
}

void oracle_judge_access(struct oracle_op *op, const struct oracle_access *access)
{
    uintptr_t at = access->range.address, end = oracle_range_end(&access->range);
    struct oracle_lodging lodging;

    while (at < end) {
        struct oracle_mark mark = {op, NULL, access->writes, manner_of(access)};
        struct oracle_allocation *same;
        uintptr_t start = at;

        bool right = piece_of(op, access, at, &lodging, &mark.allocation);
        const struct oracle_allocation *last = lodging.newest;
        do {
            uintptr_t from = at;
            at = lodging.end < end ? lodging.end : end;
            if (right) {
                oracle_judge_for_host(&mark, from, at, lodging.newest);
                oracle_judge_going(&mark, from, at);
            }
        } while (at < end && piece_of(op, access, at, &lodging, &same) == right &&
                 same == mark.allocation);
        if (!right)
            no_allocation(&mark, start, at, last,
                          "it was submitted when nobody had them");
        else if (in_its_life(&mark, start, at))
            touch(&mark, access, start, at);
    }
}

static void judge_before_end(const struct oracle_mark *mark, uintptr_t start,
                             uintptr_t end, void *argument)
{
    const struct oracle_allocation *allocation = argument;

    if (mark->allocation == allocation && !mark->op->own &&
        !oracle_pair_knows(&allocation->end, true, mark->op->here))
        race_with_end(mark, start, end, allocation, mark->op->heard, allocation->over);
}

void oracle_judge_end(struct oracle_allocation *allocation)
{
    if (nowhere(allocation->end_here) || allocation->over <= oracle_lost)
        return;
    oracle_shadow_visit(allocation->range.address, oracle_range_end(&allocation->range),
                        judge_before_end, allocation);
}

/* ---- accesses --------------------------------------------------------------------- */

void oracle_op_runs(struct oracle_op *op, const struct oracle_access *accesses,
                    size_t count)
{
    if (!op)
        return;
    oracle_lock();
    for (size_t i = 0; i < count && oracle_op_counts(op); i++)
        oracle_judge_access(op, &accesses[i]);
    oracle_unlock();
}

void oracle_host_access(struct oracle_line *host, const struct oracle_access *access)
{
    oracle_lock();
    struct oracle_op *op = oracle_op_of_host(host, "the host");
    if (op)
        oracle_judge_access(op, access);
    oracle_op_drop(op);
    oracle_unlock();
}
