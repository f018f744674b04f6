/*
 * walk_cache.h - a cache of walks: the words that decided a walk, and the stack that it
 * found.
 *
 * A walk is a function of its start, of the rules it follows, and of the words it reads
 * from the stack. If all of these are unchanged, so is its result. So the cache
 * recognises a stack by reading these words again, at a tenth of the cost of walk,
 * trimming and look-up. It never takes a stack that merely looks alike for a known one.
 *
 * Owns: struct gs_walk_reads, and the table (walk_cache.c).   Lock: none.
 * Design: docs/stacks.md
 */
#ifndef GS_WALK_CACHE_H
#define GS_WALK_CACHE_H

#include "gs_base.h"
#include "tracker/stacks/stacks.h"

/* Frames inside the unwinder and the shim: a walk reads up to so many in addition, and
 * drops them. */
#define GS_WALK_INNER_MAX 32u
/* Two words a frame at most, for the deepest stack. */
#define GS_WALK_WORDS (2 * (GS_STACK_MAX_DEPTH + 1 + GS_WALK_INNER_MAX))
/* A count: the result depends on more than the recorded words, so it cannot be cached. */
#define GS_WALK_NOT_CACHED (GS_WALK_WORDS + 1)

/* Where the words are that decided a walk, from `base` outwards. The frames that hold
 * them are those of callers: the words stay as they are until the walk is added. */
struct gs_walk_reads {
    uintptr_t base;                  /* words further in are not recorded */
    uint64_t generation;             /* of the rules */
    unsigned count;                  /* or GS_WALK_NOT_CACHED */
    uint32_t offsets[GS_WALK_WORDS]; /* from base, in words */
};

/* The inputs of a walk besides the words. */
struct gs_walk_start {
    uintptr_t base, high; /* the frame it starts in, and the end of the thread's stack */
    uint64_t generation;  /* of the rules */
    uint64_t stacks;      /* identifies a gs_stacks: its unwinder, depth and ids */
};

static inline void gs_walk_record(struct gs_walk_reads *notes, uintptr_t address)
{
    size_t offset = (address - notes->base) / sizeof(uintptr_t);

    if (address < notes->base) {
        return;
    }
    if (notes->count >= GS_WALK_WORDS || offset > UINT32_MAX) {
        notes->count = GS_WALK_NOT_CACHED;
        return;
    }
    notes->offsets[notes->count++] = (uint32_t)offset;
}

/* Returns the id of the stack that a walk from `start` would find; 0: unknown, walk. The
 * range from `base` up to `high` is readable. */
uint32_t gs_walk_cache_find(const struct gs_walk_start *start);

/* Records that a walk from `start` found the stack `id`, with the words that the stack
 * holds now. Dropped if another thread is writing the slot. */
void gs_walk_cache_add(const struct gs_walk_start *start,
                       const struct gs_walk_reads *notes, uint32_t id);

#endif
