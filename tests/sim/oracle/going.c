/*
 * going.c - bytes that go where no order of streams protects them: to the host, which
 * needs no call to touch them, or back to the driver, from under those who had them.
 *
 * An access that is before its free in N must be over in S by then, whether it has run
 * already or runs later. If it is not, that is LOST_ORDER: a layer handed the bytes on,
 * or gave them back, too early. What a layer did itself must be over in any case.
 *
 * Owns:  nothing.   Lock: the oracle's.
 */
#include "oracle_state.h"

/*
 * An access, whose bytes go on: it is over by then, or order was lost.
 *
 * In:  to     who has them next, or had them around its allocation and takes them away
 *      since  what is over by then
 */
static void must_be_over(const struct oracle_mark *mark, uintptr_t start, uintptr_t end,
                         const struct oracle_allocation *to,
                         const struct oracle_pair *since, const char *note)
{
    const struct oracle_allocation *from = mark->allocation;
    const struct oracle_pair retired = {NULL, from->retired ? from->free : NULL};
    bool n = mark->op->own ||
             (from->ended && oracle_pair_knows(&from->end, true, mark->op->here));

    if (!n || oracle_pair_knows(since, false, mark->op->here) ||
        oracle_pair_knows(&retired, false, mark->op->here) ||
        (from->ended ? from->over : to->born) <= oracle_lost ||
        oracle_told_before(~(to->gone ? to->over : to->born), mark->op->heard))
        return;
    oracle_found(&(struct oracle_report){
        .kind = ORACLE_LOST_ORDER,
        .start = start,
        .end = end,
        .first = mark,
        .allocation = to,
        .before = from != to ? from : NULL,
        .note = note,
    });
}

void oracle_judge_for_host(const struct oracle_mark *mark, uintptr_t start, uintptr_t end,
                           const struct oracle_allocation *now)
{
    const struct oracle_allocation *from = mark->allocation;

    if (from && now && now->for_host && from->ended && from->over < now->born &&
        !oracle_allocations_apart(from, now))
        must_be_over(mark, start, end, now, &now->birth,
                     "it is not over where the host can touch the bytes from then on");
}

void oracle_judge_going(const struct oracle_mark *mark, uintptr_t start, uintptr_t end)
{
    const struct oracle_allocation *outer = mark->allocation;

    for (; outer; outer = outer->outer) {
        if (outer->gone && mark->op->heard < outer->over &&
            (outer != mark->allocation || mark->op->own))
            must_be_over(mark, start, end, outer, &outer->end,
                         "it is not over where the memory goes back to the driver");
    }
}

static void for_host(const struct oracle_mark *mark, uintptr_t start, uintptr_t end,
                     void *argument)
{
    oracle_judge_for_host(mark, start, end, argument);
}

void oracle_judge_handed_to_host(struct oracle_allocation *allocation)
{
    oracle_shadow_visit(allocation->range.address, oracle_range_end(&allocation->range),
                        for_host, allocation);
}

static void going(const struct oracle_mark *mark, uintptr_t start, uintptr_t end,
                  void *argument)
{
    (void)argument;
    oracle_judge_going(mark, start, end);
}

void oracle_judge_gone(struct oracle_allocation *allocation)
{
    oracle_shadow_visit(allocation->range.address, oracle_range_end(&allocation->range),
                        going, NULL);
}
