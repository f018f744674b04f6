/*
 * free_stacks.c - the budget of a thread for the call stacks of its frees.
 * Owns:  gs_free_budget.   Lock: none, thread-local.   Design: docs/tracker.md
 */
#include "tracker/free_stacks.h"

#include "tracker/tracker_internal.h"

__thread struct gs_free_budget gs_free_budget;

/* Takes one stack from the budget; false: none is left until the clock's next step. */
static bool take(uint64_t clock_ns)
{
    struct gs_free_budget *budget = &gs_free_budget;

    if (clock_ns > budget->filled_ns) {
        uint64_t earned = (clock_ns - budget->filled_ns) / GS_FREE_STACK_NS;

        budget->left = earned < GS_FREE_STACKS_MOST - budget->left
                           ? budget->left + (uint32_t)earned
                           : GS_FREE_STACKS_MOST;
        budget->filled_ns = clock_ns;
    }
    if (budget->left == 0) {
        budget->next_ns = clock_ns + 1;
        return false;
    }
    budget->left--;
    return true;
}

uint32_t gs_free_stack_due(const struct gs_tracker *tracker, uint64_t clock_ns)
{
    enum gs_free_stacks which = tracker->config.free_stacks;

    if (which == GS_FREE_STACKS_NONE || !tracker->config.stacks) {
        gs_free_budget.next_ns = clock_ns + 1;
        return 0;
    }
    return which == GS_FREE_STACKS_ALL || take(clock_ns)
               ? gs_stacks_capture(tracker->config.stacks)
               : 0;
}

void gs_tracker_free_now(const struct gs_tracker *tracker, struct gs_free_site *site)
{
    if (!tracker) {
        return;
    }
    uint64_t clock_ns = gs_tracker_clock(tracker);
    site->time_ns = clock_ns - tracker->start_ns;
    site->stack = gs_free_stack(tracker, clock_ns);
}
