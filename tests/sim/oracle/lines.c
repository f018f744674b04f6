/*
 * lines.c - lines: what a stream's next operation and a host thread's next call are
 * behind, and the slots they count in.
 *
 * A stream counts its operations in a slot of its own. A programmatic launch that does
 * not wait is beside the one before it, so it has another slot, which the stream takes
 * again once it knows all that was counted there. So does a new line with the slot of one
 * that ended, but only if whoever makes it knows, in both clocks, all that was done
 * there: the new points then follow the old ones in truth, and no order is invented.
 *
 * Owns:  lines, pasts of host threads, slots.   Lock: the oracle's.
 */
#include "oracle_state.h"

#include <stdlib.h>
#include <string.h>

#define MOST_TRIED 64 /* slots that are looked at for one to take again */

struct oracle_line *oracle_lines; /* the oracle's lock */

static struct oracle_past everyone;    /* the oracle's lock; host threads' common past */
static struct oracle_past gone;        /* the oracle's lock; of threads that ended */
static uint64_t versions;              /* the oracle's lock */
static struct oracle_line *idle_lines; /* the oracle's lock */

/* ---- slots ------------------------------------------------------------------------ */

static uint32_t slot_count;             /* the oracle's lock */
static struct oracle_point *idle_slots; /* the oracle's lock; with their last point */
static size_t idle_count, idle_room;    /* the oracle's lock */
static size_t next_tried;               /* the oracle's lock */

static bool known_raw(const struct oracle_pair *pair, struct oracle_point point)
{
    return oracle_clock_at(pair->n, point.slot) >= point.index &&
           oracle_clock_at(pair->s, point.slot) >= point.index;
}

struct oracle_point oracle_slot_take(const struct oracle_pair *known)
{
    size_t tries = idle_count < MOST_TRIED ? idle_count : MOST_TRIED;

    for (; tries > 0; tries--) {
        next_tried = (next_tried + 1) % idle_count;
        struct oracle_point point = idle_slots[next_tried];
        if (point.index < UINT32_MAX / 2 && known_raw(known, point)) {
            idle_slots[next_tried] = idle_slots[--idle_count];
            return point;
        }
    }
    return (struct oracle_point){slot_count++, 0};
}

void oracle_slot_put_back(struct oracle_point last)
{
    if (idle_count == idle_room) {
        size_t room = idle_room ? 2 * idle_room : 64;
        void *grown = oracle_allocate(idle_slots, room * sizeof(*idle_slots));
        if (!grown)
            return; /* never used again: nothing is wrong with that */
        idle_slots = grown;
        idle_room = room;
    }
    idle_slots[idle_count++] = last;
}

struct oracle_point oracle_slot_next(struct oracle_pair *knows, struct oracle_point here)
{
    if (here.index == UINT32_MAX) {
        oracle_pair_raise(knows, here);
        here = (struct oracle_point){slot_count++, 0};
    }
    here.index++;
    return here;
}

/* ---- pasts ------------------------------------------------------------------------ */

/* The first past among these lines. */
static struct oracle_past *first_past(struct oracle_line *line)
{
    while (line && line->kind != ORACLE_HOST)
        line = line->next;
    return line ? line->past : NULL;
}

struct oracle_past *oracle_next_past(const struct oracle_past *last)
{
    if (!oracle_options.separate_hosts)
        return last ? NULL : &everyone;
    return first_past(last ? last->line->next : oracle_lines);
}

void oracle_pasts_visit(void (*visit)(struct oracle_pair *pair, struct oracle_point here))
{
    const struct oracle_point none = {ORACLE_NO_SLOT, 0};

    visit(&gone.knows, none);
    for (struct oracle_past *past = oracle_next_past(NULL); past;
         past = oracle_next_past(past)) {
        visit(&past->knows, none);
        past->version = ++versions;
    }
}

