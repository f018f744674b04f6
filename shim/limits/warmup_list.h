/*
 * warmup_list.h - GPUSHIM_WARMUP: how many blocks of which sizes are allocated ahead.
 */
#ifndef GS_WARMUP_LIST_H
#define GS_WARMUP_LIST_H

#include "gs_base.h"

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

/* gs_warmup_parse of an option's value: a list, or @FILE, a file with a list, which may
 * begin with GPUSHIM_WARMUP=, as gpushim advise --warmup writes it. */
void gs_warmup_read(const char *text, struct gs_warmup_list *out,
                    gs_warmup_problem problem, void *self);

#endif
