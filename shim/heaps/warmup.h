/*
 * warmup.h - GPUSHIM_WARMUP: blocks made ready before the program asks for them.
 */
#ifndef GS_WARMUP_H
#define GS_WARMUP_H

#include "contexts.h"

#define GS_WARMUP_ITEMS     64u
#define GS_WARMUP_COUNT_MAX 1000000u

struct gs_warmup_list {
    struct gs_warmup_item {
        size_t bytes;
        unsigned count;
    } items[GS_WARMUP_ITEMS];
    size_t count;
};

/* Told of each item that is wrong: its text (not NUL-terminated), and what it is not. */
typedef void (*gs_warmup_problem)(void *self, const char *item, size_t length,
                                  const char *problem);

/* Read "SIZE:COUNT,SIZE:COUNT": what is right goes to *out, what is wrong to `problem`.
 * Touches nothing else. */
void gs_warmup_parse(const char *text, struct gs_warmup_list *out,
                     gs_warmup_problem problem, void *self);

extern bool gs_warmup_wanted; /* written once, at start, before any call is served */

/* At start: reads the list, one line in the log for each item that is wrong. */
void gs_warmup_start(const char *text);
void gs_warmup_reset(void); /* in a forked child */
/* Allocate and free the list's blocks, unless that was done for the context. */
void gs_warmup_run(const struct gs_context *context);

/* Before a pooled allocation of the context is served. */
static inline void gs_warmup(const struct gs_context *context)
{
    if (GS_UNLIKELY(gs_warmup_wanted)) {
        gs_warmup_run(context);
    }
}

#endif
