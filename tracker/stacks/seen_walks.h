/*
 * seen_walks.h - walks that were made before: what they read, and the stack they found.
 *
 * A walk is a function of where it starts, of the rules it follows, and of the words it
 * reads from the stack. If all of these are what they were, its result is what it was:
 * a stack is recognised by reading the same words again, at a tenth of what the walk,
 * the trimming and the look-up cost. Nothing is assumed about a stack that looks alike.
 *
 * Owns: struct gs_walk_notes, and the table (seen_walks.c).   Lock: none.
 * Design: docs/stacks.md
 */
#ifndef GS_SEEN_WALKS_H
#define GS_SEEN_WALKS_H

#include "gs_base.h"

/* Two words a frame for a stack of the usual depth. Longer ones are walked each time. */
#define GS_WALK_WORDS 160u

/* The words that one walk read, from `base` outwards. */
struct gs_walk_notes {
    uintptr_t base;                  /* what lies further in is not noted */
    uint64_t generation;             /* of the rules */
    unsigned count;                  /* GS_WALK_WORDS + 1: they were too many */
    uint32_t offsets[GS_WALK_WORDS]; /* from base, in words */
    uintptr_t words[GS_WALK_WORDS];
};

/* What a walk depends on besides the words. */
struct gs_walk_start {
    uintptr_t base, high; /* the frame it starts in, and the end of the thread's stack */
    uint64_t generation;  /* of the rules */
    uint64_t stacks;      /* which gs_stacks: its unwinder, depth and ids */
};

static inline void gs_walk_note(struct gs_walk_notes *notes, uintptr_t address,
                                uintptr_t word)
{
    size_t offset = (address - notes->base) / sizeof(uintptr_t);

    if (address < notes->base)
        return;
    if (notes->count >= GS_WALK_WORDS || offset > UINT32_MAX) {
        notes->count = GS_WALK_WORDS + 1;
        return;
    }
    notes->offsets[notes->count] = (uint32_t)offset;
    notes->words[notes->count++] = word;
}

/* Id of the stack that a walk from there would find; 0: it has to be walked. `base` and
 * all above it up to `high` can be read. */
uint32_t gs_seen_walks_find(const struct gs_walk_start *start);

/* A walk from there found the stack `id`. Dropped where another thread is at the place.
 */
void gs_seen_walks_add(const struct gs_walk_start *start,
                       const struct gs_walk_notes *notes, uint32_t id);

#endif
