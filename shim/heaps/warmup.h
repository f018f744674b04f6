/*
 * warmup.h - GPUSHIM_WARMUP: allocates blocks before the program asks for them.
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

/* Called for each wrong item: its text (not NUL-terminated) and a description of the
 * error. */
typedef void (*gs_warmup_problem)(void *self, const char *item, size_t length,
                                  const char *problem);

/* Parses "SIZE:COUNT,SIZE:COUNT": valid items go to *out, wrong ones to `problem`. Has no
 * other effect. */
void gs_warmup_parse(const char *text, struct gs_warmup_list *out,
                     gs_warmup_problem problem, void *self);

extern bool gs_warmup_wanted; /* written once, at start, before any call is served */

/* Called at start: reads the list, and logs a line for each wrong item. */
void gs_warmup_start(const char *text);
void gs_warmup_reset(void); /* in a forked child */
/* Allocates the blocks of a list, then frees them all. `who`: whose list it is, for the
 * log. Returns false if there is memory for some of them only. */
bool gs_warmup_allocate(const struct gs_context *context,
                        const struct gs_warmup_list *blocks, const char *who);
/* The same for the list of GPUSHIM_WARMUP, once a context. */
void gs_warmup_run(const struct gs_context *context);

/* Called before a pooled allocation of the context is served. */
static inline void gs_warmup(const struct gs_context *context)
{
    if (GS_UNLIKELY(gs_warmup_wanted)) {
        gs_warmup_run(context);
    }
}

#endif
