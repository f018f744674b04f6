/*
 * clocks.c - which work is ordered: a vector clock for each line of work (a stream) and
 * one for the host. A list does nothing that is not ordered here, so what it reads is the
 * same however the device happens to run.
 *
 * Cautious: where the documents leave an order open there is none here. All host threads
 * count as one, as only one of them makes a call at a time.
 */
#include <string.h>

#include "world.h"

static void join(uint32_t *into, const uint32_t *from)
{
    for (unsigned i = 0; i < LINES; i++)
        if (into[i] < from[i])
            into[i] = from[i];
}

static void join_line(struct diff_world *world, uint32_t *into, unsigned line)
{
    join(into, world->seen[line]);
    if (into[line] < world->count[line])
        into[line] = world->count[line];
}

static unsigned context_of(const struct diff_world *world, unsigned line)
{
    if (line < LINE_LEGACY)
        return world->slots[DIFF_STREAM][line].ctx;
    if (line < LINE_THREAD)
        return line - LINE_LEGACY;
    return (line - LINE_THREAD) / DIFF_THREADS;
}

/* The legacy stream waits for it, and it for the legacy stream. */
static bool blocking(const struct diff_world *world, unsigned line)
{
    if (line < LINE_LEGACY)
        return world->slots[DIFF_STREAM][line].state == DIFF_LIVE &&
               world->slots[DIFF_STREAM][line].blocking;
    return line >= LINE_THREAD;
}

void diff_enters(struct diff_world *world, int line)
{
    unsigned ctx = context_of(world, (unsigned)line);

    if (blocking(world, (unsigned)line))
        join_line(world, world->seen[line], LINE_LEGACY + ctx);
    if (line < LINE_LEGACY || line >= LINE_THREAD)
        return;
    for (unsigned other = 0; other < LINES; other++)
        if (blocking(world, other) && context_of(world, other) == ctx)
            join_line(world, world->seen[line], other);
}

bool diff_ordered(struct diff_world *world, const struct diff_memory *memory, int line)
{
    for (unsigned i = 0; i < LINES; i++) {
        uint32_t wanted = memory->pending[i];

        if (wanted <= world->host[i])
            continue;
        if (line < 0)
            return false;
        if (wanted > world->seen[line][i] && i != (unsigned)line)
            return false;
    }
    return true;
}

bool diff_ordered_but(struct diff_world *world, const struct diff_memory *memory,
                      unsigned ctx)
{
    for (unsigned i = 0; i < LINES; i++)
        if (memory->pending[i] > world->host[i] && context_of(world, i) != ctx)
            return false;
    return true;
}

void diff_submitted(struct diff_world *world, int line, struct diff_memory *a,
                    struct diff_memory *b)
{
    world->count[line]++;
    if (a)
        a->pending[line] = world->count[line];
    if (b)
        b->pending[line] = world->count[line];
}

void diff_host_waited(struct diff_world *world, int line)
{
    join_line(world, world->host, (unsigned)line);
}

void diff_host_waited_context(struct diff_world *world, unsigned ctx)
{
    for (unsigned i = 0; i < LINES; i++)
        if (context_of(world, i) == ctx)
            join_line(world, world->host, i);
}

bool diff_line_made(struct diff_world *world, int line)
{
    if (world->count[line] > world->host[line])
        return false;
    memset(world->seen[line], 0, sizeof(diff_clock));
    return true;
}

bool diff_line_quiet(struct diff_world *world, int line)
{
    diff_clock all = {0};

    join_line(world, all, (unsigned)line);
    for (unsigned i = 0; i < LINES; i++)
        if (all[i] > world->host[i])
            return false;
    return true;
}

bool diff_all_quiet(struct diff_world *world)
{
    for (unsigned i = 0; i < LINES; i++)
        if (world->count[i] > world->host[i])
            return false;
    return true;
}

bool diff_lost(struct diff_world *world)
{
    for (unsigned i = 0; i < LINES; i++)
        if (world->lost[i] > world->host[i])
            return true;
    return false;
}

void diff_recorded(struct diff_world *world, struct diff_slot *event, int line)
{
    memset(event->cover, 0, sizeof(diff_clock));
    join_line(world, event->cover, (unsigned)line);
    event->recorded = true;
    event->captured = false;
}

void diff_behind(struct diff_world *world, int line, const struct diff_slot *event)
{
    join(world->seen[line], event->cover);
}

bool diff_event_quiet(struct diff_world *world, const struct diff_slot *event)
{
    for (unsigned i = 0; i < LINES; i++)
        if (event->cover[i] > world->host[i])
            return false;
    return true;
}

void diff_event_waited(struct diff_world *world, const struct diff_slot *event)
{
    join(world->host, event->cover);
}
