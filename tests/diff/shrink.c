/*
 * shrink.c - the smallest list that still differs: delta debugging (Zeller and
 * Hildebrandt, 2002) over operations, then over what is left of them.
 */
#include <stdlib.h>
#include <string.h>

#include "diff.h"

struct shrinker {
    struct diff_list *list;
    struct diff_list *trial;
    diff_differs *differs;
    void *argument;
    unsigned asked;
};

/* Keeps the trial if it differs. */
static bool kept(struct shrinker *shrinker)
{
    shrinker->asked++;
    if (!shrinker->differs(shrinker->trial, shrinker->argument))
        return false;
    *shrinker->list = *shrinker->trial;
    return true;
}

static bool without(struct shrinker *shrinker, unsigned from, unsigned count)
{
    struct diff_list *trial = shrinker->trial;

    *trial = *shrinker->list;
    memmove(&trial->ops[from], &trial->ops[from + count],
            (trial->count - from - count) * sizeof(*trial->ops));
    trial->count -= count;
    return kept(shrinker);
}

/* Takes out runs of operations, from half of them down to single ones. */
static bool fewer(struct shrinker *shrinker)
{
    bool any = false;

    for (unsigned run = shrinker->list->count / 2; run > 0; run /= 2)
        for (unsigned from = shrinker->list->count; from >= run; from -= run)
            any = (from <= shrinker->list->count && without(shrinker, from - run, run)) ||
                  any;
    return any;
}

/* One thread instead of several, no settings, zero instead of numbers. */
static bool plainer(struct shrinker *shrinker)
{
    struct diff_list *list = shrinker->list, *trial = shrinker->trial;
    bool any = false;

    *trial = *list;
    for (unsigned i = 0; i < trial->count; i++)
        trial->ops[i].thread = 0;
    any =
        memcmp(trial->ops, list->ops, list->count * sizeof(*list->ops)) && kept(shrinker);
    for (unsigned i = 0; i < list->count; i++)
        for (unsigned j = 0; j < DIFF_ARGS; j++) {
            if (list->ops[i].args[j] == 0)
                continue;
            *trial = *list;
            trial->ops[i].args[j] = 0;
            any = kept(shrinker) || any;
        }
    *trial = *list;
    trial->free = false;
    any = (list->free && kept(shrinker)) || any;
    *trial = *list;
    trial->way = DIFF_WAY_LINKED;
    any = (list->way && kept(shrinker)) || any;
    *trial = *list;
    trial->lean = false;
    return (list->lean && kept(shrinker)) || any;
}

unsigned diff_shrink(struct diff_list *list, diff_differs *differs, void *argument)
{
    struct shrinker shrinker = {list, malloc(sizeof(*list)), differs, argument, 0};

    if (!shrinker.trial)
        return 0;
    while (fewer(&shrinker) || (list->count < 40 && plainer(&shrinker)))
        if (shrinker.asked > 3000)
            break;
    free(shrinker.trial);
    return shrinker.asked;
}
