/*
 * asks.c - see asks.h.
 * Owns: nothing.   Lock: none.
 */
#include "shim/tools/server/asks.h"

#include <stdio.h>

#include "gs_clock.h"

#define MS_NS 1000000ull
/* A process that never answers keeps its place no longer than this part of the time. */
#define PARTS 4

bool gs_asks_begin(struct gs_asks *asks, struct gs_ask_thread *threads, size_t count,
                   const char *request, unsigned limit_ms, size_t most_bytes)
{
    *asks =
        (struct gs_asks){.threads = threads,
                         .count = count,
                         .until_ns = gs_now_ns() + limit_ms * MS_NS,
                         .each_ms = count > GS_ASKS_AT_ONCE ? limit_ms / PARTS : limit_ms,
                         .most_bytes = most_bytes};
    (void)snprintf(asks->request, sizeof(asks->request), "%s", request);
    asks->answers = calloc(count + 1, sizeof(*asks->answers));
    return asks->answers;
}

static void end(struct gs_asks *asks, unsigned slot)
{
    gs_ask_end(&asks->calls[slot]);
    asks->answers[asks->of[slot]] = asks->calls[slot].answer;
    asks->used[slot] = false;
    asks->ended++;
}

/* Begins with the next process in a place that is free. */
static void begin(struct gs_asks *asks, unsigned slot, uint64_t now_ns)
{
    size_t i = asks->begun++;
    uint64_t left_ms = asks->until_ns > now_ns ? (asks->until_ns - now_ns) / MS_NS : 0;
    if (left_ms == 0) {
        asks->answers[i] =
            (struct gs_ask_answer){.pid = asks->threads[i].pid, .problem = gs_ask_late};
        asks->ended++;
        return;
    }
    gs_ask_begin(&asks->threads[i], asks->request,
                 left_ms < asks->each_ms ? (unsigned)left_ms : asks->each_ms,
                 asks->most_bytes, &asks->calls[slot]);
    asks->of[slot] = i;
    asks->used[slot] = true;
}

bool gs_asks_step(struct gs_asks *asks)
{
    uint64_t now_ns = gs_now_ns();
    for (unsigned slot = 0; slot < GS_ASKS_AT_ONCE; slot++) {
        while (!asks->used[slot] && asks->begun < asks->count) {
            begin(asks, slot, now_ns);
        }
        if (asks->used[slot] && gs_ask_step(&asks->calls[slot], 0)) {
            end(asks, slot);
        }
    }
    return asks->ended == asks->count;
}

void gs_asks_free(struct gs_asks *asks)
{
    for (unsigned slot = 0; slot < GS_ASKS_AT_ONCE; slot++) {
        if (asks->used[slot]) {
            end(asks, slot);
        }
    }
    for (size_t i = 0; asks->answers && i < asks->count; i++) {
        free(asks->answers[i].text);
    }
    free(asks->answers);
    free(asks->threads);
    *asks = (struct gs_asks){.threads = NULL};
}
