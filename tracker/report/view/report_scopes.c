/*
 * report_scopes.c - gathers what was allocated in each scope.
 * Owns: nothing.   Lock: none.
 */
#include "gs_compare.h"
#include "tracker/report/report_internal.h"

#include <stdlib.h>

#include "tracker/stacks/scopes.h"

/* Adds a scope that had memory. False: no memory for it. */
static bool add_scope(struct gs_tracker *tracker, struct gs_report_scopes *scopes,
                      uint32_t number)
{
    struct gs_report_scope scope = {.number = number};
    char path[GS_SCOPE_PATH_SIZE];

    if (!gs_tracker_scope_totals(tracker, number, GS_SCOPE_ALL, &scope.totals) ||
        gs_scopes_path(tracker->config.stacks, number, path) == 0) {
        return true;
    }
    if (scopes->count == scopes->capacity) {
        size_t capacity = scopes->capacity * 2 + 16;
        struct gs_report_scope *items =
            reallocarray(scopes->items, capacity, sizeof(*items));
        if (!items) {
            return false;
        }
        scopes->items = items;
        scopes->capacity = capacity;
    }
    scope.path = strdup(path);
    if (!scope.path) {
        return false;
    }
    scopes->items[scopes->count++] = scope;
    return true;
}

/* The highest peak first, then by path. */
static int compare(const void *a, const void *b)
{
    const struct gs_report_scope *left = a, *right = b;

    return GS_FALLING(left->totals.peak_bytes, right->totals.peak_bytes)
               ?: strcmp(left->path, right->path);
}

void gs_report_scopes_gather(struct gs_tracker *tracker, struct gs_report_scopes *scopes)
{
    const uint32_t limit = gs_tracker_scope_limit(tracker);

    for (uint32_t number = 1; number < limit && add_scope(tracker, scopes, number);
         number++) {
    }
    if (scopes->count > 1) {
        qsort(scopes->items, scopes->count, sizeof(*scopes->items), compare);
    }
}

uint64_t gs_report_scopes_missed(const struct gs_report_scopes *scopes)
{
    uint64_t missed = 0;

    for (size_t i = 0; i < scopes->count; i++) {
        missed += strchr(scopes->items[i].path, '/') ? 0 : scopes->items[i].totals.missed;
    }
    return missed;
}

void gs_report_scopes_free(struct gs_report_scopes *scopes)
{
    for (size_t i = 0; i < scopes->count; i++) {
        free(scopes->items[i].path);
    }
    free(scopes->items);
    *scopes = (struct gs_report_scopes){0};
}