void oracle_past_learns(struct oracle_past *past, const struct oracle_pair *pair,
                        struct oracle_point point, bool n)
{
    if (n) {
        oracle_pair_join(&past->knows, pair);
        oracle_pair_raise(&past->knows, point);
    } else {
        oracle_clock_join(&past->knows.s, pair->s);
        oracle_clock_raise(&past->knows.s, point);
    }
    past->version = ++versions;
}

void oracle_past_ought(struct oracle_past *past, const struct oracle_line *line)
{
    oracle_clock_join(&past->knows.n, line->knows.n);
    oracle_clock_raise(&past->knows.n, line->here);
    past->version = ++versions;
}

struct oracle_point oracle_past_event(struct oracle_past *past)
{
    if (past->here.slot == ORACLE_NO_SLOT || past->here.index == 0)
        past->here = oracle_slot_take(&past->knows);
    past->here = oracle_slot_next(&past->knows, past->here);
    oracle_pair_raise(&past->knows, past->here);
    past->version = ++versions;
    return past->here;
}

/* What every host thread knows, together. */
static void join_all_pasts(struct oracle_pair *into)
{
    oracle_pair_join(into, &gone.knows);
    for (struct oracle_past *past = oracle_next_past(NULL); past;
         past = oracle_next_past(past))
        oracle_pair_join(into, &past->knows);
}

/* ---- lines ------------------------------------------------------------------------ */

static struct oracle_line *line_alloc(void)
{
    struct oracle_line *line = idle_lines;

    if (line)
        idle_lines = line->next;
    else
        line = oracle_allocate(NULL, sizeof(*line));
    if (line)
        memset(line, 0, sizeof(*line));
    return line;
}

static void link_line(struct oracle_line *line)
{
    line->next = oracle_lines;
    if (line->next)
        line->next->prev = line;
    oracle_lines = line;
}

struct oracle_line *oracle_line_new(enum oracle_line_kind kind, uint64_t id,
                                    struct oracle_line *host)
{
    oracle_lock();
    struct oracle_line *line = line_alloc();
    if (!line) {
        oracle_lose();
        oracle_unlock();
        return NULL;
    }
    struct oracle_past *creator = oracle_past_of(host);

    line->kind = kind;
    line->id = id;
    line->own.line = line;
    line->past = oracle_options.separate_hosts ? &line->own : &everyone;
    if (creator)
        oracle_pair_set(&line->knows, &creator->knows);
    else
        join_all_pasts(&line->knows);
    if (kind == ORACLE_STREAM) {
        line->here = oracle_slot_take(&line->knows);
        oracle_pair_set(&line->base, &line->knows);
        line->base_here.slot = line->last_here.slot = ORACLE_NO_SLOT;
    } else {
        if (oracle_options.separate_hosts)
            line->own.knows = line->knows; /* with its references */
        else
            oracle_pair_clear(&line->knows);
        line->knows = (struct oracle_pair){NULL, NULL};
        line->own.version = ++versions;
    }
    link_line(line);
    oracle_unlock();
    return line;
}

static void stream_ends(struct oracle_line *line)
{
    struct oracle_beside *beside = &line->beside;

    oracle_slot_put_back(line->here);
    if (line->unfenced.index > 0)
        oracle_slot_put_back(line->unfenced);
    for (uint32_t i = 0; i < beside->count; i++)
        oracle_slot_put_back(beside->points[(beside->first + i) & (beside->room - 1)]);
    free(beside->points);
    oracle_pair_clear(&line->knows);
    oracle_pair_clear(&line->base);
    oracle_pair_clear(&line->last);
}

void oracle_line_end(struct oracle_line *line)
{
    if (!line)
        return;
    oracle_lock();
    if (line->kind == ORACLE_STREAM) {
        stream_ends(line);
    } else {
        oracle_pair_join(&gone.knows, &line->own.knows);
        oracle_pair_clear(&line->own.knows);
        if (line->own.here.index > 0)
            oracle_slot_put_back(line->own.here);
    }
    if (line->next)
        line->next->prev = line->prev;
    if (line->prev)
        line->prev->next = line->next;
    else
        oracle_lines = line->next;
    line->next = idle_lines;
    idle_lines = line;
    oracle_unlock();
}
