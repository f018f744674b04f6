/*
 * patience.h - a back-off for polling: fewer queries while the answer stays "not yet".
 * Owns: nothing.   Lock: none; relaxed atomics, a race costs or saves one query.
 */
#ifndef GS_PATIENCE_H
#define GS_PATIENCE_H

#include <stdbool.h>

/* The most callers that skip the query between two queries. */
#define GS_PATIENCE_MOST 63u

struct gs_patience {
    unsigned passed; /* callers that skipped since the last query */
    unsigned wanted; /* callers that skip before the next query */
};

/* A caller queries: more callers skip before the next query. */
static inline void gs_patience_queried(struct gs_patience *patience)
{
    unsigned wanted = __atomic_load_n(&patience->wanted, __ATOMIC_RELAXED);

    wanted = wanted < GS_PATIENCE_MOST ? 2 * wanted + 1 : GS_PATIENCE_MOST;
    __atomic_store_n(&patience->wanted, wanted, __ATOMIC_RELAXED);
    __atomic_store_n(&patience->passed, 0, __ATOMIC_RELAXED);
}

/* Returns true if this caller should query. */
static inline bool gs_patience_is_over(struct gs_patience *patience)
{
    return __atomic_add_fetch(&patience->passed, 1, __ATOMIC_RELAXED) >=
           __atomic_load_n(&patience->wanted, __ATOMIC_RELAXED);
}

/* The query found something complete: the next caller queries at once. */
static inline void gs_patience_paid(struct gs_patience *patience)
{
    __atomic_store_n(&patience->wanted, 0, __ATOMIC_RELAXED);
}

#endif
