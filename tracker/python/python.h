/*
 * python.h - the frames of CPython's functions, read without the interpreter's help.
 *
 * A thread that runs Python has a chain of Python frames beside its native stack. They
 * are read as plain memory by the thread they belong to: no lock of the interpreter's is
 * taken, nothing of it is called but the look-up of the thread's own state. Where the
 * layout of a version is not known for certain there are no Python frames.
 *
 * A Python frame gets a number in the place of a return address, from a range in which no
 * code can lie, so that stacks of both kinds of frames are kept as all others are.
 *
 * Locks: none for what was seen before; the owner's for what is new. Design:
 * docs/python.md.
 */
#ifndef GS_PYTHON_H
#define GS_PYTHON_H

#include "gs_base.h"
#include "gs_locks.h"
#include "stacks.h"

struct gs_python;

/* A walk gives the program's frames, and between them where one call of the interpreter's
 * evaluation function ends and the next one out begins. */
#define GS_PYTHON_RUN_END GS_PYTHON_FRAME_BASE

/* Deeper than any stack that is kept. */
#define GS_PYTHON_ENTRIES_MAX (2 * GS_STACK_MAX_DEPTH + 2)

/* The calling thread's Python frames, innermost first. */
struct gs_python_walk {
    unsigned count, runs;
    uint32_t id; /* equal walks, equal numbers; 0: no frames, or no memory */
    bool truncated;
    uintptr_t entries[GS_PYTHON_ENTRIES_MAX]; /* frames, and GS_PYTHON_RUN_END */
    /* Of each run, an address within the evaluation function's native frame; 0: unknown
     */
    uintptr_t places[GS_STACK_MAX_DEPTH + 2];
};

/* A native stack and the frames that a merge makes of it. */
struct gs_native_walk {
    const uintptr_t *frames;
    const uintptr_t *places; /* stack pointer of each frame; NULL: not known */
    unsigned count;
    bool truncated;
};

struct gs_merged_stack {
    uintptr_t frames[GS_STACK_MAX_DEPTH];
    unsigned count;
    bool truncated;
};

/* NULL: a version or a build that is not known, or no memory. `lock` is the owner's and
 * is taken for what is new; `memory` is where places are kept. */
struct gs_python *gs_python_create(const struct gs_python_symbols *symbols,
                                   struct gs_mutex *lock, struct gs_state_memory *memory);
/* For places alone, of an interpreter elsewhere. NULL: no memory. */
struct gs_python *gs_python_create_bare(struct gs_mutex *lock);
void gs_python_destroy(struct gs_python *python);

/*
 * To be called where the process ends and there is still something to do: keeps threads
 * that Python never waited for from waking up in an interpreter that is gone. Only where
 * they would crash (docs/python.md). Returns whether they are held, which is for good.
 */
bool gs_python_hold_rest(const struct gs_python_symbols *symbols);

/* Is the interpreter on this native stack? Only then does it have a state of this thread
 * that can be read. */
bool gs_python_runs(const struct gs_python *python, const uintptr_t *frames,
                    unsigned count);

/* Walk the frames of the calling thread, at most `depth` of them; count 0: there are none
 * to be had. May change errno. */
void gs_python_walk(struct gs_python *python, unsigned depth,
                    struct gs_python_walk *walk);

/* Whether the walk would be this thread's last one, by its number: a fraction of what the
 * walk costs. May change errno. */
bool gs_python_recognise(struct gs_python *python, uint32_t *id);

/* The stack that was made of a native stack and a walk, as gs_python_pair_add was told;
 * 0: not known (any more). */
uint32_t gs_python_pair_find(const struct gs_python *python, uint32_t native,
                             uint32_t walk);
void gs_python_pair_add(struct gs_python *python, uint32_t native, uint32_t walk,
                        uint32_t stack);

/* The native stack with the interpreter's own frames replaced by Python's: the innermost
 * `depth` frames, and further out Python frames alone, to GS_STACK_MAX_DEPTH in all. A
 * frame named "[native frames left out]" stands where native ones lie between them. */
void gs_python_merge(const struct gs_python *python, const struct gs_native_walk *native,
                     const struct gs_python_walk *walk, unsigned depth,
                     struct gs_merged_stack *out);

/* What a frame's number stands for. GS_ERR_NOT_FOUND. */
enum gs_status gs_python_place(const struct gs_python *python, uintptr_t frame,
                               struct gs_python_place *out) GS_MUST_USE;

size_t gs_python_bytes(const struct gs_python *python);

#endif
