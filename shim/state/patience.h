/*
 * patience.h - how often to ask again: less and less for as long as the answer is "not
 * yet". Owns: nothing.   Lock: none; relaxed atomics, a race asks once more or less.
 */
#ifndef GS_PATIENCE_H
#define GS_PATIENCE_H

#include <stdbool.h>

/* Those who pass without asking, at most, after so many asked in vain. */
#define GS_PATIENCE_MOST 63u

struct gs_patience {
    unsigned passed; /* since one asked */
    unsigned wanted; /* are to pass before the next one asks */
};

/* One asks, and the next ones are to be the more patient. */
static inline void gs_patience_asked(struct gs_patience *patience)
{
    unsigned wanted = __atomic_load_n(&patience->wanted, __ATOMIC_RELAXED);

    wanted = wanted < GS_PATIENCE_MOST ? 2 * wanted + 1 : GS_PATIENCE_MOST;
    __atomic_store_n(&patience->wanted, wanted, __ATOMIC_RELAXED);
    __atomic_store_n(&patience->passed, 0, __ATOMIC_RELAXED);
}

/* Is it this one's turn? */
static inline bool gs_patience_is_over(struct gs_patience *patience)
{
    return __atomic_add_fetch(&patience->passed, 1, __ATOMIC_RELAXED) >=
           __atomic_load_n(&patience->wanted, __ATOMIC_RELAXED);
}

/* The answer was "yes": the next one asks at once. */
static inline void gs_patience_paid(struct gs_patience *patience)
{
    __atomic_store_n(&patience->wanted, 0, __ATOMIC_RELAXED);
}

#endif
