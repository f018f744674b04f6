/*
 * tracker_fixture.h - a tracker with call stacks for each test of a suite.
 *
 *   TestSuite(name, .init = set_up_tracker, .fini = take_down_tracker);
 */
#ifndef GS_TEST_TRACKER_FIXTURE_H
#define GS_TEST_TRACKER_FIXTURE_H

#include "tracker_helpers.h"

static struct gs_stacks *stacks;
static struct gs_tracker *tracker;

static inline void set_up_tracker(void)
{
    stacks = test_stacks();
    tracker = test_tracker(stacks);
}

static inline void take_down_tracker(void)
{
    gs_tracker_destroy(tracker);
    gs_stacks_destroy(stacks);
}

#endif
