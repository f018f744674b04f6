/*
 * asks.h - asks many processes at once, in a time for all of them.
 * Locks: none; one thread.
 */
#ifndef GS_ASKS_H
#define GS_ASKS_H

#include "shim/tools/reader/ask.h"

/* Of processes at once: each has shared memory and a descriptor until its answer. */
#define GS_ASKS_AT_ONCE 64u

struct gs_asks {
    struct gs_ask_thread *threads;
    struct gs_ask_answer *answers; /* of the same processes */
    size_t count, begun, ended;
    char request[64];
    uint64_t until_ns; /* the end of the time for all */
    unsigned each_ms;  /* the longest wait for one process */
    size_t most_bytes; /* of an answer */
    struct gs_ask_call calls[GS_ASKS_AT_ONCE];
    size_t of[GS_ASKS_AT_ONCE]; /* the process of a call */
    bool used[GS_ASKS_AT_ONCE];
};

/* Begins to ask. Takes `threads`, from malloc. False: no memory. gs_asks_free must follow
 * in any case. */
bool gs_asks_begin(struct gs_asks *asks, struct gs_ask_thread *threads, size_t count,
                   const char *request, unsigned limit_ms, size_t most_bytes);
/* Takes what has come, without a wait. Returns whether each process has answered or will
 * not. */
bool gs_asks_step(struct gs_asks *asks);
void gs_asks_free(struct gs_asks *asks);

#endif
